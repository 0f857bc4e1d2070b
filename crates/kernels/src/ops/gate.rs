//! Gates: elementwise functions that say how much a state forgets and takes.
use super::chain::{Phases, alone};
use super::{CHUNK, Chain, Ctx, Stage, by_chunks, few};
use crate::mat::{Mat, Seen, Slot, apart};
use crate::team::Worker;

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
    let out = out.lend(x.rows());
    alone(ctx, Gates::new(how, x.into(), out));
}

/// The same, as an operation.
struct Gates<'a> {
    how: Gate<'a>,
    x: Seen<'a>,
    out: Slot<'a>,
}

impl<'a> Gates<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(how: Gate<'a>, x: Seen<'a>, out: Slot<'a>) -> Gates<'a> {
        let same = (x.rows(), x.cols()) == (out.rows(), out.cols());
        assert!(same, "input and output are of one shape");
        apart([*out], [x]);
        Gates { how, x, out }
    }
}

// SAFETY: chunks are disjoint.
unsafe impl Phases for Gates<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows() * self.x.cols().div_ceil(CHUNK), self.x.cols().min(CHUNK), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Gates { how, x, out } = self;
        by_chunks(worker, (x.rows(), x.cols()), CHUNK, &|i, from, len| {
            let how = how.part(from, len);
            // SAFETY: passed on, lengths agree.
            unsafe {
                (ctx.kernels.gate)(how, &x.row(i)[from..from + len], out.part(i, from, len));
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = gate(x)`, as of [`gate()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn gate(&mut self, stage: Stage, how: Gate<'a>, x: Slot<'a>, out: Slot<'a>) {
        self.push(stage, Gates::new(how, x.into(), out));
    }
}
