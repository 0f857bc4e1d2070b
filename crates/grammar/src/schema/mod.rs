//! JSON Schema into a Lark grammar of the library: read, check and rewrite, so that what the library
//! sees is small, and means what the schema means.
//!
//! Rules of what is written, which `docs/structured-output.md` states to users: properties come in
//! the schema's order, then other required ones, then others; white space is what [`Spacing`] says;
//! characters in strings are literal where JSON allows it.
mod arrays;
mod complement;
mod digits;
mod document;
pub mod fields;
pub mod format;
pub mod keywords;
mod number;
mod objects;
mod own;
mod read;
mod rest;
mod rules;
mod shape;
mod strings;
mod text;
mod write;

use crate::error::GrammarError;
use crate::notation::Notation;
use serde_json::Value;
use write::{Which, Writer};

pub(crate) use rules::literal;
pub(crate) use text::matches_nothing;

/// White space in JSON: always the same, so that none of it is chosen and there is an end to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spacing {
    /// A space after each comma and colon, as models have seen most.
    #[default]
    Spaced,
    /// None.
    Compact,
}

impl Spacing {
    pub(crate) fn comma(self) -> &'static str {
        if self == Spacing::Spaced { ", " } else { "," }
    }
    pub(crate) fn colon(self) -> &'static str {
        if self == Spacing::Spaced { ": " } else { ":" }
    }
}

/// The Lark grammar of the values that a schema allows.
///
/// # Errors
/// What is not supported or makes no sense, with its place.
pub(crate) fn lark(schema: &Value, spacing: Spacing) -> Result<String, GrammarError> {
    let reader = read::Reader::new(schema)?;
    let notation = [Notation::json(spacing)];
    Writer::write(&rules::Rules::collect(reader)?, &notation, Which::All)
}

/// The Lark grammar of the objects that a schema allows, by `notations`: the object's own, that of the
/// values in it, and so on.
///
/// # Errors
/// The same, and what can't be written in the notation.
pub(crate) fn objects(schema: &Value, notations: &[Notation]) -> Result<String, GrammarError> {
    let reader = read::Reader::new(schema)?;
    Writer::write(&rules::Rules::collect(reader)?, notations, Which::Objects)
}
