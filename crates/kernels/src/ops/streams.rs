//! Several residual streams side by side: `[rows, n · d]`, the first of which layers work on.
//! Baykal et al. 2023, arXiv:2301.13310.
//!
//! Plain code for all tiers: these are a few operations an element, in a fixed order.
use super::chain::{Phases, alone};
use super::sparsify::sum;
use super::{Chain, Ctx, Norm, Stage, by_rows, few};
use crate::mat::{Mat, Seen, Slot, apart};
use crate::team::Worker;

/// Mean squares are at least this where they divide.
const LEAST: f32 = 1e-5;

/// Row by row the first stream is `x`, the others are `projected`, rescaled to `x`'s root mean
/// square. `all` takes `x`'s row count.
///
/// # Panics
/// If the shapes differ.
pub fn expand(ctx: &Ctx, x: &Mat, projected: &[Mat], all: &mut Mat) {
    let (rows, d) = (x.rows(), x.cols());
    assert_eq!(all.cols(), (1 + projected.len()) * d, "streams side by side");
    assert!(projected.iter().all(|p| (p.rows(), p.cols()) == (rows, d)), "streams of one shape");
    all.resize(rows);
    let out = all.shared();
    ctx.each_row(rows, out.cols(), |i| {
        let size = mean_square(x.row(i)).sqrt();
        // SAFETY: a row is one task's.
        let (first, others) = unsafe { out.part(i, 0, out.cols()) }.split_at_mut(d);
        first.copy_from_slice(x.row(i));
        for (other, from) in others.chunks_exact_mut(d).zip(projected) {
            let own = mean_square(from.row(i)).max(LEAST).sqrt();
            other.iter_mut().zip(from.row(i)).for_each(|(y, x)| *y = x * size / own);
        }
    });
}

/// Row by row `x`, the first stream, becomes the mean of itself and of `projected`, rescaled to its
/// root mean square.
///
/// # Panics
/// If the shapes differ.
pub fn average(ctx: &Ctx, projected: &[Mat], x: &mut Mat) {
    let (rows, d) = (x.rows(), x.cols());
    assert!(projected.iter().all(|p| (p.rows(), p.cols()) == (rows, d)), "streams of one shape");
    let (out, n) = (x.shared(), (1 + projected.len()) as f32);
    ctx.each_row(rows, d, |i| {
        // SAFETY: a row is one task's.
        let row = unsafe { out.part(i, 0, d) };
        let size = mean_square(row).sqrt();
        for from in projected {
            let own = mean_square(from.row(i)).max(LEAST).sqrt();
            row.iter_mut().zip(from.row(i)).for_each(|(y, x)| *y += x * size / own);
        }
        row.iter_mut().for_each(|y| *y /= n);
    });
}

/// What becomes of streams between a layer's branches.
#[derive(Clone, Copy)]
pub enum Turn<'a> {
    /// `x_k = x_k + Σ_j p_kj · x_j`, where `p` is a row of `[rows, n · n]`; then `y` is the first stream.
    Predict(Seen<'a>),
    /// `x_k = x_k + (1 + c_k) · (y - x_0)`, where `c` is a row of `[rows, n]`; then `y` is the first
    /// stream.
    Correct(Seen<'a>),
    /// `x_k = x_k + scale · post(y)` for each stream but the first; `y` is used as scratch.
    Others(Option<Norm<'a>>, f32),
}

/// Row by row `how` of streams `x`, `[rows, n · d]`, and of `y`, `[rows, d]`. `new` is used as scratch,
/// as large as `x`.
///
/// # Panics
/// If the shapes differ.
pub fn turn(ctx: &Ctx, how: Turn<'_>, x: &mut Mat, y: &mut Mat, new: &mut Mat) {
    let new = new.lend(x.rows());
    alone(ctx, Turned::new(how, x.slot(), y.slot(), new));
}

/// The same, as an operation.
struct Turned<'a> {
    how: Turn<'a>,
    x: Slot<'a>,
    y: Slot<'a>,
    new: Slot<'a>,
}

impl<'a> Turned<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(how: Turn<'a>, x: Slot<'a>, y: Slot<'a>, new: Slot<'a>) -> Turned<'a> {
        let (rows, d, all) = (x.rows(), y.cols(), x.cols());
        assert!(y.rows() == rows && all.is_multiple_of(d), "branch and streams are of one shape");
        assert_eq!((new.rows(), new.cols()), (rows, all), "as many streams");
        let n = all / d;
        let coefs = match how {
            Turn::Predict(coefs) => Some((coefs, n * n)),
            Turn::Correct(coefs) => Some((coefs, n)),
            Turn::Others(post, _) => {
                post.iter().for_each(|post| post.check(d));
                None
            }
        };
        if let Some((coefs, cols)) = coefs {
            assert_eq!((coefs.rows(), coefs.cols()), (rows, cols), "coefficients of {n} streams");
            apart([*x, *y, *new], [coefs]);
        }
        apart([*x, *y, *new], []);
        Turned { how, x, y, new }
    }

    /// Of one row.
    ///
    /// # Safety
    /// The tier is usable, lengths agree; what is read is made.
    unsafe fn row(&self, ctx: &Ctx, i: usize, [x, y, new]: [&mut [f32]; 3]) {
        let d = y.len();
        // SAFETY: passed on.
        unsafe {
            match self.how {
                Turn::Predict(coefs) => {
                    new.copy_from_slice(x);
                    let coefs = coefs.row(i).chunks_exact(x.len() / d);
                    for (to, p) in new.chunks_exact_mut(d).zip(coefs) {
                        for (x, p) in x.chunks_exact(d).zip(p) {
                            (ctx.kernels.add)(x, *p, to);
                        }
                    }
                    x.copy_from_slice(new);
                    y.copy_from_slice(&x[..d]);
                }
                Turn::Correct(coefs) => {
                    y.iter_mut().zip(&*x).for_each(|(y, x)| *y -= x);
                    for (x, c) in x.chunks_exact_mut(d).zip(coefs.row(i)) {
                        (ctx.kernels.add)(y, 1.0 + c, x);
                    }
                    y.copy_from_slice(&x[..d]);
                }
                Turn::Others(post, scale) => {
                    if let Some(post) = &post {
                        (ctx.kernels.norm)(post, y);
                    }
                    for x in x[d..].chunks_exact_mut(d) {
                        (ctx.kernels.add)(y, scale, x);
                    }
                }
            }
        }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Turned<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows(), self.x.cols(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        by_rows(worker, self.x.rows(), &|i| {
            // SAFETY: passed on, lengths were checked.
            unsafe {
                let row = [self.x, self.y, self.new].map(|x| x.part(i, 0, x.cols()));
                self.row(ctx, i, row);
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `how` of streams, as of [`turn()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn turn(&mut self, how: Turn<'a>, x: Slot<'a>, y: Slot<'a>, new: Slot<'a>) {
        self.push(Stage::Norm, Turned::new(how, x, y, new));
    }
}

fn mean_square(x: &[f32]) -> f32 {
    sum(x, |x| x * x) / x.len() as f32
}
