//! Gates that only what stands out of its row passes, by a cut that would be a normal distribution's.
//! You et al. 2025, arXiv:2506.06644.
//!
//! Plain code for all tiers: two sums and a subtraction, in a fixed order.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Stage, by_rows, few};
use crate::mat::{Mat, Slot};
use crate::team::Worker;

/// `x = max(x - (mean + deviations · std), 0)` row by row, where `std` is the row's own, its mean
/// known.
pub fn sparsify(ctx: &Ctx, deviations: f32, x: &mut Mat) {
    alone(ctx, Sparse { deviations, x: x.slot() });
}

/// The same, as an operation.
struct Sparse<'a> {
    deviations: f32,
    x: Slot<'a>,
}

// SAFETY: a row is one task's.
unsafe impl Phases for Sparse<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows(), self.x.cols(), least)
    }
    unsafe fn phase(&self, _: &Ctx, worker: &Worker<'_>, _: usize) {
        let Sparse { deviations, x } = self;
        // SAFETY: passed on.
        by_rows(worker, x.rows(), &|i| sparse(*deviations, unsafe { x.part(i, 0, x.cols()) }));
    }
}

impl<'a> Chain<'a> {
    /// What stands out of each row of `x`, as of [`sparsify()`].
    pub fn sparsify(&mut self, deviations: f32, x: Slot<'a>) {
        self.push(Stage::Unit, Sparse { deviations, x });
    }
}

/// The same of one row.
fn sparse(deviations: f32, row: &mut [f32]) {
    let mean = sum(row, |x| x) / row.len() as f32;
    let variance = sum(row, |x| (x - mean) * (x - mean)) / row.len() as f32;
    let cut = mean + deviations * variance.sqrt();
    row.iter_mut().for_each(|x| *x = if *x < cut { 0.0 } else { *x - cut });
}

/// The sum over all `x` of `of(x)`: sixteen partial sums, element `i` going to number `i % 16`.
pub(super) fn sum(x: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut partial = [0f32; 16];
    let (whole, rest) = x.as_chunks::<16>();
    for x in whole {
        partial.iter_mut().zip(x).for_each(|(sum, x)| *sum += of(*x));
    }
    partial.iter_mut().zip(rest).for_each(|(sum, x)| *sum += of(*x));
    partial.iter().sum()
}
