//! The residual stream.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Norm, Stage, by_rows, few};
use crate::mat::{Mat, Seen, Slot, apart};
use crate::team::Worker;

/// How a branch's output joins the stream.
#[derive(Clone, Copy)]
pub struct Residual<'a> {
    /// Applied to the branch's output first.
    pub post: Option<Norm<'a>>,
    /// Multiplies it then.
    pub scale: f32,
    /// What it is added to, and what multiplies that; none is the stream.
    pub skip: Option<(f32, Seen<'a>)>,
    /// Multiplies the sum.
    pub then: f32,
}

/// `x = then · (skip + scale · post(y))` row by row. `y` is used as scratch.
///
/// # Panics
/// If the shapes differ.
pub fn residual(ctx: &Ctx, how: &Residual<'_>, y: &mut Mat, x: &mut Mat) {
    alone(ctx, Joined::new(*how, y.slot(), x.slot()));
}

/// The same, as an operation.
struct Joined<'a> {
    how: Residual<'a>,
    y: Slot<'a>,
    x: Slot<'a>,
}

impl<'a> Joined<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(how: Residual<'a>, y: Slot<'a>, x: Slot<'a>) -> Joined<'a> {
        let shape = (x.rows(), x.cols());
        assert_eq!((y.rows(), y.cols()), shape, "branch and stream are of one shape");
        how.post.iter().for_each(|post| post.check(x.cols()));
        let skip = how.skip.map_or(Seen::from(y), |(_, skip)| skip);
        assert_eq!((skip.rows(), skip.cols()), shape, "what is skipped to is of another shape");
        apart([*x], [y.into(), skip]);
        Joined { how, y, x }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Joined<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows(), self.x.cols(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Joined { how: Residual { post, scale, skip, then }, y, x } = self;
        by_rows(worker, x.rows(), &|i| {
            // SAFETY: passed on, shapes agree.
            unsafe {
                let (y, x) = (y.part(i, 0, y.cols()), x.part(i, 0, x.cols()));
                if let Some(post) = post {
                    (ctx.kernels.norm)(post, y);
                }
                if let Some((by, skip)) = skip {
                    x.iter_mut().zip(skip.row(i)).for_each(|(x, skip)| *x = by * skip);
                }
                (ctx.kernels.add)(y, *scale, x);
                if *then != 1.0 {
                    x.iter_mut().for_each(|x| *x *= then);
                }
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `x = then · (skip + scale · post(y))`, as of [`residual()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn residual(&mut self, how: Residual<'a>, y: Slot<'a>, x: Slot<'a>) {
        self.push(Stage::Norm, Joined::new(how, y, x));
    }
}
