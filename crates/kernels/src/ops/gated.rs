//! A gated linear unit with its products: a few columns of both at a time, joined while they are in
//! a cache. For batches: a whole prompt's products would go to memory and come back.
use super::glu::unit;
use super::linear::prepare;
use super::{Ctx, Glu, Weights};
use crate::act::{Act, ActRows, BLOCK, SharedAct};
use crate::layout::PANEL;
use crate::mat::{Mat, MatmulTask, Shared, Store};
use crate::team::Worker;
use std::ops::Range;

/// Columns that a thread holds of each product: whole panels and whole activation blocks.
pub(super) const COLS: usize = 64;

/// `act(gate(x))·up(x)`, or `act(gate(x))` without `up`.
pub struct Gated<'a> {
    /// The function.
    pub act: Glu,
    /// What it is applied to.
    pub gate: Weights<'a>,
    /// What it multiplies.
    pub up: Option<Weights<'a>>,
}

impl<'a> Gated<'a> {
    /// Of one product or two.
    pub fn weights(&self) -> impl Iterator<Item = Weights<'a>> {
        [Some(self.gate), self.up].into_iter().flatten()
    }
}

/// What the threads hold of both products, sized once.
pub struct GatedScratch {
    products: Mat,
    rows: usize,
}

impl GatedScratch {
    /// For batches of up to `rows` rows on `threads` threads.
    pub fn new(rows: usize, threads: usize) -> GatedScratch {
        GatedScratch { products: Mat::new(2 * threads * rows, COLS), rows }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.products.bytes()
    }
    /// Lends the threads of `ctx` their products of up to `rows` rows.
    ///
    /// # Panics
    /// If it is for fewer rows or threads.
    pub(super) fn lend(&mut self, ctx: &Ctx, rows: usize) -> Products<'_> {
        let room = self.products.rows() / (2 * self.rows).max(1);
        assert!(rows <= self.rows && ctx.team.threads() <= room, "the scratch is too small");
        Products { all: self.products.shared(), rows: self.rows }
    }
}

/// A [`GatedScratch`] lent to the threads of one run.
pub(super) struct Products<'a> {
    all: Shared<'a>,
    rows: usize,
}

/// `out = act(gate(x))·up(x)`, the numbers of [`super::linear()`] and [`super::glu()`]; `out`
/// takes `x`'s row count. With `q8` only the 8-bit form is made.
///
/// # Panics
/// If shapes disagree, or the scratch is for fewer rows or threads.
pub fn gated(
    ctx: &Ctx,
    how: &Gated<'_>,
    x: &mut Act,
    scratch: &mut GatedScratch,
    out: &mut Act,
    q8: bool,
) {
    let (rows, n) = (x.rows(), out.cols());
    for (weights, bias) in how.weights() {
        assert!(weights.order().is_none(), "weights in an order");
        prepare(ctx, x, weights, bias);
        assert_eq!(n, weights.rows(), "the output's width against the weights' rows");
    }
    let products = scratch.lend(ctx, rows);
    out.resize(rows);
    let (x, to) = (x.all(), out.shared(ctx.kernels.tile, q8));
    // SAFETY: the shapes were checked, `x` is made, `to` is this call's.
    ctx.team.run(|worker| unsafe { products.phase(ctx, worker, how, x, &to, q8) });
    if q8 {
        out.forget_f32();
    }
}

impl Products<'_> {
    /// Phase: makes `to`, in 8 bits alone if `q8`.
    ///
    /// # Safety
    /// The shapes agree, forms that weights read are made, and nobody else reads or writes `to`
    /// meanwhile.
    pub unsafe fn phase(
        &self,
        ctx: &Ctx,
        worker: &Worker<'_>,
        how: &Gated<'_>,
        x: ActRows<'_>,
        to: &SharedAct<'_>,
        q8: bool,
    ) {
        let n = to.f32().cols();
        worker.phase(n.div_ceil(COLS), |task| {
            let columns = task * COLS..n.min((task + 1) * COLS);
            // SAFETY: passed on; the columns are whole blocks and this task's.
            unsafe { self.columns(ctx, worker, how, x, columns, to, q8) };
        });
    }

    /// Makes some columns of `x`'s rows of `to`, in 8 bits alone if `q8`.
    ///
    /// # Safety
    /// The shapes agree, forms that weights read are made, and no other thread writes the columns,
    /// which are whole blocks.
    #[expect(clippy::too_many_arguments, reason = "it is one task of a unit's operands")]
    pub unsafe fn columns(
        &self,
        ctx: &Ctx,
        worker: &Worker<'_>,
        how: &Gated<'_>,
        x: ActRows<'_>,
        columns: Range<usize>,
        to: &SharedAct<'_>,
        q8: bool,
    ) {
        let place = |i| self.all.rows_from((2 * worker.index() + i) * self.rows, x.rows());
        let (gate, up) = (place(0), place(1));
        product(ctx, how.gate, x, columns.start, gate);
        how.up.inspect(|weights| product(ctx, *weights, x, columns.start, up));
        for i in 0..x.rows() {
            // SAFETY: the tier is usable, lengths agree; the products are this thread's, and the
            // columns this task's, by the caller's promise.
            unsafe {
                let gate = gate.part(i, 0, columns.len());
                let up = how.up.map_or(&[][..], |_| up.part(i, 0, columns.len()));
                let y = to.f32().part(i, columns.start, columns.len());
                let mut few = [0.0; COLS];
                let y = if q8 { &mut few[..columns.len()] } else { y };
                let blocks = columns.len().div_ceil(BLOCK);
                let codes = q8.then(|| to.quantised(i, columns.start / BLOCK, blocks));
                unit(ctx, how.act, gate, up, y, codes);
            }
        }
    }
}

/// The outputs of `weights` from `first` on that `out` has room for.
fn product(
    ctx: &Ctx,
    (weights, bias): Weights<'_>,
    input: ActRows<'_>,
    first: usize,
    out: Shared<'_>,
) {
    let panels = first / PANEL..weights.panels().min((first + COLS) / PANEL);
    let weights = weights.view();
    let task = MatmulTask { weights, input, bias, store: Store::Set, first, out };
    // SAFETY: the tier is usable, shapes agree, `out` is this thread's.
    unsafe { (ctx.kernels.matmul[weights.layout() as usize])(&task, panels) };
}
