//! Sets of strings, asked whether they hold one, or any.
use super::shape::{Keys, Strings};
use crate::pattern::{Pattern, Spelling};
use llguidance::derivre::{Regex, RegexAst, RegexBuilder};
use std::rc::Rc;

/// Work that a question may take.
const FUEL: u64 = 50_000;

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
        let empty = automaton(&self.language()?)?.always_empty();
        Ok((!empty).then_some(self))
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
        Ok(automaton(&RegexAst::And(all))?.always_empty())
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
    Ok(automaton(&RegexAst::Regex(source.to_owned()))?.always_empty())
}

fn regex(pattern: &Pattern, search: bool) -> Result<RegexAst, String> {
    Ok(RegexAst::Regex(pattern.whole(Spelling::Plain, search)?))
}

fn automaton(language: &RegexAst) -> Result<Regex, String> {
    let large = |_| "the expressions are too large together".to_owned();
    let mut builder = RegexBuilder::new();
    let expression = builder.mk(language).map_err(large)?;
    builder.into_regex_limited(expression, FUEL).map_err(large)
}
