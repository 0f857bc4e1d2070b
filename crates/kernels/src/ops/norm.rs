//! Layer and RMS normalisation of rows. Ba et al. 2016, arXiv:1607.06450; Zhang & Sennrich 2019,
//! arXiv:1910.07467.
use super::Ctx;
use crate::act::Act;
use crate::mat::Mat;

/// A normalisation and its parameters.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// Which statistic is divided out.
    pub kind: NormKind,
    /// Added to the variance, or to the mean square.
    pub eps: f32,
    /// Per element; none is all ones.
    pub weight: Option<&'a [f32]>,
    /// Per element; none is zero.
    pub bias: Option<&'a [f32]>,
}

/// Which statistic is divided out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x²) + eps)`
    Rms,
    /// `(x - mean(x)) / sqrt(var(x) + eps)`
    Layer,
}

/// `out = norm(x)` row by row, or a copy without a norm; `out` takes `x`'s row count. With `q8`
/// the 8-bit form is made in the same pass.
pub fn norm(ctx: &Ctx, norm: Option<&Norm<'_>>, x: &Mat, out: &mut Act, q8: bool) {
    let _ = (ctx, norm, x, out, q8);
    todo!()
}
