//! Constrained decoding. This package is the seam that the engine applies constraints through;
//! the implementation behind it comes with structured output.
#![forbid(unsafe_code)]

/// Decides which tokens may come next.
pub trait Constraint: Send {
    /// Sets the logits of tokens that may not come next to negative infinity.
    fn mask(&mut self, logits: &mut [f32]);
    /// Takes note of the token that was chosen.
    fn accept(&mut self, id: u32);
    /// Whether the output may end here.
    fn complete(&self) -> bool;
    /// Tokens that must come next whatever the logits say.
    fn forced(&mut self) -> Vec<u32> {
        Vec::new()
    }
}
