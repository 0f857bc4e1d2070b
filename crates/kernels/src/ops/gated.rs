//! A gated linear unit with its products: a few columns of both at a time, joined while they are in
//! a cache. For batches: a whole prompt's products would go to memory and come back.
use super::chain::{Phases, alone};
use super::glu::unit;
use super::linear::fits;
use super::{Chain, Ctx, Glu, Stage, Weights};
use crate::act::{Act, ActRows, ActSlot, BLOCK};
use crate::layout::{PANEL, Reads};
use crate::mat::{Mat, MatmulTask, Shared, Slot, Store, apart};
use crate::team::Worker;
use std::ops::Range;

/// Rows up to which a gated unit's products are better made whole, each in one run of memory.
pub const FEW_ROWS: usize = 16;

/// Columns that a thread holds of each product: whole panels and whole activation blocks.
pub(super) const COLS: usize = 64;

/// `act(gate(x))·up(x)`, or `act(gate(x))` without `up`.
#[derive(Clone, Copy)]
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
    pub(super) fn lend(&mut self, ctx: &Ctx, rows: usize) -> Columns<'_> {
        let room = self.products.rows() / (2 * self.rows).max(1);
        assert!(rows <= self.rows && ctx.team.threads() <= room, "the scratch is too small");
        Columns { all: self.products.slot(), rows: self.rows }
    }
}

/// A [`GatedScratch`] lent to the threads of a run.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    all: Slot<'a>,
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
    if how.weights().any(|(weights, _)| weights.layout().reads() == Reads::Q8) {
        x.quantise(ctx);
    }
    let (rows, x) = (x.rows(), x.slot(ctx));
    let products = scratch.lend(ctx, rows);
    alone(ctx, GatedUnits::new(*how, x, products, out.lend(ctx, rows, q8)));
    if q8 {
        out.forget_f32();
    }
}

/// The same, as an operation. With the 8-bit form only that is made.
struct GatedUnits<'a> {
    how: Gated<'a>,
    x: ActSlot<'a>,
    products: Columns<'a>,
    out: ActSlot<'a>,
}

impl<'a> GatedUnits<'a> {
    /// # Panics
    /// If shapes disagree, or a form of `x` that is read is not made.
    pub fn new(how: Gated<'a>, x: ActSlot<'a>, products: Columns<'a>, out: ActSlot<'a>) -> Self {
        let to = out.f32();
        for weights in how.weights() {
            assert!(weights.0.order().is_none(), "weights in an order");
            fits(x, weights);
            let wide = to.cols() == weights.0.rows();
            assert!(wide, "the output's width against the weights' rows");
        }
        assert_eq!(to.rows(), x.f32().rows(), "as many rows");
        apart([*to, *products.all], [x.f32().into()]);
        GatedUnits { how, x, products, out }
    }
}

// SAFETY: columns are one task's, and whole blocks.
unsafe impl Phases for GatedUnits<'_> {
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let n = self.out.f32().cols();
        // SAFETY: passed on.
        let x = unsafe { self.x.seen() };
        worker.phase(n.div_ceil(COLS), |task| {
            let columns = task * COLS..n.min((task + 1) * COLS);
            // SAFETY: passed on.
            unsafe { self.products.some(ctx, worker, &self.how, x, columns, &self.out) };
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = act(gate(x))·up(x)`, as of [`gated()`]; what is left of `out` is returned.
    ///
    /// # Panics
    /// If shapes disagree, or the scratch is for fewer rows or threads.
    pub fn gated(
        &mut self,
        how: Gated<'a>,
        x: &mut ActSlot<'a>,
        scratch: &'a mut GatedScratch,
        out: ActSlot<'a>,
    ) -> ActSlot<'a> {
        let q8 = how.weights().any(|(weights, _)| weights.layout().reads() == Reads::Q8);
        self.quantise(Stage::Products, q8, x);
        let products = scratch.lend(self.ctx(), x.f32().rows());
        self.push(Stage::Products, GatedUnits::new(how, *x, products, out));
        if out.q8() { out.without_f32() } else { out }
    }
}

impl Columns<'_> {
    /// Makes some columns of `x`'s rows of `to`, in 8 bits alone if these are made.
    ///
    /// # Safety
    /// The shapes agree, forms that weights read are made, and no other thread writes the columns,
    /// which are whole blocks.
    pub unsafe fn some(
        &self,
        ctx: &Ctx,
        worker: &Worker<'_>,
        how: &Gated<'_>,
        x: ActRows<'_>,
        columns: Range<usize>,
        to: &ActSlot<'_>,
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
                let y = if to.q8() { &mut few[..columns.len()] } else { y };
                let blocks = columns.len().div_ceil(BLOCK);
                let codes = to.codes(i, columns.start / BLOCK, blocks);
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
