//! Soft capping: `cap · tanh(x / cap)`.
use super::chain::{Phases, alone};
use super::{CHUNK, Chain, Ctx, Stage, by_chunks, few};
use crate::mat::{Mat, Slot};
use crate::team::Worker;

/// Caps every element of `x`.
pub fn softcap(ctx: &Ctx, cap: f32, x: &mut Mat) {
    alone(ctx, Capped { cap, x: x.slot() });
}

/// The same, as an operation.
struct Capped<'a> {
    cap: f32,
    x: Slot<'a>,
}

// SAFETY: chunks are disjoint.
unsafe impl Phases for Capped<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows() * self.x.cols().div_ceil(CHUNK), self.x.cols().min(CHUNK), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Capped { cap, x } = self;
        by_chunks(worker, (x.rows(), x.cols()), CHUNK, &|i, from, len| {
            // SAFETY: passed on.
            unsafe { (ctx.kernels.softcap)(x.part(i, from, len), *cap) };
        });
    }
}

impl<'a> Chain<'a> {
    /// Caps every element of `x`.
    pub fn softcap(&mut self, cap: f32, x: Slot<'a>) {
        self.push(Stage::Norm, Capped { cap, x });
    }
}
