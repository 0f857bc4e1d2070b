//! The real-gated linear recurrent unit. De et al. 2024, arXiv:2402.19427.
use super::{CHANNELS, Cells, Ctx, Run, lend, stretch};
use crate::mat::{Mat, Shared};
use std::ops::Range;

/// A recurrent unit's inputs, all `[rows, channels]`.
#[derive(Clone, Copy, Debug)]
pub struct RgLru<'a> {
    /// What is remembered.
    pub x: &'a Mat,
    /// Before the sigmoid: how much it forgets.
    pub forget: &'a Mat,
    /// Before the sigmoid: how much it takes.
    pub take: &'a Mat,
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
    input: &RgLru<'_>,
    runs: &[Run],
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let (rows, channels) = (input.x.rows(), input.bound.len());
    let fits = |m: &Mat| m.rows() == rows && m.cols() == channels;
    assert!([input.x, input.forget, input.take].into_iter().all(fits), "{channels} channels");
    assert_eq!(out.cols(), channels, "the output's channels");
    let cells = lend(cells, at, channels, runs, rows);
    out.resize(rows);
    let out = out.shared();
    ctx.each_part(runs, channels.div_ceil(CHANNELS), channels, |run, i| {
        let task = RgLruTask { run, channels: stretch(i, channels), input, cells, out };
        // SAFETY: the tier is usable, shapes agree; a run's channels are one task's.
        unsafe { (ctx.kernels.rg_lru)(&task) };
    });
}

/// Some channels of one run.
pub struct RgLruTask<'a> {
    pub(crate) run: &'a Run,
    pub(crate) channels: Range<usize>,
    pub(crate) input: &'a RgLru<'a>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
