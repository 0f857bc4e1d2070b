//! The real-gated linear recurrent unit. De et al. 2024, arXiv:2402.19427.
use super::{CHANNELS, Cells, CellsFrom, Run, by_parts, few, lend, stretch};
use crate::mat::{Mat, Seen, Shared, Slot, apart};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Stage};
use crate::team::Worker;
use std::ops::Range;

/// A recurrent unit's inputs, all `[rows, channels]`.
#[derive(Clone, Copy)]
pub struct RgLru<'a> {
    /// What is remembered.
    pub x: Seen<'a>,
    /// Before the sigmoid: how much it forgets.
    pub forget: Seen<'a>,
    /// Before the sigmoid: how much it takes.
    pub take: Seen<'a>,
    /// A number a channel, negative: the logarithm of the least decay.
    pub bound: &'a [f32],
}

/// For each channel `a = e^(bound·sigmoid(forget))`,
/// `h = a·h + √(1 - a²)·sigmoid(take)·x`, where a sequence's first row has one for the root; `out`
/// is `h`. The state begins at float `at` of each cell. `out` takes the input's row count; rows of no
/// run are unspecified.
///
/// # Panics
/// If shapes disagree.
pub fn rg_lru(
    ctx: &Ctx,
    input: RgLru<'_>,
    runs: &[Run],
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let out = out.lend(input.x.rows());
    alone(ctx, RgLruScan::new(input, runs, (cells.slot(), at), out));
}

/// The same, as an operation.
struct RgLruScan<'a> {
    input: RgLru<'a>,
    runs: &'a [Run],
    cells: Cells<'a>,
    out: Slot<'a>,
}

impl<'a> RgLruScan<'a> {
    /// # Panics
    /// If shapes disagree.
    pub fn new(
        input: RgLru<'a>,
        runs: &'a [Run],
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) -> RgLruScan<'a> {
        let (rows, channels) = (input.x.rows(), input.bound.len());
        let fits = |m: Seen<'_>| m.rows() == rows && m.cols() == channels;
        let reads = [input.x, input.forget, input.take];
        assert!(reads.into_iter().chain([out.into()]).all(fits), "{channels} channels");
        apart([*out, *cells.0], reads);
        let cells = lend(cells, channels, runs, rows);
        RgLruScan { input, runs, cells, out }
    }
}

// SAFETY: a run's channels are one task's.
unsafe impl Phases for RgLruScan<'_> {
    fn few(&self, least: usize) -> bool {
        let channels = self.input.bound.len();
        few(self.runs, channels.div_ceil(CHANNELS), channels, least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let RgLruScan { input, cells, out, .. } = self;
        let channels = input.bound.len();
        by_parts(worker, self.runs, channels.div_ceil(CHANNELS), &|run, i| {
            let channels = stretch(i, channels);
            let task = RgLruTask { run, channels, input, cells: *cells, out: **out };
            // SAFETY: passed on, shapes agree.
            unsafe { (ctx.kernels.rg_lru)(&task) };
        });
    }
}

impl<'a> Chain<'a> {
    /// A recurrent unit, as of [`rg_lru()`].
    ///
    /// # Panics
    /// If shapes disagree.
    pub fn rg_lru(
        &mut self,
        input: RgLru<'a>,
        runs: &'a [Run],
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) {
        self.push(Stage::State, RgLruScan::new(input, runs, cells, out));
    }
}

/// Some channels of one run.
pub struct RgLruTask<'a> {
    pub(crate) run: &'a Run,
    pub(crate) channels: Range<usize>,
    pub(crate) input: &'a RgLru<'a>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
