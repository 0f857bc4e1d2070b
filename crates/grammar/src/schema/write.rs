//! Rules written as a grammar, in a notation: one rule for each value, at each depth of notations
//! that it is written at, that is asked for by another.
use super::number::Written;
use super::rules::{Rules, literal};
use super::shape::{Places, Shape, Strings};
use super::strings::{self, Form};
use crate::error::GrammarError;
use crate::notation::{Bare, Frame, Mark, Notation, Quotes};
use crate::pattern::Spelling;
use std::collections::HashSet;
use std::fmt::Write;

/// Most bytes of a grammar.
const MOST_BYTES: usize = 4 << 20;

/// Which of a rule's values are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Which {
    All,
    /// All but strings.
    Others,
    Objects,
}

/// A rule, a depth, and which values.
type Item = (usize, usize, Which);

/// Writes a grammar.
pub(super) struct Writer<'a> {
    pub rules: &'a Rules,
    /// Of the value, of those in it, and so on; the last is for all deeper.
    notations: &'a [Notation],
    pub out: String,
    open: Vec<Item>,
    asked: HashSet<Item>,
    /// Terminals of strings without quotes: rule, depth, and whether nothing may stand there too.
    bare: HashSet<(usize, usize, bool)>,
    /// Terminals of keys so far.
    keys: usize,
}

impl<'a> Writer<'a> {
    /// Writes all of a grammar: values that are written by `notations`, or only objects.
    ///
    /// # Errors
    /// What is too large to be written, or can't be in this notation, with its place.
    pub fn write(
        rules: &'a Rules,
        notations: &'a [Notation],
        which: Which,
    ) -> Result<String, GrammarError> {
        let (open, asked, bare) = (Vec::new(), HashSet::new(), HashSet::new());
        let out = String::new();
        let mut writer = Writer { rules, notations, out, open, asked, bare, keys: 0 };
        let start = writer.ask(0, 0, which);
        let _ = writeln!(writer.out, "start: {start}");
        while let Some(item) = writer.open.pop() {
            let refused =
                |what| GrammarError::Schema { path: rules.rules[item.0].at.clone(), what };
            writer.rule(item).map_err(refused)?;
            if writer.out.len() > MOST_BYTES {
                return Err(GrammarError::TooLarge(format!(
                    "the schema's grammar has more than {MOST_BYTES} bytes"
                )));
            }
        }
        Ok(writer.out)
    }

