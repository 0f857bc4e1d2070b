//! Soft capping: `cap · tanh(x / cap)`.
use super::Ctx;
use crate::mat::Mat;

/// Caps every element of `x`.
pub fn softcap(ctx: &Ctx, cap: f32, x: &mut Mat) {
    let out = x.shared();
    ctx.each_chunk(out.rows(), out.cols(), |i, from, len| {
        // SAFETY: the tier is usable; chunks are disjoint.
        unsafe { (ctx.kernels.softcap)(out.part(i, from, len), cap) };
    });
}
