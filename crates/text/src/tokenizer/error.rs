//! What can be wrong with a tokenizer.

/// A tokenizer that can't be read. Each names the JSON path or GGUF key at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The bytes are not JSON, or a field has another type than the format's.
    #[error("tokenizer.json: {0}")]
    Json(#[from] serde_json::Error),
    /// A component that this program does not implement.
    #[error("{path}: {found:?} is not supported (supported: {supported})")]
    Unsupported {
        /// Where, as a JSON path or GGUF key.
        path: String,
        /// What was found there.
        found: String,
        /// What would be understood.
        supported: &'static str,
    },
    /// A pattern that can't be run in linear time, or at all.
    #[error("{path}: the pattern {pattern:?} can't be used: {problem}")]
    Pattern {
        /// Where, as a JSON path or GGUF key.
        path: String,
        /// The pattern as written.
        pattern: String,
        /// Why not.
        problem: String,
    },
    /// A value that contradicts the format or another value.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where, as a JSON path or GGUF key.
        path: String,
        /// What was found and what was expected.
        problem: String,
    },
}

impl TokenizerError {
    pub(crate) fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), problem: problem.into() }
    }
    pub(crate) fn unsupported(
        path: impl Into<String>,
        found: impl Into<String>,
        supported: &'static str,
    ) -> Self {
        Self::Unsupported { path: path.into(), found: found.into(), supported }
    }
}
