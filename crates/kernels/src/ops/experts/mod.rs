//! Mixtures of experts: a row meets the few experts that it chose, and no other.
//! Shazeer et al. 2017, arXiv:1701.06538.
//!
//! An expert's rows are brought together, so that its weights are read once for all of them and
//! its tiles are as full as a batch's. A row's outputs are summed in the order of its experts'
//! numbers, whatever other rows chose.
mod mixture;
mod route;
mod scratch;

use mixture::Mixture;
use route::Route;
pub use route::{Choices, Router};
pub use scratch::ExpertsScratch;
use scratch::Sort;

use super::{Chain, Ctx, Glu, Room, Stage};
use crate::act::{Act, ActSlot};
use crate::layout::{Packed, Reads};
use crate::mat::{Mat, Slot, Store};
use std::sync::Arc;

/// One projection of every expert.
pub struct Stack {
    weights: Vec<Packed>,
    bias: Option<Vec<f32>>,
}

/// What experts compute: `down(act(gate(x))·up(x))`, or `down(act(gate(x)))` without `up`.
pub struct Experts {
    /// The function.
    pub act: Glu,
    /// What it is applied to, `[d_ff, d_model]` each.
    pub gate: Stack,
    /// What it multiplies, as large.
    pub up: Option<Stack>,
    /// Back to the stream, `[d_model, d_ff]` each.
    pub down: Stack,
    /// By expert, if not as they are: input `k` of its gate and up is element `order[k]` of a row.
    pub orders: Vec<Arc<[u32]>>,
}

/// An expert that a row chose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Its number.
    pub expert: u32,
    /// What it counts.
    pub weight: f32,
}

/// What the weight of a choice multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighs {
    /// What the expert reads.
    Input,
    /// What it gives.
    Output,
}

/// `out (+)= Σ weight · expert(x)` over each row's choices, or `Σ expert(weight · x)`, one fused
/// multiply-add an expert in the order of their numbers. `x`'s f32 rows are read; `out` takes its
/// row count, or has it where it is added to. No row chooses an expert twice.
///
/// # Panics
/// If shapes disagree, a choice is of no expert or made twice, or the scratch is too small.
#[expect(clippy::too_many_arguments, reason = "one operation, named operands")]
pub fn experts(
    ctx: &Ctx,
    how: &Experts,
    x: &mut Act,
    choices: &mut [Choice],
    weighs: Weighs,
    scratch: &mut ExpertsScratch,
    out: &mut Mat,
    store: Store,
) {
    let rows = x.rows();
    if how.reads(Reads::Q8) {
        x.quantise(ctx);
    }
    let out = if store == Store::Set { out.lend(rows) } else { out.slot() };
    let choices = Choices::lend(choices, rows);
    let mut room = Room::default();
    let mut chain = Chain::new(ctx, &mut room, false);
    chain.experts(how, x.slot(ctx), (choices, weighs), scratch, out, store);
    chain.run(None);
}

impl<'a> Chain<'a> {
    /// The experts that each row of `x` chose, as of [`experts()`]. The 8-bit form of one row is read
    /// where it lies; that of more is made when they are brought together.
    ///
    /// # Panics
    /// As [`experts()`] does, of choices when they are there.
    pub fn experts(
        &mut self,
        how: &'a Experts,
        x: ActSlot<'a>,
        (choices, weighs): (Choices<'a>, Weighs),
        scratch: &'a mut ExpertsScratch,
        out: Slot<'a>,
        store: Store,
    ) {
        let mixture = Mixture::new(self.ctx(), how, x, (choices, weighs), scratch, (out, store));
        self.push(Stage::Experts, mixture.sort());
        self.push(Stage::Experts, mixture);
    }
    /// Each row's choice among `logits`, which it overwrites.
    ///
    /// # Panics
    /// If they are of another number of rows.
    pub fn route(&mut self, how: &'a dyn Router, logits: Slot<'a>, choices: Choices<'a>) {
        self.push(Stage::Router, Route::new(how, logits, choices));
    }
}

impl Stack {
    /// Of matrices of one shape and layout, and all their biases one after another.
    ///
    /// # Panics
    /// If they are not that.
    pub fn new(weights: Vec<Packed>, bias: Option<Vec<f32>>) -> Stack {
        let of = |w: &Packed| (w.layout(), w.rows(), w.cols());
        assert!(weights.windows(2).all(|w| of(&w[0]) == of(&w[1])), "experts differ in shape");
        let rows: usize = weights.iter().map(Packed::rows).sum();
        assert!(bias.as_ref().is_none_or(|b| b.len() == rows), "the biases are not {rows}");
        Stack { weights, bias }
    }
    /// By expert.
    pub fn weights(&self) -> &[Packed] {
        &self.weights
    }
    /// `[experts, n]`.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let weights: usize = self.weights.iter().map(|w| w.bytes().len()).sum();
        weights + self.bias.as_ref().map_or(0, |b| size_of_val(&b[..]))
    }
    fn expert(&self, e: usize) -> (&Packed, Option<&[f32]>) {
        let weights = &self.weights[e];
        let bias = self.bias.as_ref();
        (weights, bias.map(|b| &b[e * weights.rows()..(e + 1) * weights.rows()]))
    }
    /// Number of experts, outputs and inputs.
    fn shape(&self) -> [usize; 3] {
        [self.weights.len(), self.weights[0].rows(), self.weights[0].cols()]
    }
    fn reads(&self) -> Reads {
        self.weights[0].layout().reads()
    }
}

impl Experts {
    /// All projections.
    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        [Some(&self.gate), self.up.as_ref(), Some(&self.down)].into_iter().flatten()
    }
    /// Whether the first projections read 8-bit rows, as they are: one alone is read where it lies.
    pub fn reads_q8(&self) -> bool {
        self.reads(Reads::Q8) && self.orders.is_empty()
    }
    /// Whether the first projections read this form.
    fn reads(&self, form: Reads) -> bool {
        [Some(&self.gate), self.up.as_ref()].into_iter().flatten().any(|s| s.reads() == form)
    }
    fn check(&self, x: ActSlot<'_>, out: Slot<'_>) {
        let ([count, d_ff, d], x) = (self.gate.shape(), x.f32());
        assert_eq!(out.rows(), x.rows(), "the output's rows");
        let fits = self.down.shape() == [count, out.cols(), d_ff] && x.cols() == d;
        let same = self.up.as_ref().is_none_or(|up| up.shape() == [count, d_ff, d]);
        let ordered = self.orders.is_empty() || self.orders.len() == count;
        let whole = self.orders.iter().all(|order| order.len() == d);
        assert!(fits && same && ordered && whole, "the experts' shapes disagree");
    }
}
