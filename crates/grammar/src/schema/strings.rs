//! Strings as terminals: in quotes, or as they are up to what ends them.
use super::rules::{literal, quoted};
use super::shape::{Keys, Strings};
use super::text::counts;
use crate::notation;
use crate::pattern::{ANY, ANY_JSON, Spelling};
use std::fmt::Write;

/// A character of a string that is nothing but a string: any spelling of one character.
const FREE: &str = concat!(
    r"(?:[^\x{0}-\x{1F}\x{22}\x{5C}]|\x{5C}(?:[\x{22}\x{5C}\x{2F}bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}",
    r"|[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\x{5C}u[dD][c-fC-F][0-9a-fA-F]{2})))"
);
/// A character between Python's other quotes.
const SINGLE: &str = r"(?:[^\x{0}-\x{1F}\x{27}\x{5C}]|\x{5C}[\x{27}\x{5C}bfnrt])";

/// How a string is written, and what is around it.
pub(super) struct Form<'a> {
    pub spelling: Spelling,
    pub open: &'a str,
    pub close: &'a str,
    /// Texts that are not in it, though it may end with one.
    pub without: &'a [String],
}

impl Form<'_> {
    pub const JSON: Form<'static> =
        Form { spelling: Spelling::Json, open: "\"", close: "\"", without: &[] };

    fn around(&self, body: &str) -> String {
        format!("/{}(?:{body}){}/", exactly(self.open), exactly(self.close))
    }
    fn spelled(&self, value: &str) -> Option<String> {
        let text = match self.spelling {
            Spelling::Json => unquoted(value),
            Spelling::Plain => value.to_owned(),
        };
        let all = format!("{}{text}{}", self.open, self.close);
        let has = |part: &String| {
            all.find(part.as_str())
                .is_some_and(|at| !self.may_end(part) || at + part.len() < all.len())
        };
        (!self.without.iter().any(has)).then(|| literal(&all))
    }
    fn may_end(&self, text: &str) -> bool {
        self.close.ends_with(text)
    }
    /// What the forbidden texts exclude.
    fn exclusions(&self) -> impl Iterator<Item = String> {
        self.without.iter().map(|text| {
            let more = if self.may_end(text) { '+' } else { '*' };
            format!("~(/(?s:.*){}(?s:.{more})/)", exactly(text))
        })
    }
    fn any(&self) -> &'static str {
        if self.spelling == Spelling::Json { ANY_JSON } else { ANY }
    }

    /// These strings, in their one spelling; `None` if none of them can be written.
    ///
    /// # Errors
    /// For lengths and patterns that no automaton follows.
    pub fn terminal(&self, strings: &Strings) -> Result<Option<String>, String> {
        if let Some(values) = &strings.values {
            let values: Vec<String> = values.iter().filter_map(|v| self.spelled(v)).collect();
            return Ok((!values.is_empty()).then(|| format!("({})", values.join(" | "))));
        }
        let mut all = Vec::new();
        for (pattern, whole) in &strings.patterns {
            all.push(self.around(&pattern.whole(self.spelling, !whole)?));
        }
        if all.is_empty() || strings.min > 0 || strings.max.is_some() {
            all.push(self.around(&[self.any(), &counts(strings.min, strings.max)?].concat()));
        }
        for (pattern, whole) in &strings.absent {
            all.push(format!("~({})", self.around(&pattern.whole(self.spelling, !whole)?)));
        }
        let not: Vec<String> = strings.not.iter().filter_map(|v| self.spelled(v)).collect();
        if !not.is_empty() {
            all.push(format!("~({})", not.join(" | ")));
        }
        all.extend(self.exclusions());
        Ok(Some(format!("({})", all.join(" & "))))
    }
    /// Strings of some lengths, in any of their spellings by `one`, a character's.
    fn lengths(&self, one: &str, strings: &Strings) -> Result<String, String> {
        let body = [one, &counts(strings.min, strings.max)?].concat();
        let all: Vec<String> = [self.around(&body)].into_iter().chain(self.exclusions()).collect();
        Ok(all.join(" & "))
    }
}

impl Strings {
    /// Whether nothing but lengths is asked of them.
    pub(super) fn only_counted(&self) -> bool {
        let free = self.patterns.is_empty() && self.not.is_empty() && self.absent.is_empty();
        free && self.values.is_none()
    }
    /// Whether they are all strings.
    pub(super) fn are_all(&self) -> bool {
        self.only_counted() && self.min == 0 && self.max.is_none()
    }
}

/// Strings in JSON's quotes as a terminal, with the spellings that JSON allows.
pub(super) fn json(strings: &Strings, without: &[String]) -> Result<Option<String>, String> {
    let form = Form { without, ..Form::JSON };
    match strings.only_counted() {
        true => form.lengths(FREE, strings).map(Some),
        false => form.terminal(strings),
    }
}

/// Strings in Python's quotes. JSON's one spelling is Python's too.
pub(super) fn python(strings: &Strings, without: &[String]) -> Result<Option<String>, String> {
    let double = Form { without, ..Form::JSON };
    let single = Form { open: "'", close: "'", ..Form { without, ..Form::JSON } };
    let plain = |values: &Vec<String>| !values.iter().any(|v| v.contains(['\'', '"', '\\']));
    let other = match &strings.values {
        Some(values) if plain(values) => single.terminal(strings)?,
        None if strings.only_counted() => Some(format!("({})", single.lengths(SINGLE, strings)?)),
        _ => None,
    };
    let both: Vec<String> = double.terminal(strings)?.into_iter().chain(other).collect();
    Ok((!both.is_empty()).then(|| both.join(" | ")))
}

/// Keys that are not named, as a terminal.
pub(super) fn key(
    spelling: &notation::Keys,
    keys: &Keys,
    named: &[String],
    names: &[Strings],
    without: &[String],
) -> Result<String, String> {
    let (form, any) = match spelling {
        notation::Keys::Quoted => (Form { without, ..Form::JSON }, None),
        notation::Keys::Plain(more) => {
            let mut class = String::new();
            more.chars().for_each(|c| class += &exactly(&c.to_string()));
            let form = Form { spelling: Spelling::Plain, open: "", close: "", without };
            (form, Some(format!("/[A-Za-z0-9_{class}]+/")))
        }
    };
    let mut all = Strings::default();
    all.patterns.extend(keys.all.iter().map(|p| (std::rc::Rc::clone(p), false)));
    all.not = named.to_vec();
    all.absent.extend(keys.none.iter().map(|p| (std::rc::Rc::clone(p), false)));
    let mut parts: Vec<String> = any.into_iter().collect();
    for strings in [&all].into_iter().chain(names) {
        parts.push(form.terminal(strings)?.ok_or("keys that can't be written")?);
    }
    Ok(parts.join(" & "))
}

/// A text as it is between JSON's quotes.
fn unquoted(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// An expression for a text.
pub(super) fn exactly(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        let _ = write!(out, r"\x{{{:X}}}", u32::from(c));
        out
    })
}
