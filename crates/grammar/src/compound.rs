//! Grammars made of others: texts, tokens and JSON one after another, one of several, or again and
//! again. So a call of a tool is its syntax's text around arguments that satisfy the tool's schema.
use crate::error::GrammarError;
use crate::notation::Notation;
use crate::schema;
use serde_json::Value;
use std::fmt::Write;

/// Most bytes of a grammar.
const MOST_BYTES: usize = 4 << 20;

/// A grammar of parts.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// This text.
    Text(String),
    /// This token.
    Token(u32),
    /// Any text, before a token or the end.
    Anything,
    /// Text that ends where this one, which is not empty, first comes.
    Until(String),
    /// An object that satisfies a schema, by notations: its own, that of the values in it, and so
    /// on; the last is for all deeper.
    Object(Value, Vec<Notation>),
    /// These, one after another.
    All(Vec<Shape>),
    /// One of these.
    Any(Vec<Shape>),
    /// This, or nothing.
    Maybe(Box<Shape>),
    /// This, once or more.
    More(Box<Shape>),
}

/// The shape in the library's language.
pub(crate) fn lark(shape: &Shape) -> Result<String, GrammarError> {
    let mut writer = Writer { rules: String::new(), count: 0, forces: true };
    let start = writer.expression(shape)?;
    // The library fails where it would force a token after text that may go on no further.
    let options = if writer.forces { "" } else { "%llguidance {\"no_forcing\": true}\n" };
    Ok(format!("{options}start: {start}\n{}", writer.rules))
}

struct Writer {
    rules: String,
    /// Parts with rules of their own so far.
    count: usize,
    /// Whether what must come next may be told.
    forces: bool,
}

impl Writer {
    fn expression(&mut self, shape: &Shape) -> Result<String, GrammarError> {
        if self.rules.len() > MOST_BYTES {
            let what = format!("the grammar of all parts has more than {MOST_BYTES} bytes");
            return Err(GrammarError::TooLarge(what));
        }
        Ok(match shape {
            Shape::Text(text) if text.is_empty() => String::new(),
            Shape::Text(text) => schema::literal(text),
            Shape::Token(id) => format!("<[{id}]>"),
            Shape::Anything => {
                self.forces = false;
                "/(?s:.*)/".to_owned()
            }
            Shape::Until(end) => self.until(end),
            Shape::Object(schema, notations) => {
                self.count += 1;
                let suffix = format!("_{}", self.count);
                self.forces = self.forces && !notations.iter().any(Notation::ends_by_token);
                let rules = schema::objects(schema, notations)?;
                self.rules += &renamed(&rules, &suffix);
                format!("start{suffix}")
            }
            Shape::All(parts) => self.join(parts, " ")?,
            Shape::Any(parts) => self.join(parts, " | ")?,
            Shape::Maybe(part) => format!("({})?", self.expression(part)?),
            Shape::More(part) => format!("({})+", self.expression(part)?),
        })
    }
    fn join(&mut self, parts: &[Shape], between: &str) -> Result<String, GrammarError> {
        let all: Result<Vec<String>, _> = parts.iter().map(|part| self.expression(part)).collect();
        let mut all = all?;
        all.retain(|part| !part.is_empty());
        Ok(if all.is_empty() { String::new() } else { format!("({})", all.join(between)) })
    }
    /// One terminal, so that it ends with its text whatever tokens that is in.
    fn until(&mut self, end: &str) -> String {
        self.count += 1;
        let mut text = String::new();
        for c in end.chars() {
            let _ = write!(text, r"\x{{{:X}}}", u32::from(c));
        }
        let name = format!("UNTIL_{}", self.count);
        let any = "(?s:.*)";
        let _ = writeln!(self.rules, "{name}: /{any}{text}/ & ~/{any}{text}(?s:.+)/");
        name
    }
}

/// Rules with their names made others', which no other part has.
pub(crate) fn renamed(rules: &str, suffix: &str) -> String {
    let mut out = String::with_capacity(rules.len() * 2);
    let mut chars = rules.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '"' || c == '/' {
            // A literal, with what follows a regular expression's end.
            while let Some(inner) = chars.next() {
                out.push(inner);
                match inner {
                    '\\' => out.extend(chars.next()),
                    end if end == c => break,
                    _ => {}
                }
            }
            while let Some(flag) = chars.next_if(|f| c == '/' && f.is_ascii_alphabetic()) {
                out.push(flag);
            }
        } else if c.is_ascii_alphabetic() {
            while let Some(part) = chars.next_if(|p| p.is_ascii_alphanumeric() || *p == '_') {
                out.push(part);
            }
            out.push_str(suffix);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_and_literals_are_not() {
        let rules = "start: v0 S1{2,3}\nv0: \"a \\\" v0\" o1_2* | /v0\\/[a]/s | ~(S1 & /b/)\n";
        let want =
            "start_x: v0_x S1_x{2,3}\nv0_x: \"a \\\" v0\" o1_2_x* | /v0\\/[a]/s | ~(S1_x & /b/)\n";
        assert_eq!(renamed(rules, "_x"), want);
    }
}
