//! Keys and values of one compressed vector a position. DeepSeek-V2, arXiv:2405.04434.
use super::{Ctx, Norm};
use crate::mat::Mat;

/// A row of `x` is `[latent | rest]`; `v = norm(latent)` and `k = [rest | v]`, which take its row
/// count.
///
/// # Panics
/// If the shapes differ.
pub fn latent(ctx: &Ctx, norm: &Norm<'_>, x: &Mat, k: &mut Mat, v: &mut Mat) {
    let (rows, cols, width) = (x.rows(), x.cols(), v.cols());
    assert!(k.cols() == cols && width <= cols, "{width} of {cols}, to {} and {width}", k.cols());
    norm.check(width);
    k.resize(rows);
    v.resize(rows);
    let (k, v) = (k.shared(), v.shared());
    ctx.each_row(rows, cols, |i| {
        let (latent, rest) = x.row(i).split_at(width);
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe {
            let v = v.part(i, 0, width);
            v.copy_from_slice(latent);
            (ctx.kernels.norm)(norm, v);
            k.part(i, 0, rest.len()).copy_from_slice(rest);
            k.part(i, rest.len(), width).copy_from_slice(v);
        }
    });
}
