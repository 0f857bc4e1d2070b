//! Inputs in the order of a matrix's columns: what is multiplied by a matrix that was stored so that
//! its groups of inputs lie together is gathered first.
use super::Ctx;
use super::chain::alone;
use super::linear::{Linear, linear};
use super::norm::Normed;
use crate::act::{Act, ActSlot};
use crate::layout::Reads;
use std::cell::UnsafeCell;

/// Gathered inputs, one of each width, sized once.
#[derive(Default)]
pub struct Turned {
    all: Vec<UnsafeCell<Act>>,
    bytes: usize,
}

impl Turned {
    /// For batches of up to `rows` rows of these widths.
    pub fn new(widths: impl IntoIterator<Item = usize>, rows: usize) -> Turned {
        let mut all: Vec<Act> = Vec::new();
        for cols in widths {
            if all.iter().all(|act| act.cols() != cols) {
                all.push(Act::new(rows, cols));
            }
        }
        let bytes = all.iter().map(Act::bytes).sum();
        Turned { all: all.into_iter().map(UnsafeCell::new).collect(), bytes }
    }
    /// The one of this width, for one operation to write and the next to read.
    ///
    /// # Panics
    /// If there is none, or it has room for fewer rows.
    pub(super) fn lend(&self, ctx: &Ctx, rows: usize, cols: usize, q8: bool) -> ActSlot<'_> {
        // SAFETY: references to what the cells hold live no longer than a call of this type's
        // functions, none of which calls another, and threads do not share it.
        let mut all = self.all.iter().map(|act| unsafe { &mut *act.get() });
        let act = all.find(|act| act.cols() == cols).expect("room for a gathered input");
        act.lend(ctx, rows, q8)
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// As [`linear`], of weights that may have [orders](crate::Packed::order): each order's input is gathered to
/// `turned` first.
///
/// # Panics
/// If shapes disagree, or `turned` has no room for a width.
pub fn linear_in_orders(ctx: &Ctx, x: &mut Act, jobs: &mut [Linear<'_>], turned: &Turned) {
    jobs.sort_unstable_by_key(|job| job.weights.order().is_some());
    for alike in jobs.chunk_by_mut(|a, b| a.weights.order() == b.weights.order()) {
        let Some(order) = alike[0].weights.order() else {
            linear(ctx, x, alike);
            continue;
        };
        let q8 = alike.iter().any(|job| job.weights.layout().reads() == Reads::Q8);
        let to = turned.lend(ctx, x.rows(), x.cols(), q8);
        alone(ctx, Normed::new(None, Some(order), x.exact_rows().into(), to));
        super::linear::all(ctx, to, alike);
    }
}