    pub fn notation(&self, depth: usize) -> &'a Notation {
        &self.notations[depth]
    }
    fn below(&self, depth: usize) -> usize {
        (depth + 1).min(self.notations.len() - 1)
    }
    /// The name of a rule, which will be written.
    fn ask(&mut self, rule: usize, depth: usize, which: Which) -> String {
        if self.asked.insert((rule, depth, which)) {
            self.open.push((rule, depth, which));
        }
        named("v", (rule, depth, which))
    }

    fn rule(&mut self, item: Item) -> Result<(), String> {
        let (number, depth, which) = item;
        let rules = self.rules;
        let notation = self.notation(depth);
        let (mut scalars, mut options) = (Vec::new(), Vec::new());
        let live = |s: &&Shape| rules.shape_lives(s);
        for (i, shape) in rules.rules[number].shapes.iter().filter(live).enumerate() {
            match shape {
                Shape::Object(o) => {
                    let name = format!("{}_{i}", named("o", item));
                    self.object(&name, o, depth)?;
                    options.push(name);
                }
                _ if which == Which::Objects => {}
                Shape::Null => scalars.push(self.words(depth, "null", "None")),
                Shape::Bool(true) => scalars.push(self.words(depth, "true", "True")),
                Shape::Bool(false) => scalars.push(self.words(depth, "false", "False")),
                Shape::String(_) if which == Which::Others => {}
                Shape::String(s) => match &notation.quotes {
                    Quotes::Json => scalars.extend(strings::json(s, &notation.without)?),
                    Quotes::Python => scalars.extend(strings::python(s, &notation.without)?),
                    Quotes::Marks(open, end) => {
                        let name = format!("Q{}_{i}", named("v", item).to_uppercase());
                        options.extend(self.between(&name, s, open, end, &notation.without)?);
                    }
                },
                Shape::Number(n) => match n.lark()? {
                    Written::Terminal(terminal) => scalars.push(terminal),
                    Written::Rule(rule) => options.push(rule),
                },
                Shape::Array(a) => {
                    let name = format!("{}_{i}", named("a", item));
                    self.array(&name, a, depth)?;
                    options.push(name);
                }
            }
        }
        if !scalars.is_empty() {
            let name = named("v", item).to_uppercase();
            let _ = writeln!(self.out, "S{name}: {}", scalars.join(" | "));
            options.push(format!("S{name}"));
        }
        if options.is_empty() {
            return Err(match which {
                Which::Objects => "no object satisfies it".to_owned(),
                _ => "no value of it can be written in this notation".to_owned(),
            });
        }
        let _ = writeln!(self.out, "{}: {}", named("v", item), options.join(" | "));
        Ok(())
    }

    /// Marks as a part of a rule. What stands between two tokens is one terminal, so that of two keys
    /// the longer does not hide the other.
    fn marks(&mut self, marks: &[Mark], key: &Key) -> String {
        let mut parts = Vec::new();
        for run in marks.split_inclusive(|mark| matches!(mark, Mark::Token(_))) {
            let (run, last) = match run {
                [run @ .., last @ Mark::Token(_)] => (run, token(last)),
                run => (run, String::new()),
            };
            let spelled = match key {
                Key::Named { spelled, .. } => spelled.as_str(),
                Key::None | Key::Any(_) => "",
            };
            parts.push(match key {
                Key::Any(terminal) if run.contains(&Mark::Key) => self.any_key(run, terminal),
                _ => {
                    let text = run.iter().map(|mark| match mark {
                        Mark::Text(text) => text.as_str(),
                        _ => spelled,
                    });
                    part(&Mark::Text(text.collect()))
                }
            });
            parts.push(last);
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" ")
    }
    /// The name of a terminal of any key with what is around it.
    fn any_key(&mut self, run: &[Mark], terminal: &str) -> String {
        let inner = |mark: &Mark| match mark {
            Mark::Key => format!("({terminal})"),
            other => part(other),
        };
        let all: Vec<String> = run.iter().map(inner).filter(|part| !part.is_empty()).collect();
        self.keys += 1;
        let name = format!("K{}", self.keys);
        let _ = writeln!(self.out, "{name}: {}", all.join(" "));
        name
    }

    fn words(&self, depth: usize, json: &str, python: &str) -> String {
        match self.notation(depth).quotes {
            Quotes::Python => format!("\"{python}\" | \"{json}\""),
            _ => format!("\"{json}\""),
        }
    }

    /// Strings as they are between two marks.
    fn between(
        &mut self,
        name: &str,
        strings: &Strings,
        open: &Mark,
        end: &Mark,
        without: &[String],
    ) -> Result<Option<String>, String> {
        let Some(terminal) = text(strings, "", end, without)? else { return Ok(None) };
        let _ = writeln!(self.out, "{name}: {terminal}");
        Ok(Some([part(open), name.to_owned(), token(end)].join(" ")))
    }

    /// A value in a frame, with what is around it.
    pub fn value(
        &mut self,
        frame: &'a Frame,
        depth: usize,
        key: &Key,
        places: &Places,
    ) -> Result<String, String> {
        let (number, below) = (self.rules.number(places), self.below(depth));
        let after = self.marks(&frame.after, key);
        let Some(bare) = &frame.bare else {
            let value = self.ask(number, below, Which::All);
            return Ok([self.marks(&frame.before, key), value, after].join(" "));
        };
        let end = [Mark::Text(bare.pad.clone()), bare.end.clone()];
        let end = self.marks(&[&end[..], &frame.after[..]].concat(), key);
        let (strings, others) = self.rules.parted(number);
        let told = bare.before.as_deref();
        let read = match (&bare.keys, key) {
            (Some(keys), Key::Named { name, .. }) => keys.contains(name),
            (Some(_), _) => false,
            (None, _) => true,
        };
        let nothing = others == [&Shape::Null];
        if strings.is_empty() || told.is_none() && (!read || !(others.is_empty() || nothing)) {
            let value = self.ask(number, below, Which::All);
            return Ok([self.marks(&frame.before, key), value, end].join(" "));
        }
        let null = told.is_none() && nothing;
        let mut options = Vec::new();
        if let Some(text) = self.bare(number, depth, null, bare, &strings)? {
            let text = format!("{text} {} {after}", token(&bare.end));
            options.push([self.marks(told.unwrap_or(&frame.before), key), text].join(" "));
        }
        // Where any text is one, that of nothing is one too.
        let covered = null && strings.iter().all(|s| s.are_all());
        if !others.is_empty() && !covered {
            let value = self.ask(number, below, Which::Others);
            options.push([self.marks(&frame.before, key), value, end].join(" "));
        }
        match &options[..] {
            [] => Err("a value can't be written in this notation".to_owned()),
            options => Ok(format!("({})", options.join(" | "))),
        }
    }

    /// Strings without quotes, with the text that ends them. With `null`, what is not read as nothing.
    fn bare(
        &mut self,
        number: usize,
        depth: usize,
        null: bool,
        bare: &Bare,
        strings: &[&Strings],
    ) -> Result<Option<String>, String> {
        let name = format!("T{number}D{depth}{}", if null { "N" } else { "" });
        let without = &self.notation(depth).without;
        let (mut terminals, mut fenced) = (Vec::new(), Vec::new());
        for s in strings {
            let mut not = Vec::new();
            if null && !s.are_all() {
                not.push(r#"/\s*(null|None|"(?s:.*))(?s:.*)/"#.to_owned());
            }
            if let Some((open, close)) = &bare.fence {
                not.push(format!("/{}(?s:.*)/", strings::exactly(open)));
                let without = std::slice::from_ref(close);
                let form = Form { spelling: Spelling::Plain, open, close, without };
                fenced.extend(form.terminal(s)?);
            }
            let Some(mut one) = text(s, &bare.pad, &bare.end, without)? else { continue };
            not.iter().for_each(|not| one = format!("({one}) & ~({not})"));
            terminals.push(one);
        }
        if self.bare.insert((number, depth, null)) {
            for (suffix, all) in [("", &terminals), ("F", &fenced)] {
                if !all.is_empty() {
                    let _ = writeln!(self.out, "{name}{suffix}: {}", all.join(" | "));
                }
            }
        }
        let plain = (!terminals.is_empty()).then(|| name.clone());
        let end = match &bare.end {
            Mark::Text(end) => literal(&[&bare.pad, end.as_str()].concat()),
            _ => String::new(),
        };
        let fenced = (!fenced.is_empty()).then(|| format!("{name}F {end}"));
        let both: Vec<String> = plain.into_iter().chain(fenced).collect();
        Ok((!both.is_empty()).then(|| format!("({})", both.join(" | "))))
    }
}

