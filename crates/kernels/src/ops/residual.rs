//! The residual stream.
use super::{Ctx, Norm};
use crate::mat::Mat;

/// How a branch's output joins the stream.
pub struct Residual<'a> {
    /// Applied to the branch's output first.
    pub post: Option<Norm<'a>>,
    /// Multiplies it then.
    pub scale: f32,
}

/// `x = x + scale · post(y)` row by row. `y` is used as scratch.
pub fn residual(ctx: &Ctx, how: &Residual<'_>, y: &mut Mat, x: &mut Mat) {
    let _ = (ctx, how, y, x);
    todo!()
}
