//! The residual stream.
use super::{Ctx, Norm};
use crate::mat::{Mat, Rows};

/// How a branch's output joins the stream.
pub struct Residual<'a> {
    /// Applied to the branch's output first.
    pub post: Option<Norm<'a>>,
    /// Multiplies it then.
    pub scale: f32,
    /// What it is added to, and what multiplies that; none is the stream.
    pub skip: Option<(f32, Rows<'a>)>,
    /// Multiplies the sum.
    pub then: f32,
}

/// `x = then · (skip + scale · post(y))` row by row. `y` is used as scratch.
///
/// # Panics
/// If the shapes differ.
pub fn residual(ctx: &Ctx, how: &Residual<'_>, y: &mut Mat, x: &mut Mat) {
    assert_eq!((y.rows(), y.cols()), (x.rows(), x.cols()), "branch and stream are of one shape");
    if let Some(post) = &how.post {
        post.check(x.cols());
    }
    let (rows, cols) = (x.rows(), x.cols());
    let same = |(_, skip): &(f32, Rows<'_>)| (skip.rows(), skip.cols()) == (rows, cols);
    assert!(how.skip.as_ref().is_none_or(same), "what is skipped to and stream are of one shape");
    let (y, x) = (y.shared(), x.shared());
    ctx.each_row(rows, cols, |i| {
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe {
            let (y, x) = (y.part(i, 0, cols), x.part(i, 0, cols));
            if let Some(post) = &how.post {
                (ctx.kernels.norm)(post, y);
            }
            if let Some((by, skip)) = &how.skip {
                x.iter_mut().zip(skip.row(i)).for_each(|(x, skip)| *x = by * skip);
            }
            (ctx.kernels.add)(y, how.scale, x);
            if how.then != 1.0 {
                x.iter_mut().for_each(|x| *x *= how.then);
            }
        }
    });
}
