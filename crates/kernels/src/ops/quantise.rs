//! The 8-bit form of activations.
use super::Ctx;
use crate::act::{Act, BLOCK};

/// Makes the 8-bit form of all rows of `x`, unless it is fresh.
pub fn quantise(ctx: &Ctx, x: &mut Act) {
    if x.fresh(ctx.kernels.tile) {
        return;
    }
    let (rows, cols) = (x.view().rows(), x.cols());
    let out = x.shared(ctx.kernels.tile, true);
    ctx.each_chunk(rows, cols, |i, from, len| {
        // SAFETY: the tier is usable; chunks are disjoint and whole blocks.
        unsafe {
            let to = out.quantised(i, from / BLOCK, len.div_ceil(BLOCK));
            (ctx.kernels.quantise)(out.f32().part(i, from, len), to);
        }
    });
}
