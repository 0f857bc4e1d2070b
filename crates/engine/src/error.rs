//! What can go wrong between a path and an answer.
use crate::backend::{DeviceError, LoadError};
use crate::language::NoTemplate;
use crate::request::RequestError;
use rinfer_text::reply::FormatError;
use rinfer_text::template::TemplateError;
use rinfer_text::tokenizer::TokenizerError;

/// An error of this library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The reference names no model that can be had.
    #[error("'{reference}' {problem}")]
    Reference {
        /// As given.
        reference: String,
        /// What it is, and what to do.
        problem: String,
    },
    /// A file can't be read.
    #[error(transparent)]
    Format(#[from] rinfer_formats::Error),
    /// The checkpoint is no model that can be run.
    #[error("{file}: {cause}")]
    Load {
        /// The file, or the folder.
        file: String,
        /// Why.
        cause: LoadError,
    },
    /// A field of the checkpoint's metadata or side files has a value that can't be.
    #[error("{file}: {field} is {found}: expected {expected}")]
    Field {
        /// Which file.
        file: String,
        /// Which key.
        field: String,
        /// As found.
        found: String,
        /// In words.
        expected: String,
    },
    /// A loading option that this model or machine has not.
    #[error("{option} {found}: {problem}")]
    Option {
        /// As `Load` or the environment calls it.
        option: &'static str,
        /// As given.
        found: String,
        /// Why not, and what would do.
        problem: String,
    },
    /// The tokenizer can't be read.
    #[error("{file}: {cause}")]
    Tokenizer {
        /// Which file.
        file: String,
        /// Why.
        cause: TokenizerError,
    },
    /// The template refuses a conversation, or fails on it.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The template has no place for tools or their calls.
    #[error(transparent)]
    Tools(#[from] FormatError),
    /// A conversation is asked for, but the model was not made for one.
    #[error(transparent)]
    NoTemplate(NoTemplate),
    /// GGUF can't say what a checkpoint is.
    #[error("{file} is not written as GGUF: {problem}")]
    Export {
        /// What of it.
        file: String,
        /// Why, and what would do.
        problem: String,
    },
    /// The model is for another use.
    #[error("{file} {problem}")]
    Unfit {
        /// The file, or the folder.
        file: String,
        /// What it does, and what would do what was asked.
        problem: String,
    },
    /// Memory has no room.
    #[error(
        "the model takes {needed} MiB with a context of {context}, and {available} MiB are \
         available: {advice}"
    )]
    Memory {
        /// In MiB.
        needed: usize,
        /// In MiB.
        available: usize,
        /// That was asked for, or the default.
        context: usize,
        /// What would help.
        advice: String,
    },
    /// A request was refused or failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An answer is not of the type that was asked for.
    #[error("the answer is no {name}: {problem}")]
    Typed {
        /// The type.
        name: &'static str,
        /// Why not, and what would help.
        problem: String,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A file can't be written.
    #[error("{file} was not written: {cause}")]
    Write {
        /// Which one.
        file: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A file of what a model keeps is not for this one, or not as it was written.
    #[error("{file} is not restored: {problem}")]
    Saved {
        /// Which one.
        file: String,
        /// Why not.
        problem: String,
    },
    /// The system refused a resource.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;
