//! The phases of a mixture: in each turn of experts, their rows are brought together, go through
//! gated units and back to the stream's width, and are summed.
use super::scratch::{Parts, Turn};
use super::{Choices, Experts, ExpertsScratch, Sort, Weighs};
use crate::act::{ActSlot, BLOCK};
use crate::layout::Reads;
use crate::mat::{MatmulTask, Slot, Store, apart};
use crate::ops::chain::Phases;
use crate::ops::gated::COLS;
use crate::ops::linear::{group, share};
use crate::ops::{CHUNK, Ctx, Gated, by_chunks, by_rows};
use crate::team::Worker;

/// One mixture's operands.
pub(super) struct Mixture<'a> {
    how: &'a Experts,
    x: ActSlot<'a>,
    weighs: Weighs,
    parts: Parts<'a>,
    out: Slot<'a>,
    store: Store,
    /// Whether one row is read where it lies.
    alone: bool,
}

/// Phases of a turn.
const TURN: usize = 4;

impl<'a> Mixture<'a> {
    /// # Panics
    /// If shapes disagree, or the scratch is too small.
    pub fn new(
        ctx: &Ctx,
        how: &'a Experts,
        x: ActSlot<'a>,
        (choices, weighs): (Choices<'a>, Weighs),
        scratch: &'a mut ExpertsScratch,
        (out, store): (Slot<'a>, Store),
    ) -> Mixture<'a> {
        how.check(x, out);
        assert_eq!(choices.rows(), x.f32().rows(), "choices of as many rows");
        assert!(x.exact(), "the f32 rows were not made");
        apart([*out], [x.f32().into()]);
        let alone = x.f32().rows() == 1 && weighs == Weighs::Output && how.orders.is_empty();
        assert!(x.q8() || !alone || !how.reads(Reads::Q8), "the 8-bit form is not made");
        let forms = [how.reads(Reads::Q8), how.down.reads() == Reads::Q8];
        let parts = scratch.lend(ctx, choices, how.gate.weights.len(), forms);
        Mixture { how, x, weighs, parts, out, store, alone }
    }
    /// What comes first.
    pub fn sort(&self) -> Sort<'a> {
        self.parts.sort
    }

    /// Brings together the rows of a turn, in the forms that are read.
    ///
    /// # Safety
    /// As of [`Phases::phase`], and so of those that follow.
    unsafe fn gather(&self, ctx: &Ctx, worker: &Worker<'_>, turn: &Turn<'_>) {
        let (how, slots, cols) = (self.how, turn.slots(), self.x.f32().cols());
        let exact = how.reads(Reads::F32);
        // SAFETY: the choices are sorted.
        let visits = unsafe { self.parts.sort.visits(slots.clone()) };
        by_rows(worker, slots.len(), &|i| {
            let visit = visits[i];
            let own = turn.rows(visit.expert);
            let (here, i) = (self.parts.input.part(own.clone()), i - own.start);
            // SAFETY: passed on, lengths agree; a row is one task's.
            unsafe {
                let mut row = self.x.f32().seen().row(visit.row as usize);
                let order = how.orders.get(visit.expert as usize);
                if exact || self.weighs == Weighs::Input || order.is_some() {
                    let y = here.f32().part(i, 0, cols);
                    match order {
                        None => y.copy_from_slice(row),
                        Some(order) => {
                            y.iter_mut().zip(&order[..]).for_each(|(y, k)| *y = row[*k as usize]);
                        }
                    }
                    if self.weighs == Weighs::Input {
                        y.iter_mut().for_each(|y| *y *= visit.weight);
                    }
                    row = y;
                }
                if let Some(codes) = here.codes(i, 0, cols.div_ceil(BLOCK)) {
                    (ctx.kernels.quantise)(row, codes);
                }
            }
        });
    }

    /// The gated units of a turn.
    unsafe fn units(&self, ctx: &Ctx, worker: &Worker<'_>, turn: &Turn<'_>) {
        let (how, n) = (self.how, self.how.gate.shape()[1]);
        let each = n.div_ceil(COLS);
        worker.phase(turn.now.len() * each, |task| {
            let (e, from) = (turn.now[task / each], task % each * COLS);
            let (rows, columns) = (turn.rows(e), from..n.min(from + COLS));
            let x = if self.alone { self.x } else { self.parts.input.part(rows.clone()) };
            let up = how.up.as_ref().map(|up| up.expert(e as usize));
            let gated = Gated { act: how.act, gate: how.gate.expert(e as usize), up };
            let to = self.parts.hidden.part(rows);
            // SAFETY: passed on, the shapes were checked; the columns of an expert's rows are whole
            // blocks and this task's.
            unsafe { self.parts.products.some(ctx, worker, &gated, x.seen(), columns, &to) };
        });
    }

    /// What the experts of a turn give.
    unsafe fn downs(&self, ctx: &Ctx, worker: &Worker<'_>, turn: &Turn<'_>) {
        let one = &self.how.down.weights[0];
        let group = group(share(ctx, one.bytes().len() * turn.now.len()), one);
        let each = one.panels().div_ceil(group);
        worker.phase(turn.now.len() * each, |task| {
            let (e, from) = (turn.now[task / each], task % each * group);
            let (weights, bias) = self.how.down.expert(e as usize);
            let (weights, rows) = (weights.view(), turn.rows(e));
            let out = *self.parts.output.some(rows.clone());
            let panels = from..one.panels().min(from + group);
            // SAFETY: passed on, the shapes were checked, and a group of panels of an expert's rows
            // is one task's.
            unsafe {
                let (input, store) = (self.parts.hidden.part(rows).seen(), Store::Set);
                let task = MatmulTask { weights, input, bias, store, first: 0, out };
                (ctx.kernels.matmul[weights.layout() as usize])(&task, panels);
            }
        });
    }

    /// Adds to each row what its visits gave; before the first of all, nothing was there if it is to
    /// be set.
    unsafe fn sum(&self, ctx: &Ctx, worker: &Worker<'_>, turn: &Turn<'_>, first: bool) {
        let (slots, sort, output) = (turn.slots(), &self.parts.sort, self.parts.output.seen());
        by_chunks(worker, (self.out.rows(), self.out.cols()), CHUNK, &|i, from, len| {
            // SAFETY: passed on, lengths agree; a stretch of a row is one task's.
            unsafe {
                let row = self.out.part(i, from, len);
                if first && self.store == Store::Set {
                    row.fill(0.0);
                }
                let places = sort.places(i).iter().map(|p| *p as usize);
                for p in places.filter(|p| slots.contains(p)) {
                    let weight = match self.weighs {
                        Weighs::Output => sort.visits(p..p + 1)[0].weight,
                        Weighs::Input => 1.0,
                    };
                    let y = &output.row(p - slots.start)[from..from + len];
                    (ctx.kernels.add)(y, weight, row);
                }
            }
        });
    }
}

// SAFETY: as each step says.
unsafe impl Phases for Mixture<'_> {
    fn phases(&self) -> usize {
        TURN * self.parts.sort.turns()
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, i: usize) {
        // SAFETY: passed on; sorting came before.
        unsafe {
            let turn = self.parts.sort.turn(i / TURN);
            match i % TURN {
                _ if turn.now.is_empty() && i >= TURN => {}
                0 if self.alone => {}
                0 => self.gather(ctx, worker, &turn),
                1 => self.units(ctx, worker, &turn),
                2 => self.downs(ctx, worker, &turn),
                _ => self.sum(ctx, worker, &turn, i < TURN),
            }
        }
    }
}
