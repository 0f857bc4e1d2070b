//! Rows that each count by a weight of their own.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Stage, by_rows, few};
use crate::mat::{Mat, Seen, Slot, Store, apart};
use crate::team::Worker;

/// `out[i] (+)= weights[i] · y[i]`; `weights` is `[rows, 1]`. `out` takes `y`'s row count, or has it
/// where it is added to.
///
/// # Panics
/// If the shapes differ.
pub fn weighted(ctx: &Ctx, y: &Mat, weights: &Mat, out: &mut Mat, store: Store) {
    let out = if store == Store::Set { out.lend(y.rows()) } else { out.slot() };
    alone(ctx, Weighted::new(y.into(), weights.into(), out, store));
}

/// The same, as an operation.
struct Weighted<'a> {
    y: Seen<'a>,
    weights: Seen<'a>,
    out: Slot<'a>,
    store: Store,
}

impl<'a> Weighted<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(y: Seen<'a>, weights: Seen<'a>, out: Slot<'a>, store: Store) -> Weighted<'a> {
        let same = (out.rows(), out.cols()) == (y.rows(), y.cols());
        let one = (weights.rows(), weights.cols()) == (y.rows(), 1);
        assert!(same && one, "rows, weights and output are of one shape");
        apart([*out], [y, weights]);
        Weighted { y, weights, out, store }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Weighted<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.y.rows(), self.y.cols(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Weighted { y, weights, out, store } = self;
        by_rows(worker, y.rows(), &|i| {
            // SAFETY: passed on, lengths agree.
            unsafe {
                let row = out.part(i, 0, out.cols());
                if *store == Store::Set {
                    row.fill(0.0);
                }
                (ctx.kernels.add)(y.row(i), weights.row(i)[0], row);
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `out[i] += weights[i] · y[i]`, as of [`weighted()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn weighted(&mut self, stage: Stage, y: Slot<'a>, weights: Slot<'a>, out: Slot<'a>) {
        self.push(stage, Weighted::new(y.into(), weights.into(), out, Store::Add));
    }
}
