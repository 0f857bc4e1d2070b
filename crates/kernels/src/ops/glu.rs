//! Activation functions and gated linear units. Shazeer 2020, arXiv:2002.05202.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Stage, by_chunks, few};
use crate::act::{Act, ActSlot, BLOCK, QuantRow};
use crate::mat::{Mat, Seen, apart};
use crate::team::Worker;

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Glu {
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `x · sigmoid(x)`
    Silu,
    /// The same of `x` times this.
    SiluScaled(f32),
    /// GELU's tanh form.
    GeluTanh,
    /// GELU by the error function.
    Gelu,
    /// `max(x, 0)`
    Relu,
    /// `max(x, 0)²`
    Relu2,
    /// `x · sigmoid(1.702 x)`, which is near GELU.
    QuickGelu,
    /// As `QuickGelu` of `min(x, limit)`, times `1 + clamp(up, -limit, limit)`.
    ClampedGelu {
        /// Of both factors.
        limit: f32,
    },
    /// `p·x² + beta·x` above zero, `n·(e^min(x, eps) - 1 - x) + beta·x` below.
    /// Huang & Schlag 2024, arXiv:2411.13010.
    Xielu {
        /// Of the square.
        p: f32,
        /// Of the exponential.
        n: f32,
        /// Of the linear part.
        beta: f32,
        /// Below zero.
        eps: f32,
    },
}

/// `out = act(gate)·up`, or `act(gate)` without `up`; `out` takes `gate`'s row count. With `q8`
/// the 8-bit form is made in the same pass.
///
/// # Panics
/// If the shapes differ.
pub fn glu(ctx: &Ctx, act: Glu, gate: &Mat, up: Option<&Mat>, out: &mut Act, q8: bool) {
    let out = out.lend(ctx, gate.rows(), q8);
    alone(ctx, Units::new(act, gate.into(), up.map(Seen::from), out));
}

/// The same, as an operation.
struct Units<'a> {
    act: Glu,
    gate: Seen<'a>,
    up: Option<Seen<'a>>,
    out: ActSlot<'a>,
}

/// Columns to a task: whole blocks.
const COLUMNS: usize = 256;

impl<'a> Units<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(act: Glu, gate: Seen<'a>, up: Option<Seen<'a>>, out: ActSlot<'a>) -> Units<'a> {
        let (to, shape) = (out.f32(), |x: &Seen<'_>| (x.rows(), x.cols()));
        assert_eq!((to.rows(), to.cols()), shape(&gate), "gate and output are of one shape");
        let same = up.as_ref().is_none_or(|up| shape(up) == shape(&gate));
        assert!(same, "gate and up are of one shape");
        apart([*to], [gate, up.unwrap_or(gate)]);
        Units { act, gate, up, out }
    }
}

// SAFETY: chunks are disjoint and whole blocks.
unsafe impl Phases for Units<'_> {
    fn few(&self, least: usize) -> bool {
        few(
            self.gate.rows() * self.gate.cols().div_ceil(COLUMNS),
            self.gate.cols().min(COLUMNS),
            least,
        )
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Units { act, gate, up, out } = self;
        by_chunks(worker, (gate.rows(), gate.cols()), COLUMNS, &|i, from, len| {
            let at = from..from + len;
            // SAFETY: passed on, lengths agree.
            unsafe {
                let up = up.map_or(&[][..], |up| &up.row(i)[at.clone()]);
                let y = out.f32().part(i, from, len);
                let codes = out.codes(i, from / BLOCK, len.div_ceil(BLOCK));
                unit(ctx, *act, &gate.row(i)[at], up, y, codes);
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = act(gate)·up`, as of [`glu()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn glu(
        &mut self,
        stage: Stage,
        act: Glu,
        gate: impl Into<Seen<'a>>,
        up: Option<Seen<'a>>,
        out: ActSlot<'a>,
    ) {
        self.push(stage, Units::new(act, gate.into(), up, out));
    }
}

/// `y = act(gate)·up` of some columns of a row, and its 8-bit form if that is wanted.
///
/// # Safety
/// The tier is usable, lengths agree.
pub(super) unsafe fn unit(
    ctx: &Ctx,
    act: Glu,
    gate: &[f32],
    up: &[f32],
    y: &mut [f32],
    codes: Option<QuantRow<'_>>,
) {
    // SAFETY: passed on.
    unsafe {
        (ctx.kernels.glu)(act, gate, up, y);
        if let Some(codes) = codes {
            (ctx.kernels.quantise)(y, codes);
        }
    }
}
