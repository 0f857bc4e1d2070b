//! Causal depthwise convolution along a sequence: each channel sees its own last few inputs.
use super::{CHANNELS, Cells, CellsFrom, Run, by_parts, few, lend, stretch};
use crate::mat::{Mat, Seen, Shared, Slot, apart};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Stage};
use crate::team::Worker;
use std::ops::Range;

/// A convolution's weights.
#[derive(Clone, Copy, Debug)]
pub struct Conv<'a> {
    /// `[width, channels]`, the present input's last.
    pub weights: &'a [f32],
    /// A number a channel.
    pub bias: Option<&'a [f32]>,
    /// Inputs that an output is made of.
    pub width: usize,
    /// Whether `x · sigmoid(x)` is applied.
    pub silu: bool,
}

impl Conv<'_> {
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.weights.len() / self.width
    }
    /// Floats of the state: the inputs that the next row still sees.
    pub fn floats(width: usize, channels: usize) -> usize {
        (width - 1) * channels
    }
}

/// `out = conv(x)` along each run; or with `gates` of `(before, after)`, all as wide,
/// `out = conv(before · x) · after`. The state's part begins at float `at` of each cell. `out` takes
/// `x`'s row count; rows of no run are unspecified.
///
/// # Panics
/// If shapes disagree.
pub fn conv(
    ctx: &Ctx,
    how: &Conv<'_>,
    runs: &[Run],
    x: &Mat,
    gates: Option<(&Mat, &Mat)>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let gates = gates.map(|(before, after)| (before.into(), after.into()));
    let out = out.lend(x.rows());
    alone(ctx, Convolved::new(*how, runs, x.into(), gates, (cells.slot(), at), out));
}

/// The same, as an operation.
struct Convolved<'a> {
    how: Conv<'a>,
    runs: &'a [Run],
    x: Seen<'a>,
    gates: Option<(Seen<'a>, Seen<'a>)>,
    cells: Cells<'a>,
    out: Slot<'a>,
}

impl<'a> Convolved<'a> {
    /// # Panics
    /// If shapes disagree.
    pub fn new(
        how: Conv<'a>,
        runs: &'a [Run],
        x: Seen<'a>,
        gates: Option<(Seen<'a>, Seen<'a>)>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) -> Convolved<'a> {
        let channels = how.channels();
        assert_eq!(how.weights.len(), how.width * channels, "weights of {} inputs", how.width);
        assert!(how.bias.is_none_or(|bias| bias.len() == channels), "the bias");
        let shape = (x.rows(), channels);
        let fits = x.cols() == channels && (out.rows(), out.cols()) == shape;
        assert!(fits, "{channels} channels");
        let same = |m: Seen<'_>| (m.rows(), m.cols()) == shape;
        assert!(gates.is_none_or(|(before, after)| same(before) && same(after)), "the gates");
        let (before, after) = gates.unwrap_or((x, x));
        apart([*out, *cells.0], [x, before, after]);
        let cells = lend(cells, Conv::floats(how.width, channels), runs, x.rows());
        Convolved { how, runs, x, gates, cells, out }
    }
}

// SAFETY: a run's channels are one task's.
unsafe impl Phases for Convolved<'_> {
    fn few(&self, least: usize) -> bool {
        let channels = self.how.channels();
        few(self.runs, channels.div_ceil(CHANNELS), channels, least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Convolved { how, x, gates, cells, out, .. } = self;
        let channels = how.channels();
        by_parts(worker, self.runs, channels.div_ceil(CHANNELS), &|run, i| {
            let (channels, x, gates) = (stretch(i, channels), *x, *gates);
            let task = ConvTask { how, run, channels, x, gates, cells: *cells, out: **out };
            // SAFETY: passed on, shapes agree.
            unsafe { (ctx.kernels.conv)(&task) };
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = conv(x)`, as of [`conv()`].
    ///
    /// # Panics
    /// If shapes disagree.
    pub fn conv(
        &mut self,
        how: Conv<'a>,
        runs: &'a [Run],
        x: Slot<'a>,
        gates: Option<(Slot<'a>, Slot<'a>)>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) {
        let gates = gates.map(|(before, after)| (before.into(), after.into()));
        self.push(Stage::State, Convolved::new(how, runs, x.into(), gates, cells, out));
    }
}

/// Some channels of one run.
pub struct ConvTask<'a> {
    pub(crate) how: &'a Conv<'a>,
    pub(crate) run: &'a Run,
    pub(crate) channels: Range<usize>,
    pub(crate) x: Seen<'a>,
    pub(crate) gates: Option<(Seen<'a>, Seen<'a>)>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
