//! Layer and RMS normalisation of rows. Ba et al. 2016, arXiv:1607.06450; Zhang & Sennrich 2019,
//! arXiv:1910.07467.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Stage, by_rows, few};
use crate::act::{Act, ActSlot, QuantRow};
use crate::mat::{Mat, Seen, apart};
use crate::team::Worker;

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
    let out = out.lend(ctx, x.rows(), q8);
    alone(ctx, Normed::new(norm.copied(), order, x.into(), out));
}

/// Rows that go through a norm, or another order, or both.
pub(super) struct Normed<'a> {
    norm: Option<Norm<'a>>,
    order: Option<&'a [u32]>,
    x: Seen<'a>,
    out: ActSlot<'a>,
}

impl<'a> Normed<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(
        norm: Option<Norm<'a>>,
        order: Option<&'a [u32]>,
        x: Seen<'a>,
        out: ActSlot<'a>,
    ) -> Normed<'a> {
        let (cols, to) = (x.cols(), out.f32());
        let in_order = order.is_none_or(|order| order.len() == cols);
        assert!(cols == to.cols() && in_order, "input, output and order are of one width");
        assert_eq!(x.rows(), to.rows(), "as many rows");
        norm.iter().for_each(|norm| norm.check(cols));
        apart([*to], [x]);
        Normed { norm, order, x, out }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Normed<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows(), self.x.cols(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Normed { norm, order, x, out } = self;
        by_rows(worker, x.rows(), &|i| {
            // SAFETY: passed on, lengths were checked.
            unsafe {
                let codes = out.codes(i, 0, out.blocks());
                one(ctx, norm.as_ref(), *order, x.row(i), out.f32().part(i, 0, x.cols()), codes);
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = norm(x)`, as of [`norm()`] or, with an order, [`norm_in_order()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn norm(
        &mut self,
        norm: Option<Norm<'a>>,
        order: Option<&'a [u32]>,
        x: impl Into<Seen<'a>>,
        out: ActSlot<'a>,
    ) {
        self.push(Stage::Norm, Normed::new(norm, order, x.into(), out));
    }
}

/// `y = norm(x)` of a row, in an order if that is given, and its 8-bit form if that is wanted.
///
/// # Safety
/// The tier is usable, lengths agree.
unsafe fn one(
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
