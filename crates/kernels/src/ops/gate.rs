//! Gates: elementwise functions that say how much a state forgets and takes.
use super::Ctx;
use crate::mat::Mat;

/// An elementwise function; parameters are a number a column.
#[derive(Clone, Copy, Debug)]
pub enum Gate<'a> {
    /// `scale · sigmoid(x)`
    Sigmoid {
        /// 1, or what it is multiplied by.
        scale: f32,
    },
    /// `softplus(x + bias)`, within bounds.
    Softplus {
        /// None is zero.
        bias: Option<&'a [f32]>,
        /// Lower bound.
        least: f32,
        /// Upper bound.
        most: f32,
    },
    /// `e^(rate · x)`
    Exp {
        /// Negative, to forget.
        rate: &'a [f32],
    },
    /// `e^(rate · softplus(x + bias))`
    Decay {
        /// Negative, to forget.
        rate: &'a [f32],
        /// Added first.
        bias: &'a [f32],
    },
    /// `e^(bound · sigmoid(rate · (x + bias)))`
    BoundedDecay {
        /// Multiplies what the sigmoid is of.
        rate: &'a [f32],
        /// Added first.
        bias: &'a [f32],
        /// Negative: the logarithm of the least factor.
        bound: f32,
    },
}

impl<'a> Gate<'a> {
    /// The same of some columns.
    fn part(self, from: usize, len: usize) -> Gate<'a> {
        let cut = |x: &'a [f32]| &x[from..from + len];
        match self {
            Gate::Sigmoid { .. } => self,
            Gate::Softplus { bias, least, most } => {
                Gate::Softplus { bias: bias.map(cut), least, most }
            }
            Gate::Exp { rate } => Gate::Exp { rate: cut(rate) },
            Gate::Decay { rate, bias } => Gate::Decay { rate: cut(rate), bias: cut(bias) },
            Gate::BoundedDecay { rate, bias, bound } => {
                Gate::BoundedDecay { rate: cut(rate), bias: cut(bias), bound }
            }
        }
    }
}

/// `out = gate(x)`; `out` takes `x`'s row count.
///
/// # Panics
/// If the widths differ.
pub fn gate(ctx: &Ctx, how: Gate<'_>, x: &Mat, out: &mut Mat) {
    assert_eq!(x.cols(), out.cols(), "input and output are of one width");
    out.resize(x.rows());
    let out = out.shared();
    ctx.each_chunk(x.rows(), x.cols(), |i, from, len| {
        let (x, how) = (&x.row(i)[from..from + len], how.part(from, len));
        // SAFETY: the tier is usable, lengths agree; chunks are disjoint.
        unsafe { (ctx.kernels.gate)(how, x, out.part(i, from, len)) };
    });
}
