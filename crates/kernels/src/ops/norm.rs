//! Layer and RMS normalisation of rows. Ba et al. 2016, arXiv:1607.06450; Zhang & Sennrich 2019,
//! arXiv:1910.07467.
use super::Ctx;
use crate::act::{Act, QuantRow};
use crate::mat::Mat;

/// A normalisation and its parameters.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// Which statistic is divided out.
    pub kind: NormKind,
    /// Added to the variance, or to the mean square.
    pub eps: f32,
    /// Per element; none is all ones.
    pub weight: Option<&'a [f32]>,
    /// Per element; none is zero.
    pub bias: Option<&'a [f32]>,
}

/// Which statistic is divided out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x²) + eps)`
    Rms,
    /// `(x - mean(x)) / sqrt(var(x) + eps)`
    Layer,
    /// `x`
    None,
}

/// `out = norm(x)` row by row, or a copy without a norm; `out` takes `x`'s row count. With `q8`
/// the 8-bit form is made in the same pass.
///
/// # Panics
/// If the shapes differ.
pub fn norm(ctx: &Ctx, norm: Option<&Norm<'_>>, x: &Mat, out: &mut Act, q8: bool) {
    make(ctx, norm, None, x, out, q8);
}

/// As [`norm()`] of rows whose elements are first brought in another order: element `k` of `out` is
/// made of element `order[k]`, with the parameters at `k`.
///
/// # Panics
/// If the shapes differ, or `order` names no element.
pub fn norm_in_order(
    ctx: &Ctx,
    norm: Option<&Norm<'_>>,
    order: &[u32],
    x: &Mat,
    out: &mut Act,
    q8: bool,
) {
    make(ctx, norm, Some(order), x, out, q8);
}

fn make(
    ctx: &Ctx,
    norm: Option<&Norm<'_>>,
    order: Option<&[u32]>,
    x: &Mat,
    out: &mut Act,
    q8: bool,
) {
    let cols = x.cols();
    check(cols, norm, order, out);
    out.resize(x.rows());
    let blocks = out.blocks();
    let out = out.shared(ctx.kernels.tile, q8);
    ctx.each_row(x.rows(), cols, |i| {
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe {
            let codes = q8.then(|| out.quantised(i, 0, blocks));
            one(ctx, norm, order, x.row(i), out.f32().part(i, 0, cols), codes);
        }
    });
}

/// # Panics
/// If `cols` inputs, the norm, the order and the output are not of one width.
pub(super) fn check(cols: usize, norm: Option<&Norm<'_>>, order: Option<&[u32]>, out: &Act) {
    let in_order = order.is_none_or(|order| order.len() == cols);
    assert!(cols == out.cols() && in_order, "input, output and order are of one width");
    if let Some(norm) = norm {
        norm.check(cols);
    }
}

/// `y = norm(x)` of a row, in an order if that is given, and its 8-bit form if that is wanted.
///
/// # Safety
/// The tier is usable, lengths agree.
pub(super) unsafe fn one(
    ctx: &Ctx,
    norm: Option<&Norm<'_>>,
    order: Option<&[u32]>,
    x: &[f32],
    y: &mut [f32],
    codes: Option<QuantRow<'_>>,
) {
    match order {
        None => y.copy_from_slice(x),
        Some(order) => y.iter_mut().zip(order).for_each(|(y, k)| *y = x[*k as usize]),
    }
    // SAFETY: passed on.
    unsafe {
        if let Some(norm) = norm {
            (ctx.kernels.norm)(norm, y);
        }
        if let Some(codes) = codes {
            (ctx.kernels.quantise)(y, codes);
        }
    }
}

/// `x = norm(x)` row by row.
///
/// # Panics
/// If the shapes differ.
pub fn norm_in_place(ctx: &Ctx, norm: &Norm<'_>, x: &mut Mat) {
    let (rows, cols) = (x.rows(), x.cols());
    norm.check(cols);
    let x = x.shared();
    ctx.each_row(rows, cols, |i| {
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe { (ctx.kernels.norm)(norm, x.part(i, 0, cols)) };
    });
}

impl Norm<'_> {
    /// # Panics
    /// If the parameters are not `len` long.
    pub(super) fn check(&self, len: usize) {
        let fits = |p: Option<&[f32]>| p.is_none_or(|p| p.len() == len);
        assert!(fits(self.weight) && fits(self.bias), "the norm's parameters are not {len} long");
    }
}
