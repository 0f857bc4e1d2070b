//! Activation functions and gated linear units. Shazeer 2020, arXiv:2002.05202.
use super::Ctx;
use crate::act::Act;
use crate::mat::Mat;

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Glu {
    /// `x · sigmoid(x)`
    Silu,
    /// GELU's tanh form.
    GeluTanh,
    /// GELU by the error function.
    Gelu,
    /// `max(x, 0)²`
    Relu2,
}

/// `out = act(gate)·up`, or `act(gate)` without `up`; with `q8` the 8-bit form too.
pub fn glu(ctx: &Ctx, act: Glu, gate: &Mat, up: Option<&Mat>, out: &mut Act, q8: bool) {
    let _ = (ctx, act, gate, up, out, q8);
    todo!()
}
