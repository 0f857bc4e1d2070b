//! The one input shape. Prefill, decode, speculation's check and any mixture
//! of sequences are all a `Batch`; nothing downstream asks which.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenId(pub u32);
/// A sequence's place in the state cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

#[derive(Default)]
pub struct Batch {
    /// One row a position, sequence after sequence.
    pub rows: Vec<Row>,
    pub seqs: Vec<Span>,
}
pub enum Row {
    Token(TokenId),
    /// Index into the vision tower's output.
    Image(u32),
}
/// The rows of one sequence, which follow the `past` positions it holds.
pub struct Span {
    pub slot: Slot,
    pub len: usize,
    pub past: usize,
    pub want: Want,
}
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A prefill chunk that is not the last.
    Nothing,
    Last,
    /// Checking drafted tokens.
    Every,
}

/// Logits of the rows that were wanted, in order. f32, `vocab` to a row.
pub struct Logits {
    pub vocab: usize,
    pub data: Vec<f32>,
}
