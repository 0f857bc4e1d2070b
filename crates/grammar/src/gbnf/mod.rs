//! GBNF, llama.cpp's grammars, into Lark.
//!
//! A Lark terminal is one automaton, and where rules meet the longest terminal wins, which GBNF
//! does not know. So all that does not recurse becomes one terminal; only what recurses is a rule.
mod parser;

use crate::error::GrammarError;
use crate::pattern::MOST_COUNTED;
use crate::schema::literal;
use parser::{Parser, Part, Rule};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Longest grammar that is read.
const LONGEST: usize = 256 << 10;

/// The same grammar in Lark.
///
/// # Errors
/// What is wrong, with its line.
pub fn lark(source: &str) -> Result<String, GrammarError> {
    if source.len() > LONGEST {
        let what = format!("it has {} bytes: at most {LONGEST} are read", source.len());
        return Err(GrammarError::TooLarge(what));
    }
    let rules = Parser::new(source).rules()?;
    let names: HashMap<&str, usize> =
        rules.iter().enumerate().map(|(i, r)| (r.name.as_str(), i)).collect();
    for rule in &rules {
        let mut used = HashSet::new();
        names_in(&rule.part, &mut used);
        if let Some(name) = used.iter().find(|n| !names.contains_key(*n)) {
            return Err(wrong(rule.line, format!("{name:?} is no rule")));
        }
    }
    let Some(root) = names.get("root") else {
        return Err(wrong(1, "there is no rule named root: the text starts there".to_owned()));
    };
    if !ends(&rules, &names)[*root] {
        return Err(wrong(rules[*root].line, "no text of it ever ends".to_owned()));
    }
    let mut known = vec![None; rules.len()];
    for rule in &rules {
        if counted(&rule.part, &rules, &names, &mut known) > MOST_COUNTED {
            let what = format!(
                "its counts multiply to more than {MOST_COUNTED}: use smaller ones, or * and +"
            );
            return Err(wrong(rule.line, what));
        }
    }
    let mut writer = Writer {
        recursive: recursive(&rules, &names),
        names: &names,
        extra: String::new(),
        terminals: 0,
    };
    let mut out = format!("start: {}\n", writer.name(*root));
    for (i, rule) in rules.iter().enumerate() {
        let name = writer.name(i);
        let body =
            if writer.recursive[i] { writer.rule(&rule.part) } else { writer.terminal(&rule.part) };
        let _ = writeln!(out, "{name}: {body}");
    }
    Ok(out + &writer.extra)
}

fn wrong(line: usize, what: String) -> GrammarError {
    GrammarError::Grammar { kind: "GBNF", line: Some(line), what }
}

fn names_in<'a>(part: &'a Part, used: &mut HashSet<&'a str>) {
    match part {
        Part::Name(name) => {
            used.insert(name);
        }
        Part::Sequence(parts) | Part::Options(parts) => {
            parts.iter().for_each(|p| names_in(p, used));
        }
        Part::Repeated(part, ..) => names_in(part, used),
        Part::Text(_) | Part::Class(_) => {}
    }
}

/// Which rules lead back to themselves, or to one that does.
fn recursive(rules: &[Rule], names: &HashMap<&str, usize>) -> Vec<bool> {
    let uses: Vec<Vec<usize>> = rules
        .iter()
        .map(|rule| {
            let mut used = HashSet::new();
            names_in(&rule.part, &mut used);
            used.iter().filter_map(|n| names.get(n).copied()).collect()
        })
        .collect();
    // A rule is flat once all that it uses are.
    let mut flat = vec![false; rules.len()];
    loop {
        let found: Vec<usize> =
            (0..rules.len()).filter(|i| !flat[*i] && uses[*i].iter().all(|j| flat[*j])).collect();
        if found.is_empty() {
            return flat.into_iter().map(|flat| !flat).collect();
        }
        found.into_iter().for_each(|i| flat[i] = true);
    }
}

/// How often the counts in a part, and in what it uses, repeat a character at most.
fn counted(
    part: &Part,
    rules: &[Rule],
    names: &HashMap<&str, usize>,
    known: &mut [Option<u64>],
) -> u64 {
    match part {
        Part::Text(_) | Part::Class(_) => 1,
        Part::Name(name) => {
            let Some(i) = names.get(name.as_str()).copied() else { return 1 };
            if let Some(count) = known[i] {
                return count;
            }
            // Where it recurses, it counts once.
            known[i] = Some(1);
            let count = counted(&rules[i].part, rules, names, known);
            known[i] = Some(count);
            count
        }
        Part::Sequence(parts) | Part::Options(parts) => {
            parts.iter().map(|p| counted(p, rules, names, known)).max().unwrap_or(1)
        }
        Part::Repeated(part, min, max) => {
            counted(part, rules, names, known).saturating_mul(u64::from(max.unwrap_or(*min)).max(1))
        }
    }
}

