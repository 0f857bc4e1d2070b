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
///
/// # Panics
/// If the shapes differ.
pub fn residual(ctx: &Ctx, how: &Residual<'_>, y: &mut Mat, x: &mut Mat) {
    assert_eq!((y.rows(), y.cols()), (x.rows(), x.cols()), "branch and stream are of one shape");
    if let Some(post) = &how.post {
        post.check(x.cols());
    }
    let (rows, cols) = (x.rows(), x.cols());
    let (y, x) = (y.shared(), x.shared());
    ctx.each_row(rows, cols, |i| {
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe {
            let y = y.part(i, 0, cols);
            if let Some(post) = &how.post {
                (ctx.kernels.norm)(post, y);
            }
            (ctx.kernels.add)(y, how.scale, x.part(i, 0, cols));
        }
    });
}
