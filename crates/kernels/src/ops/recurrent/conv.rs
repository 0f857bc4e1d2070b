//! Causal depthwise convolution along a sequence: each channel sees its own last few inputs.
use super::{CHANNELS, Cells, Ctx, Run, lend, stretch};
use crate::mat::{Mat, Shared};
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
    let channels = how.channels();
    assert_eq!(how.weights.len(), how.width * channels, "weights of {} inputs", how.width);
    assert!(how.bias.is_none_or(|bias| bias.len() == channels), "the bias");
    assert!(x.cols() == channels && out.cols() == channels, "{channels} channels");
    let same = |m: &Mat| (m.rows(), m.cols()) == (x.rows(), channels);
    assert!(gates.is_none_or(|(before, after)| same(before) && same(after)), "the gates");
    let cells = lend(cells, at, Conv::floats(how.width, channels), runs, x.rows());
    out.resize(x.rows());
    let out = out.shared();
    ctx.each_part(runs, channels.div_ceil(CHANNELS), channels, |run, i| {
        let task = ConvTask { how, run, channels: stretch(i, channels), x, gates, cells, out };
        // SAFETY: the tier is usable, shapes agree; a run's channels are one task's.
        unsafe { (ctx.kernels.conv)(&task) };
    });
}

/// Some channels of one run.
pub struct ConvTask<'a> {
    pub(crate) how: &'a Conv<'a>,
    pub(crate) run: &'a Run,
    pub(crate) channels: Range<usize>,
    pub(crate) x: &'a Mat,
    pub(crate) gates: Option<(&'a Mat, &'a Mat)>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
