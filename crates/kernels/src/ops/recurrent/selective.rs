//! The selective scan of Mamba. Gu & Dao 2023, arXiv:2312.00752.
use super::{CHANNELS, Cells, CellsFrom, Run, by_parts, few, lend, stretch};
use crate::mat::{Mat, Seen, Shared, Slot, apart};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Stage};
use crate::team::Worker;
use std::ops::Range;

/// What a selective scan's parameters are.
#[derive(Clone, Copy, Debug)]
pub struct Selective<'a> {
    /// Numbers that a channel remembers.
    pub state: usize,
    /// `[state, channels]`, negative: what the step is multiplied by in the exponent of the decay.
    pub rates: &'a [f32],
    /// A number a channel: what of the input goes to the output as it is.
    pub skip: &'a [f32],
}

/// A selective scan's inputs, a row each.
#[derive(Clone, Copy)]
pub struct SelectiveInput<'a> {
    /// `[rows, channels]`
    pub x: Seen<'a>,
    /// The step, above zero, as wide.
    pub step: Seen<'a>,
    /// What the input is written by, `[rows, state]`.
    pub write: Seen<'a>,
    /// What the output is read by, as wide.
    pub read: Seen<'a>,
}

/// For each channel and number `n` of its state `h[n] = e^(step·rate[n])·h[n] + step·x·write[n]`,
/// then `out = Σ_n h[n]·read[n] + skip·x`. The state, `[state, channels]`, begins at float `at` of
/// each cell. `out` takes the input's row count; rows of no run are unspecified.
///
/// # Panics
/// If shapes disagree.
pub fn selective(
    ctx: &Ctx,
    how: &Selective<'_>,
    runs: &[Run],
    input: SelectiveInput<'_>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let out = out.lend(input.x.rows());
    alone(ctx, SelectiveScan::new(*how, runs, input, (cells.slot(), at), out));
}

/// The same, as an operation.
struct SelectiveScan<'a> {
    how: Selective<'a>,
    runs: &'a [Run],
    input: SelectiveInput<'a>,
    cells: Cells<'a>,
    out: Slot<'a>,
}

impl<'a> SelectiveScan<'a> {
    /// # Panics
    /// If shapes disagree.
    pub fn new(
        how: Selective<'a>,
        runs: &'a [Run],
        input: SelectiveInput<'a>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) -> SelectiveScan<'a> {
        let (rows, channels, state) = (input.x.rows(), how.skip.len(), how.state);
        let SelectiveInput { x, step, write, read } = input;
        assert_eq!(how.rates.len(), state * channels, "the rates");
        let is = |m: Seen<'_>, cols| m.rows() == rows && m.cols() == cols;
        let wide = [x, step, out.into()].into_iter().all(|m| is(m, channels));
        assert!(wide, "{channels} channels");
        assert!(is(write, state) && is(read, state), "a state of {state}");
        apart([*out, *cells.0], [x, step, write, read]);
        let cells = lend(cells, state * channels, runs, rows);
        SelectiveScan { how, runs, input, cells, out }
    }
}

// SAFETY: a run's channels are one task's.
unsafe impl Phases for SelectiveScan<'_> {
    fn few(&self, least: usize) -> bool {
        let channels = self.how.skip.len();
        few(self.runs, channels.div_ceil(CHANNELS), self.how.rates.len(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let SelectiveScan { how, input, cells, out, .. } = self;
        let channels = how.skip.len();
        by_parts(worker, self.runs, channels.div_ceil(CHANNELS), &|run, i| {
            let channels = stretch(i, channels);
            let task = SelectiveTask { how, run, channels, input, cells: *cells, out: **out };
            // SAFETY: passed on, shapes agree.
            unsafe { (ctx.kernels.selective)(&task) };
        });
    }
}

impl<'a> Chain<'a> {
    /// A selective scan, as of [`selective()`].
    ///
    /// # Panics
    /// If shapes disagree.
    pub fn selective(
        &mut self,
        how: Selective<'a>,
        runs: &'a [Run],
        input: SelectiveInput<'a>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) {
        self.push(Stage::State, SelectiveScan::new(how, runs, input, cells, out));
    }
}

/// Some channels of one run.
pub struct SelectiveTask<'a> {
    pub(crate) how: &'a Selective<'a>,
    pub(crate) run: &'a Run,
    pub(crate) channels: Range<usize>,
    pub(crate) input: &'a SelectiveInput<'a>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