/// Which rules have a text that ends.
fn ends(rules: &[Rule], names: &HashMap<&str, usize>) -> Vec<bool> {
    fn part_ends(part: &Part, names: &HashMap<&str, usize>, known: &[bool]) -> bool {
        match part {
            Part::Text(_) | Part::Class(_) | Part::Repeated(_, 0, _) => true,
            Part::Name(name) => names.get(name.as_str()).is_some_and(|i| known[*i]),
            Part::Sequence(parts) => parts.iter().all(|p| part_ends(p, names, known)),
            Part::Options(parts) => parts.iter().any(|p| part_ends(p, names, known)),
            Part::Repeated(part, ..) => part_ends(part, names, known),
        }
    }
    let mut known = vec![false; rules.len()];
    loop {
        let more: Vec<usize> = (0..rules.len())
            .filter(|i| !known[*i] && part_ends(&rules[*i].part, names, &known))
            .collect();
        if more.is_empty() {
            return known;
        }
        more.into_iter().for_each(|i| known[i] = true);
    }
}

struct Writer<'a> {
    recursive: Vec<bool>,
    names: &'a HashMap<&'a str, usize>,
    /// Terminals of their own for what does not recurse inside a rule.
    extra: String,
    terminals: usize,
}

impl Writer<'_> {
    fn name(&self, i: usize) -> String {
        if self.recursive[i] { format!("r{i}") } else { format!("R{i}") }
    }
    fn named(&self, name: &str) -> usize {
        self.names.get(name).copied().unwrap_or_default()
    }
    fn recurses(&self, part: &Part) -> bool {
        let mut used = HashSet::new();
        names_in(part, &mut used);
        used.iter().any(|name| self.recursive[self.named(name)])
    }
    fn terminal(&self, part: &Part) -> String {
        match part {
            Part::Text(text) if text.is_empty() => "/(?:)/".to_owned(),
            Part::Text(text) => literal(text),
            Part::Class(class) => format!("/{class}/"),
            Part::Name(name) => self.name(self.named(name)),
            Part::Sequence(parts) if parts.is_empty() => "/(?:)/".to_owned(),
            Part::Sequence(parts) => self.grouped(parts, " "),
            Part::Options(parts) => self.grouped(parts, " | "),
            Part::Repeated(_, _, Some(0)) => "/(?:)/".to_owned(),
            Part::Repeated(part, min, max) => {
                format!("({}){}", self.terminal(part), counts(*min, *max))
            }
        }
    }
    fn grouped(&self, parts: &[Part], between: &str) -> String {
        let parts: Vec<String> = parts.iter().map(|p| self.terminal(p)).collect();
        format!("({})", parts.join(between))
    }
    fn rule(&mut self, part: &Part) -> String {
        match part {
            _ if !self.recurses(part) => {
                let body = self.terminal(part);
                self.extra(&body)
            }
            Part::Name(name) => self.name(self.named(name)),
            Part::Sequence(parts) => {
                let mut out = Vec::new();
                let mut rest = &parts[..];
                while let [first, ..] = rest {
                    let flat = rest.iter().take_while(|p| !self.recurses(p)).count();
                    let (run, after) = rest.split_at(flat.max(1));
                    rest = after;
                    if flat == 0 {
                        out.push(self.rule(first));
                    } else {
                        let body = self.grouped(run, " ");
                        out.push(self.extra(&body));
                    }
                }
                format!("({})", out.join(" "))
            }
            Part::Options(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.rule(p)).collect();
                format!("({})", parts.join(" | "))
            }
            Part::Repeated(_, _, Some(0)) => "\"\"".to_owned(),
            Part::Repeated(part, min, max) => {
                format!("({}){}", self.rule(part), counts(*min, *max))
            }
            Part::Text(_) | Part::Class(_) => String::new(),
        }
    }
    fn extra(&mut self, body: &str) -> String {
        self.terminals += 1;
        let name = format!("X{}", self.terminals);
        let _ = writeln!(self.extra, "{name}: {body}");
        name
    }
}

fn counts(min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (0, None) => "*".to_owned(),
        (1, None) => "+".to_owned(),
        (0, Some(1)) => "?".to_owned(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    }
}
