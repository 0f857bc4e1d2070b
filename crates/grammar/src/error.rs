//! Why a grammar was refused, or stopped.

/// A grammar that can't be used, or an output that left it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// A schema uses something that is not supported or makes no sense.
    #[error("the schema's {path}: {what}")]
    Schema {
        /// Where: a JSON pointer from `#`.
        path: String,
        /// What was found, and what is supported instead.
        what: String,
    },
    /// The text of a schema is not JSON.
    #[error("the schema is not JSON that can be read: {0}")]
    Json(String),
    /// A regular expression uses something that is not supported or makes no sense.
    #[error("the regular expression {regex:?}: {what}")]
    Regex {
        /// The expression, or its beginning.
        regex: String,
        /// What was found, and what to do.
        what: String,
    },
    /// A Lark or GBNF grammar makes no sense.
    #[error("the {kind} grammar{}: {what}", line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Grammar {
        /// "Lark" or "GBNF".
        kind: &'static str,
        /// Counted from 1, where known.
        line: Option<usize>,
        /// What was found, and what is supported.
        what: String,
    },
    /// A list of choices is empty or has an empty choice.
    #[error("the choices: {0}")]
    Choice(String),
    /// A grammar is larger than what is compiled in bounded time and memory.
    #[error("the grammar is too large: {0}")]
    TooLarge(String),
    /// The vocabulary can't be used.
    #[error("the vocabulary: {0}")]
    Vocabulary(String),
    /// A state of the matcher is too large, or a token that may not come next was given to it.
    #[error("the output can't be constrained further: {0}")]
    Matcher(String),
}

/// The beginning of a long text, for messages.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