/// Strings as they are, with the text that ends them, if it is one.
fn text(
    strings: &Strings,
    pad: &str,
    end: &Mark,
    without: &[String],
) -> Result<Option<String>, String> {
    // Where any text is one, it need not be padded.
    let pad = if strings.are_all() && matches!(end, Mark::Text(_)) { "" } else { pad };
    let close = match end {
        Mark::Text(end) => [pad, end].concat(),
        _ => pad.to_owned(),
    };
    Form { spelling: Spelling::Plain, open: "", close: &close, without }.terminal(strings)
}

/// What marks name where they name a key.
pub(super) enum Key {
    /// An item has none.
    None,
    /// A property's, and how it is spelled.
    Named { name: String, spelled: String },
    /// Any that this terminal matches.
    Any(String),
}

/// Marks without a key as a part of a rule.
pub(super) fn written(marks: &[Mark]) -> String {
    let parts: Vec<String> = marks.iter().map(part).collect();
    parts.join(" ")
}

fn part(mark: &Mark) -> String {
    match mark {
        Mark::Text(text) if !text.is_empty() => literal(text),
        Mark::Text(_) | Mark::Key => String::new(),
        Mark::Token(_) => token(mark),
    }
}

fn token(mark: &Mark) -> String {
    match mark {
        Mark::Token(id) => format!("<[{id}]>"),
        _ => String::new(),
    }
}

fn named(kind: &str, (rule, depth, which): Item) -> String {
    let depth = if depth == 0 { String::new() } else { format!("d{depth}") };
    let which = match which {
        Which::All => "",
        Which::Others => "x",
        Which::Objects => "o",
    };
    format!("{kind}{rule}{depth}{which}")
}
