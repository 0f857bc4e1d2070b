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
///
/// # Panics
/// If the shapes differ.
pub fn rotate(ctx: &Ctx, how: &Rotate<'_>, x: &mut Mat) {
    how.check(x);
    let (rows, cols) = (x.rows(), x.cols());
    let out = x.shared();
    ctx.each_row(rows, cols, |i| {
        // SAFETY: a row is one task's.
        let row = unsafe { out.part(i, 0, cols) };
        if let Some(HeadNorm::Whole(norm)) = &how.norm {
            // SAFETY: the tier is usable, lengths agree.
            unsafe { (ctx.kernels.norm)(norm, row) };
        }
        for head in row.chunks_exact_mut(how.head_dim) {
            if let Some(HeadNorm::PerHead(norm)) = &how.norm {
                // SAFETY: as above.
                unsafe { (ctx.kernels.norm)(norm, head) };
            }
            if let Some((layout, angles)) = how.rope {
                let (cos, sin) = angles.row(i).split_at(angles.cols() / 2);
                // SAFETY: as above.
                unsafe { (ctx.kernels.rope)(layout, head, cos, sin) };
            }
        }
    });
}

impl Rotate<'_> {
    /// # Panics
    /// If something does not fit `x`.
    fn check(&self, x: &Mat) {
        let whole = self.head_dim > 0 && x.cols().is_multiple_of(self.head_dim);
        assert!(whole, "{} columns are no whole number of heads of {}", x.cols(), self.head_dim);
        match &self.norm {
            Some(HeadNorm::PerHead(norm)) => norm.check(self.head_dim),
            Some(HeadNorm::Whole(norm)) => norm.check(x.cols()),
            None => (),
        }
        if let Some((_, angles)) = self.rope {
            let (rows, dim) = (angles.rows(), angles.cols());
            assert!(rows >= x.rows(), "angles of {rows} rows for {}", x.rows());
            let fits = dim.is_multiple_of(2) && dim <= self.head_dim;
            assert!(fits, "{dim} angles to a head of {}", self.head_dim);
        }
    }
}
