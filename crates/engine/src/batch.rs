//! The one input shape. Prefill, decode, speculation's check and any mixture
//! of sequences are all a `Batch`; nothing downstream asks which.

/// A token of the model's vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenId(pub u32);
/// A sequence's place in the state cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

/// What one forward pass computes.
#[derive(Debug, Default)]
pub struct Batch {
    /// One row a position, sequence after sequence.
    pub rows: Vec<Row>,
    /// The sequences, each at most once.
    pub seqs: Vec<Span>,
}
/// What stands at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// A token.
    Token(TokenId),
    /// A token of the second of two texts that are judged together.
    Second(TokenId),
    /// Index into the vision tower's output.
    Image(u32),
}
/// The rows of one sequence, which follow the `past` positions it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The sequence.
    pub slot: Slot,
    /// Number of rows; at least one.
    pub len: usize,
    /// Positions that the sequence holds before.
    pub past: usize,
    /// Which rows' logits are wanted.
    pub want: Want,
}
/// Which rows' logits are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A prefill chunk that is not the last.
    Nothing,
    /// What the next token is picked from; of a model that pools, the sequence's vector, which is
    /// made of the span: the whole sequence.
    Last,
    /// Checking drafted tokens.
    Every,
}

/// Logits of the rows that were wanted, in order, or the vectors of sequences. f32, `vocab` to a row.
#[derive(Debug, Default)]
pub struct Logits {
    /// Elements to a row.
    pub vocab: usize,
    /// Row after row.
    pub data: Vec<f32>,
}
