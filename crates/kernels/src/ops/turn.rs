//! Inputs in the order of a matrix's columns: what is multiplied by a matrix that was stored so that
//! its groups of inputs lie together is gathered first.
use super::linear::{Linear, linear};
use super::{Ctx, norm};
use crate::act::{Act, SharedAct};
use crate::layout::Reads;
use crate::mat::Seen;

/// Gathered inputs, one of each width, sized once.
#[derive(Default)]
pub struct Turned(Vec<Act>);

impl Turned {
    /// For batches of up to `rows` rows of these widths.
    pub fn new(widths: impl IntoIterator<Item = usize>, rows: usize) -> Turned {
        let mut all: Vec<Act> = Vec::new();
        for cols in widths {
            if all.iter().all(|act| act.cols() != cols) {
                all.push(Act::new(rows, cols));
            }
        }
        Turned(all)
    }
    /// The one of this width.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(&mut self, cols: usize) -> &mut Act {
        self.0.iter_mut().find(|act| act.cols() == cols).expect("room for a gathered input")
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Act::bytes).sum()
    }
}

/// As [`linear`], of weights that may have [orders](crate::Packed::order): each order's input is gathered to
/// `turned` first.
///
/// # Panics
/// If shapes disagree, or `turned` has no room for a width.
pub fn linear_in_orders(ctx: &Ctx, x: &mut Act, jobs: &mut [Linear<'_>], turned: &mut Turned) {
    jobs.sort_unstable_by_key(|job| job.weights.order().is_some());
    let plain = jobs.iter().take_while(|job| job.weights.order().is_none()).count();
    let (plain, mut others) = jobs.split_at_mut(plain);
    if !plain.is_empty() {
        linear(ctx, x, plain);
    }
    while let Some(order) = others.first().and_then(|job| job.weights.order()) {
        let alike = others.iter().take_while(|job| job.weights.order() == Some(order)).count();
        let (some, rest) = others.split_at_mut(alike);
        let to = turned.of(x.cols());
        let q8 = some.iter().any(|job| job.weights.layout().reads() == Reads::Q8);
        norm::norm_in_order(ctx, None, order, x.exact_rows(), to, q8);
        super::linear::turned(ctx, to, some);
        others = rest;
    }
}

/// The gathering of an input between a branch's products, as the tasks of a phase share it.
pub(super) struct Turn<'a> {
    order: &'a [u32],
    x: Seen<'a>,
    out: SharedAct<'a>,
    q8: bool,
}

impl<'a> Turn<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(order: &'a [u32], x: Seen<'a>, out: SharedAct<'a>, q8: bool) -> Turn<'a> {
        assert!(order.len() == x.cols() && out.f32().cols() == x.cols(), "one width");
        assert_eq!(out.f32().rows(), x.rows(), "as many rows");
        Turn { order, x, out, q8 }
    }
    /// What is gathered.
    pub fn out(&self) -> &SharedAct<'a> {
        &self.out
    }
    /// Row `i`.
    ///
    /// # Safety
    /// The tier is usable, `x` is made, and the row is the caller's.
    pub unsafe fn row(&self, ctx: &Ctx, i: usize) {
        let cols = self.x.cols();
        // SAFETY: passed on, lengths were checked.
        unsafe {
            let codes = self.q8.then(|| self.out.quantised(i, 0, self.out.blocks()));
            let (x, y) = (self.x.from(i, 0, cols), self.out.f32().part(i, 0, cols));
            norm::one(ctx, None, Some(self.order), x, y, codes);
        }
    }
}
