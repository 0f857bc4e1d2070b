//! Constrained decoding: grammars over bytes, and the tokens that may come next.
//!
//! A [`Grammar`] is compiled, for a model's [`Vocabulary`], to a [`Matcher`]; the engine applies it
//! through the seam [`Constraint`] before its sampler. The automata are llguidance's; JSON Schema is
//! read and rewritten here, so that nothing in it is ignored.
#![forbid(unsafe_code)]

mod after;
mod compound;
mod ecma;
mod embedded;
mod error;
mod gbnf;
mod grammar;
mod kept;
mod lenient;
mod masks;
mod matcher;
mod notation;
mod pattern;
mod schema;
mod shares;
mod vocabulary;

pub use after::After;
pub use compound::Shape;
pub use error::GrammarError;
pub use grammar::Grammar;
pub use matcher::Matcher;
pub use notation::{Bare, Frame, Keys, Mark, Notation, Quotes};
pub use schema::Spacing;
pub use schema::fields::Field;
pub use schema::format::{FORMATS, INTEGERS};
pub use schema::keywords::{Fate, KEYWORDS};
pub use shares::Shares;
pub use vocabulary::{Token, Tokenise, Vocabulary};

/// Decides which tokens may come next.
pub trait Constraint: Send {
    /// Sets the logits of tokens that may not come next to negative infinity.
    ///
    /// # Errors
    /// If the state is too large to be followed. The answer can't go on.
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError>;
    /// Takes note of the token that was chosen.
    ///
    /// # Errors
    /// If it may not come next.
    fn accept(&mut self, id: u32) -> Result<(), GrammarError>;
    /// Whether the output may end here.
    fn complete(&mut self) -> bool;
    /// Whether the output must end here, so that no model need be asked.
    fn over(&mut self) -> bool {
        false
    }
    /// Tokens that must come next whatever the logits say.
    fn forced(&mut self) -> Vec<u32> {
        Vec::new()
    }
    /// Takes back the last tokens.
    ///
    /// # Errors
    /// If there were fewer, or this constraint can't.
    fn rollback(&mut self, tokens: usize) -> Result<(), GrammarError> {
        Err(GrammarError::Matcher(format!("it can't take back {tokens} tokens")))
    }
}
