//! The 8-bit form of activations.
use super::chain::{Phases, alone};
use super::{CHUNK, Chain, Ctx, Stage, by_chunks, few};
use crate::act::{Act, ActSlot, BLOCK};
use crate::team::Worker;

/// Makes the 8-bit form of all rows of `x`, unless it is fresh.
pub fn quantise(ctx: &Ctx, x: &mut Act) {
    if !x.fresh(ctx.kernels.tile) {
        alone(ctx, Quantise(x.shared(ctx.kernels.tile, true)));
    }
}

/// Rows whose 8-bit form is made.
struct Quantise<'a>(ActSlot<'a>);

// SAFETY: chunks are disjoint and whole blocks.
unsafe impl Phases for Quantise<'_> {
    fn few(&self, least: usize) -> bool {
        let x = self.0.f32();
        few(x.rows() * x.cols().div_ceil(CHUNK), x.cols().min(CHUNK), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let (x, rows) = (self.0, self.0.f32());
        by_chunks(worker, (rows.rows(), rows.cols()), CHUNK, &|i, from, len| {
            // SAFETY: passed on.
            unsafe {
                let to = x.quantised(i, from / BLOCK, len.div_ceil(BLOCK));
                (ctx.kernels.quantise)(rows.part(i, from, len), to);
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// Makes the 8-bit form of `x`, if it is `wanted` and not there.
    pub(super) fn quantise(&mut self, stage: Stage, wanted: bool, x: &mut ActSlot<'a>) {
        if wanted && !x.q8() {
            *x = x.in_forms(true);
            self.push(stage, Quantise(*x));
        }
    }
}
