//! The residual stream.
use super::{Ctx, Norm};
use crate::mat::{Mat, Rows, Shared};

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
    let (rows, cols) = (x.rows(), x.cols());
    let (y, x) = (y.shared(), x.shared());
    how.check(y, x);
    // SAFETY: the tier is usable, shapes agree; a row is one task's.
    ctx.each_row(rows, cols, |i| unsafe { how.row(ctx, i, y, x) });
}

impl Residual<'_> {
    /// # Panics
    /// If the shapes differ.
    pub(super) fn check(&self, y: Shared<'_>, x: Shared<'_>) {
        let shape = (x.rows(), x.cols());
        assert_eq!((y.rows(), y.cols()), shape, "branch and stream are of one shape");
        if let Some(post) = &self.post {
            post.check(x.cols());
        }
        let same = |(_, skip): &(f32, Rows<'_>)| (skip.rows(), skip.cols()) == shape;
        assert!(self.skip.as_ref().is_none_or(same), "what is skipped to is of another shape");
    }

    /// Joins row `i`.
    ///
    /// # Safety
    /// The tier is usable, shapes agree, and the row is the caller's.
    pub(super) unsafe fn row(&self, ctx: &Ctx, i: usize, y: Shared<'_>, x: Shared<'_>) {
        // SAFETY: passed on.
        unsafe {
            let (y, x) = (y.part(i, 0, y.cols()), x.part(i, 0, x.cols()));
            if let Some(post) = &self.post {
                (ctx.kernels.norm)(post, y);
            }
            if let Some((by, skip)) = &self.skip {
                x.iter_mut().zip(skip.row(i)).for_each(|(x, skip)| *x = by * skip);
            }
            (ctx.kernels.add)(y, self.scale, x);
            if self.then != 1.0 {
                x.iter_mut().for_each(|x| *x *= self.then);
            }
        }
    }
}
