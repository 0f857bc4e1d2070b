//! Sets of strings, asked whether they hold one, or any.
use super::shape::{Keys, Strings};
use crate::pattern::{Pattern, Spelling};
use llguidance::derivre::{Regex, RegexAst, RegexBuilder};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// Work that a question may take.
const FUEL: u64 = 50_000;
/// Work that all states of a language may take: half of what a step of an answer may.
const STATES: u64 = 1_000_000;
/// States of which an answer meets no more at a time: from one there are few to another that is a token
/// away.
const ENOUGH: usize = 1000;

impl Strings {
    /// The same set with its finite members listed; `None` if it is empty.
    ///
    /// # Errors
    /// If the expressions are too large to tell.
    pub fn settled(mut self) -> Result<Option<Strings>, String> {
        if let Some(values) = self.values.take() {
            let mut held = Vec::new();
            for value in values {
                if self.hold(&value)? {
                    held.push(value);
                }
            }
            return Ok((!held.is_empty()).then(|| Strings::one_of(held)));
        }
        if self.max.is_some_and(|max| max < self.min) {
            return Ok(None);
        }
        let free = self.patterns.is_empty() && self.absent.is_empty();
        if free && (self.not.is_empty() || self.max.is_none()) {
            return Ok(Some(self));
        }
        Ok((!matches_none(&self.language()?)?).then_some(self))
    }

    /// Whether it holds a string.
    ///
    /// # Errors
    /// As [`Strings::settled`].
    pub fn hold(&self, text: &str) -> Result<bool, String> {
        let length = text.chars().count() as u64;
        if length < self.min
            || self.max.is_some_and(|max| length > max)
            || self.not.iter().any(|v| v == text)
            || self.values.as_ref().is_some_and(|values| !values.iter().any(|v| v == text))
        {
            return Ok(false);
        }
        for (patterns, wanted) in [(&self.patterns, true), (&self.absent, false)] {
            for (pattern, whole) in patterns {
                if automaton(&regex(pattern, !whole)?)?.is_match(text) != wanted {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Its strings, without listed values.
    fn language(&self) -> Result<RegexAst, String> {
        let mut all = Vec::new();
        for (pattern, whole) in &self.patterns {
            all.push(regex(pattern, !whole)?);
        }
        for (pattern, whole) in &self.absent {
            all.push(RegexAst::Not(Box::new(regex(pattern, !whole)?)));
        }
        all.push(RegexAst::Regex(format!("(?s:.{})", counts(self.min, self.max)?)));
        if !self.not.is_empty() {
            let not = self.not.iter().cloned().map(RegexAst::Literal).collect();
            all.push(RegexAst::Not(Box::new(RegexAst::Or(not))));
        }
        Ok(RegexAst::And(all))
    }
}

impl Keys {
    /// Whether it holds a key.
    ///
    /// # Errors
    /// If an expression is too large to be tried.
    pub fn hold(&self, key: &str) -> Result<bool, String> {
        for (patterns, wanted) in [(&self.all, true), (&self.none, false)] {
            for pattern in patterns {
                if automaton(&regex(pattern, true)?)?.is_match(key) != wanted {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Keys in both sets, if there may be any.
    ///
    /// # Errors
    /// If the expressions are too large to tell.
    pub fn and(&self, other: &Keys) -> Result<Option<Keys>, String> {
        let joined = |a: &[Rc<Pattern>], b: &[Rc<Pattern>]| {
            let mut all = a.to_vec();
            all.extend(b.iter().filter(|p| !a.contains(p)).cloned());
            all
        };
        let keys =
            Keys { all: joined(&self.all, &other.all), none: joined(&self.none, &other.none) };
        Ok((!keys.is_empty(&[], &[])?).then_some(keys))
    }

    /// Whether no key is in it that is none of `taken` and in all of `names`.
    ///
    /// # Errors
    /// If the expressions are too large to tell.
    pub fn is_empty(&self, taken: &[String], names: &[Strings]) -> Result<bool, String> {
        if self.all.is_empty() && self.none.is_empty() && names.is_empty() {
            return Ok(false);
        }
        let mut all = Vec::new();
        for pattern in &self.all {
            all.push(regex(pattern, true)?);
        }
        for pattern in &self.none {
            all.push(RegexAst::Not(Box::new(regex(pattern, true)?)));
        }
        for strings in names {
            match &strings.values {
                Some(values) => {
                    all.push(RegexAst::Or(values.iter().cloned().map(RegexAst::Literal).collect()));
                }
                None => all.push(strings.language()?),
            }
        }
        if !taken.is_empty() {
            let taken = taken.iter().cloned().map(RegexAst::Literal).collect();
            all.push(RegexAst::Not(Box::new(RegexAst::Or(taken))));
        }
        // The complement of a set of texts has what is no text, too.
        all.push(RegexAst::Regex("(?s:.*)".to_owned()));
        matches_none(&RegexAst::And(all))
    }
}

/// A number of repetitions, as expressions write it.
///
/// # Errors
/// If it is beyond 32 bits.
pub fn counts(min: u64, max: Option<u64>) -> Result<String, String> {
    let fits = |n: u64| u32::try_from(n).is_ok_and(|n| n < u32::MAX);
    if !fits(min) || !max.is_none_or(fits) {
        return Err("lengths beyond 32 bits are not supported".to_owned());
    }
    Ok(match max {
        Some(max) => format!("{{{min},{max}}}"),
        None => format!("{{{min},}}"),
    })
}

/// Whether nothing matches `source`, an expression for whole texts.
///
/// # Errors
/// If it is too large to tell.
pub fn matches_nothing(source: &str) -> Result<bool, String> {
    matches_none(&RegexAst::Regex(source.to_owned()))
}

fn regex(pattern: &Pattern, search: bool) -> Result<RegexAst, String> {
    Ok(RegexAst::Regex(pattern.whole(Spelling::Plain, search)?))
}

fn automaton(language: &RegexAst) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new();
    let expression = builder.mk(language).map_err(|_| too_large())?;
    builder.into_regex_limited(expression, FUEL).map_err(|_| too_large())
}

fn too_large() -> String {
    "the expressions are too large together".to_owned()
}

/// Whether there is no text in a language that an answer will be held to.
///
/// # Errors
/// If its states are so dear that an answer could fail for it.
fn matches_none(language: &RegexAst) -> Result<bool, String> {
    let mut regex = automaton(language)?;
    if regex.always_empty() {
        return Ok(true);
    }
    if explored(&mut regex) { Ok(false) } else { Err(too_large()) }
}

/// Whether all states, or as many as an answer meets at a time, take no more work than [`STATES`].
fn explored(regex: &mut Regex) -> bool {
    let (mut bytes, mut classes) = (Vec::new(), [false; 256]);
    for byte in 0..=u8::MAX {
        let class = &mut classes[regex.alpha().map(byte)];
        if !std::mem::replace(class, true) {
            bytes.push(byte);
        }
    }
    let first = regex.initial_state();
    let (mut met, mut queue) = (HashSet::from([first]), VecDeque::from([first]));
    let most = regex.cost().saturating_add(STATES);
    while let Some(state) = queue.pop_front() {
        if met.len() >= ENOUGH {
            return true;
        }
        for byte in &bytes {
            let next = regex.transition(state, *byte);
            if regex.cost() > most {
                return false;
            }
            if !next.is_dead() && met.insert(next) {
                queue.push_back(next);
            }
        }
    }
    true
}
