//! Per-head norms and rotary positions. Su et al. 2021, arXiv:2104.09864.
use super::{Ctx, Norm};
use crate::mat::Mat;

/// Which two elements of a head form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// `(i, i + dim/2)`, as Hugging Face stores it.
    Halves,
    /// `(2i, 2i + 1)`, as GGUF's llama stores it.
    Pairs,
}

/// A norm over each head, or over the whole row.
#[derive(Clone, Copy)]
pub enum HeadNorm<'a> {
    /// `head_dim` long weights, each head by itself.
    PerHead(Norm<'a>),
    /// Weights as long as the row.
    Whole(Norm<'a>),
}

/// What happens to each row of queries or keys: the norm, then the rotation.
pub struct Rotate<'a> {
    /// Elements to a head.
    pub head_dim: usize,
    /// Before the rotation.
    pub norm: Option<HeadNorm<'a>>,
    /// Rotation angles of each row, `[rows, dim]`: `dim/2` cosines, then `dim/2` sines, where
    /// `dim <= head_dim` leading elements rotate.
    pub rope: Option<(RopeLayout, &'a Mat)>,
}

/// Applies `how` to every head of every row of `x`, in place.
pub fn rotate(ctx: &Ctx, how: &Rotate<'_>, x: &mut Mat) {
    let _ = (ctx, how, x);
    todo!()
}
