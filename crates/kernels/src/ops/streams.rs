//! Several residual streams side by side: `[rows, n · d]`, the first of which layers work on.
//! Baykal et al. 2023, arXiv:2301.13310.
//!
//! Plain code for all tiers: these are a few operations an element, in a fixed order.
use super::sparsify::sum;
use super::{Ctx, Norm};
use crate::mat::Mat;

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

/// `new_k = x_k + Σ_j p_kj · x_j` row by row, where `p` is a row of `coefs`, `[rows, n · n]`.
/// `first` takes the first stream.
///
/// # Panics
/// If the shapes differ.
pub fn predict(ctx: &Ctx, coefs: &Mat, x: &Mat, new: &mut Mat, first: &mut Mat) {
    let (rows, d) = (x.rows(), first.cols());
    let n = x.cols() / d;
    assert_eq!((x.cols(), coefs.rows(), coefs.cols()), (n * d, rows, n * n), "n streams");
    assert_eq!(new.cols(), n * d, "as many streams");
    new.resize(rows);
    first.resize(rows);
    let (out, active) = (new.shared(), first.shared());
    ctx.each_row(rows, n * n * d, |i| {
        // SAFETY: a row is one task's.
        let (new, first) = unsafe { (out.part(i, 0, n * d), active.part(i, 0, d)) };
        new.copy_from_slice(x.row(i));
        for (y, p) in new.chunks_exact_mut(d).zip(coefs.row(i).chunks_exact(n)) {
            for (x, p) in x.row(i).chunks_exact(d).zip(p) {
                // SAFETY: the tier is usable, lengths agree.
                unsafe { (ctx.kernels.add)(x, *p, y) };
            }
        }
        first.copy_from_slice(&new[..d]);
    });
}

/// `x_k = x_k + (1 + c_k) · (y - x_0)` row by row, where `c` is a row of `coefs`, `[rows, n]`, and
/// `y` a row of `first`, which then takes the first stream.
///
/// # Panics
/// If the shapes differ.
pub fn correct(ctx: &Ctx, coefs: &Mat, x: &mut Mat, first: &mut Mat) {
    let (rows, d, n) = (x.rows(), first.cols(), coefs.cols());
    assert_eq!((x.cols(), first.rows(), coefs.rows()), (n * d, rows, rows), "n streams");
    let (out, active) = (x.shared(), first.shared());
    ctx.each_row(rows, n * d, |i| {
        // SAFETY: a row is one task's.
        let (all, first) = unsafe { (out.part(i, 0, n * d), active.part(i, 0, d)) };
        first.iter_mut().zip(&*all).for_each(|(y, x)| *y -= x);
        for (x, c) in all.chunks_exact_mut(d).zip(coefs.row(i)) {
            // SAFETY: the tier is usable, lengths agree.
            unsafe { (ctx.kernels.add)(first, 1.0 + c, x) };
        }
        first.copy_from_slice(&all[..d]);
    });
}

/// `x_k = x_k + scale · post(y)` row by row for each stream but the first. `y` is used as scratch.
///
/// # Panics
/// If the shapes differ.
pub fn residual_of_others(
    ctx: &Ctx,
    post: Option<&Norm<'_>>,
    scale: f32,
    y: &mut Mat,
    x: &mut Mat,
) {
    let (rows, d, all) = (x.rows(), y.cols(), x.cols());
    assert!(y.rows() == rows && all.is_multiple_of(d), "branch and streams are of one shape");
    if let Some(post) = post {
        post.check(d);
    }
    let (y, x) = (y.shared(), x.shared());
    ctx.each_row(rows, all, |i| {
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe {
            let y = y.part(i, 0, d);
            if let Some(post) = post {
                (ctx.kernels.norm)(post, y);
            }
            for x in x.part(i, d, all - d).chunks_exact_mut(d) {
                (ctx.kernels.add)(y, scale, x);
            }
        }
    });
}

fn mean_square(x: &[f32]) -> f32 {
    sum(x, |x| x * x) / x.len() as f32
}
