//! Activation functions and gated linear units. Shazeer 2020, arXiv:2002.05202.
use super::Ctx;
use crate::act::{Act, BLOCK, QuantRow};
use crate::mat::Mat;

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
    assert_eq!(gate.cols(), out.cols(), "gate and output are of one width");
    let same = |up: &Mat| (up.rows(), up.cols()) == (gate.rows(), gate.cols());
    assert!(up.is_none_or(same), "gate and up are of one shape");
    out.resize(gate.rows());
    let out = out.shared(ctx.kernels.tile, q8);
    ctx.each_chunk(gate.rows(), gate.cols(), |i, from, len| {
        let up = up.map_or(&[][..], |up| &up.row(i)[from..from + len]);
        // SAFETY: the tier is usable, lengths agree; chunks are disjoint and whole blocks.
        unsafe {
            let y = out.f32().part(i, from, len);
            let codes = q8.then(|| out.quantised(i, from / BLOCK, len.div_ceil(BLOCK)));
            unit(ctx, act, &gate.row(i)[from..from + len], up, y, codes);
        }
    });
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
