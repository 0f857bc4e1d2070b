//! The selective scan of Mamba. Gu & Dao 2023, arXiv:2312.00752.
use super::{CHANNELS, Cells, Ctx, Run, lend, stretch};
use crate::mat::{Mat, Shared};
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
#[derive(Clone, Copy, Debug)]
pub struct SelectiveInput<'a> {
    /// `[rows, channels]`
    pub x: &'a Mat,
    /// The step, above zero, as wide.
    pub step: &'a Mat,
    /// What the input is written by, `[rows, state]`.
    pub write: &'a Mat,
    /// What the output is read by, as wide.
    pub read: &'a Mat,
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
    input: &SelectiveInput<'_>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let (rows, channels, state) = (input.x.rows(), how.skip.len(), how.state);
    assert_eq!(how.rates.len(), state * channels, "the rates");
    let is = |m: &Mat, cols| m.rows() == rows && m.cols() == cols;
    assert!(is(input.x, channels) && is(input.step, channels), "{channels} channels");
    assert!(is(input.write, state) && is(input.read, state), "a state of {state}");
    assert_eq!(out.cols(), channels, "the output's channels");
    let cells = lend(cells, at, state * channels, runs, rows);
    out.resize(rows);
    let out = out.shared();
    ctx.each_part(runs, channels.div_ceil(CHANNELS), state * channels, |run, i| {
        let task = SelectiveTask { how, run, channels: stretch(i, channels), input, cells, out };
        // SAFETY: the tier is usable, shapes agree; a run's channels are one task's.
        unsafe { (ctx.kernels.selective)(&task) };
    });
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
