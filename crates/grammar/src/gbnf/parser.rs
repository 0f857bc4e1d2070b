//! GBNF's syntax.
use super::wrong;
use crate::error::GrammarError;
use std::collections::HashSet;
use std::fmt::Write;

/// Most rules, deepest nesting, most repetitions.
const MOST_RULES: usize = 2_000;
const DEEPEST: usize = 100;
const MOST_REPEATED: u32 = 10_000;

/// An expression.
pub enum Part {
    Text(String),
    /// A character of a set, in the syntax of regular expressions.
    Class(String),
    Name(String),
    Sequence(Vec<Part>),
    Options(Vec<Part>),
    Repeated(Box<Part>, u32, Option<u32>),
}

/// A rule.
pub struct Rule {
    pub name: String,
    pub line: usize,
    pub part: Part,
}

/// Reads rules.
pub struct Parser {
    source: Vec<char>,
    at: usize,
    /// Where lines end.
    ends: Vec<usize>,
}

impl Parser {
    /// Of a source.
    pub fn new(source: &str) -> Parser {
        let ends = source.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(i, _)| i);
        Parser { source: source.chars().collect(), at: 0, ends: ends.collect() }
    }
    fn peek(&self) -> Option<char> {
        self.source.get(self.at).copied()
    }
    fn line(&self) -> usize {
        1 + self.ends.partition_point(|end| *end < self.at)
    }
    fn error<T>(&self, what: impl Into<String>) -> Result<T, GrammarError> {
        Err(wrong(self.line(), what.into()))
    }
    /// Passes white space and comments; line ends only `across` lines.
    fn skip(&mut self, across: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '\n' | '\r' if !across => return,
                c if c.is_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }
    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            self.at += 1;
        }
        self.source[start..self.at].iter().collect()
    }
    fn eat(&mut self, text: &str) -> bool {
        let found = self.source[self.at.min(self.source.len())..]
            .iter()
            .copied()
            .take(text.len())
            .eq(text.chars());
        if found {
            self.at += text.len();
        }
        found
    }
    /// All rules, in order.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn rules(mut self) -> Result<Vec<Rule>, GrammarError> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut known = HashSet::new();
        loop {
            self.skip(true);
            if self.peek().is_none() {
                return Ok(rules);
            }
            let line = self.line();
            let name = self.word();
            if name.is_empty() {
                return self.error("a rule starts with its name");
            }
            self.skip(false);
            if !self.eat("::=") {
                return self.error(format!("after {name:?} comes ::="));
            }
            if !known.insert(name.clone()) {
                return self.error(format!("there are two rules named {name:?}"));
            }
            if rules.len() >= MOST_RULES {
                let what = format!("it has more than {MOST_RULES} rules");
                return Err(GrammarError::TooLarge(what));
            }
            self.skip(true);
            let part = self.options(0)?;
            rules.push(Rule { name, line, part });
        }
    }
    fn options(&mut self, depth: usize) -> Result<Part, GrammarError> {
        if depth > DEEPEST {
            let what = format!("its brackets are nested deeper than {DEEPEST}");
            return Err(GrammarError::TooLarge(what));
        }
        let mut options = vec![self.sequence(depth)?];
        while self.eat("|") {
            self.skip(true);
            options.push(self.sequence(depth)?);
        }
        Ok(Part::Options(options))
    }
    fn sequence(&mut self, depth: usize) -> Result<Part, GrammarError> {
        let mut parts = Vec::new();
        loop {
            self.skip(depth > 0);
            let part = match self.peek() {
                Some('"') => Part::Text(self.text()?),
                Some('[') => Part::Class(self.class()?),
                Some('(') => {
                    self.at += 1;
                    self.skip(true);
                    let inner = self.options(depth + 1)?;
                    self.skip(true);
                    if !self.eat(")") {
                        return self.error("a ( is not closed");
                    }
                    inner
                }
                Some('.') => {
                    self.at += 1;
                    Part::Class(crate::pattern::ANY.to_owned())
                }
                Some(c) if c.is_ascii_alphanumeric() => Part::Name(self.word()),
                Some('|' | ')' | '\n' | '\r') | None => return Ok(Part::Sequence(parts)),
                Some(c) => return self.error(format!("{c:?} is not expected here")),
            };
            let part = self.repeated(part)?;
            parts.push(part);
        }
    }
    fn repeated(&mut self, part: Part) -> Result<Part, GrammarError> {
        let mut part = part;
        loop {
            self.skip(false);
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    let rest: String =
                        self.source[self.at + 1..].iter().take_while(|c| **c != '}').collect();
                    self.at += rest.chars().count() + 1;
                    let number =
                        |s: &str| s.trim().parse::<u32>().ok().filter(|n| *n <= MOST_REPEATED);
                    let counts = match rest.split_once(',') {
                        None => number(&rest).map(|n| (n, Some(n))),
                        Some((min, max)) if max.trim().is_empty() => number(min).map(|n| (n, None)),
                        Some((min, max)) => number(min).zip(number(max)).map(|(a, b)| (a, Some(b))),
                    };
                    match counts {
                        Some((min, max)) if max.is_none_or(|max| max >= min) => (min, max),
                        _ => {
                            return self.error(format!(
                                "{{{rest}}} is no count: {{n}}, {{n,}} and {{n,m}} are, with the \
                                 lower number first, up to {MOST_REPEATED}"
                            ));
                        }
                    }
                }
                _ => return Ok(part),
            };
            self.at += 1;
            part = Part::Repeated(Box::new(part), min, max);
        }
    }
    fn text(&mut self) -> Result<String, GrammarError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                None | Some('\n') => return self.error("a \" is not closed"),
                Some(_) => text.push(self.character()?),
            }
        }
    }
    fn class(&mut self) -> Result<String, GrammarError> {
        self.at += 1;
        let mut class = if self.eat("^") { "[^".to_owned() } else { "[".to_owned() };
        while self.peek() != Some(']') {
            if self.peek().is_none() {
                return self.error("a [ is not closed");
            }
            let from = self.character()?;
            let mut to = from;
            let range = self.peek() == Some('-') && self.source.get(self.at + 1) != Some(&']');
            if range {
                self.at += 1;
                to = self.character()?;
            }
            if to < from {
                return self.error(format!("{from:?}-{to:?} counts down"));
            }
            let _ = write!(class, r"\x{{{:X}}}-\x{{{:X}}}", u32::from(from), u32::from(to));
        }
        self.at += 1;
        Ok(match class.as_str() {
            "[" => r"[^\x{0}-\x{10FFFF}]".to_owned(),
            "[^" => crate::pattern::ANY.to_owned(),
            _ => class + "]",
        })
    }
    fn character(&mut self) -> Result<char, GrammarError> {
        let Some(c) = self.peek() else { return self.error("it ends inside a text") };
        self.at += 1;
        if c != '\\' {
            return Ok(c);
        }
        let Some(c) = self.peek() else { return self.error("it ends with a backslash") };
        self.at += 1;
        let digits = match c {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            '"' | '\\' | '[' | ']' | '-' | '^' | '/' => return Ok(c),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return self.error(format!("\\{c} is no escape")),
        };
        let hex: String = self.source[self.at..].iter().take(digits).collect();
        self.at += digits;
        match u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32) {
            Some(c) if hex.chars().count() == digits => Ok(c),
            _ => self.error(format!("\\{c} needs {digits} hexadecimal digits of a character")),
        }
    }
}
