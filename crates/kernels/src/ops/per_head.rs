//! Products of each head's part of a row with weights of that head's own.
use super::across::AcrossHeads;
use super::chain::{Phases, alone};
use super::linear::{group, share};
use super::{Chain, Ctx, Stage};
use crate::act::{Act, ActSlot};
use crate::layout::{PANEL, Packed, Reads};
use crate::mat::{Mat, MatmulTask, Seen, Slot, Store, apart};
use crate::team::Worker;

/// A head of the input is `[k | kept]`, one of the output `[kept | n]`.
#[derive(Clone, Copy)]
pub struct PerHead<'a> {
    /// `[n, k]`, one a head.
    pub weights: &'a [Packed],
    /// Whether they are `[k, n]`, of integers, and multiplied across their rows.
    pub across: bool,
    /// Elements that are not multiplied: they follow those that are, and lead the products.
    pub kept: usize,
}

/// `out = [kept | weights·x]` head by head. `x` is `[rows, heads·(k + kept)]`, `out`, which takes
/// its row count, `[rows, heads·(kept + n)]`; `parts` has room for `heads` rows of `k` to each.
///
/// # Panics
/// If shapes disagree.
pub fn per_head(ctx: &Ctx, how: &PerHead<'_>, x: &Mat, parts: &mut Act, out: &mut Mat) {
    let (rows, q8) = (x.rows(), how.reads_q8());
    let parts = parts.lend(ctx, how.weights.len() * rows, q8);
    let out = out.lend(rows);
    how.check(x.into(), parts, out);
    match how.across {
        true => alone(ctx, AcrossHeads::new(ctx, *how, x.into(), out)),
        false => alone(ctx, HeadProducts::new(ctx, *how, x.into(), parts, out)),
    }
}

/// The same, as an operation.
struct HeadProducts<'a> {
    how: PerHead<'a>,
    x: Seen<'a>,
    parts: ActSlot<'a>,
    out: Slot<'a>,
    /// Panels to a task.
    group: usize,
}

impl<'a> HeadProducts<'a> {
    /// Of shapes that were checked.
    fn new(
        ctx: &Ctx,
        how: PerHead<'a>,
        x: Seen<'a>,
        parts: ActSlot<'a>,
        out: Slot<'a>,
    ) -> HeadProducts<'a> {
        apart([*out, *parts.f32()], [x]);
        let all: usize = how.weights.iter().map(|w| w.bytes().len()).sum();
        let group = group(share(ctx, all), &how.weights[0]);
        HeadProducts { how, x, parts, out, group }
    }
}

// SAFETY: a head is one task's of the first phase, and a group of its panels one of the second.
unsafe impl Phases for HeadProducts<'_> {
    fn phases(&self) -> usize {
        2
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, phase: usize) {
        let HeadProducts { how: PerHead { weights, kept, .. }, x, parts, out, group } = *self;
        let (rows, [n, k]) = (x.rows(), self.how.shape());
        let part = |head: usize| parts.part(head * rows..(head + 1) * rows);
        if phase == 0 {
            return worker.phase(weights.len(), |head| {
                let part = part(head);
                for row in 0..rows {
                    // SAFETY: passed on, lengths agree.
                    unsafe {
                        let x = &x.row(row)[head * (k + kept)..][..k + kept];
                        let (x, rest) = x.split_at(k);
                        out.part(row, head * (kept + n), kept).copy_from_slice(rest);
                        part.f32().part(row, 0, k).copy_from_slice(x);
                        if let Some(codes) = part.codes(row, 0, part.blocks()) {
                            (ctx.kernels.quantise)(x, codes);
                        }
                    }
                }
            });
        }
        let panels = n.div_ceil(PANEL);
        let groups = panels.div_ceil(group);
        worker.phase(weights.len() * groups, |i| {
            let (head, first) = (i / groups, i % groups * group);
            let weights = &weights[head];
            let task = MatmulTask {
                weights: weights.view(),
                // SAFETY: it was made in the first phase.
                input: unsafe { part(head).seen() },
                bias: None,
                store: Store::Set,
                first: 0,
                out: out.columns(head * (kept + n) + kept, n),
            };
            let matmul = ctx.kernels.matmul[weights.layout() as usize];
            // SAFETY: passed on, the shapes were checked.
            unsafe { matmul(&task, first..panels.min(first + group)) };
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = [kept | weights·x]` head by head, as of [`per_head()`].
    ///
    /// # Panics
    /// If shapes disagree.
    pub fn per_head(&mut self, how: PerHead<'a>, x: Slot<'a>, parts: &'a mut Act, out: Slot<'a>) {
        let (ctx, x) = (self.ctx(), Seen::from(x));
        let parts = parts.lend(ctx, how.weights.len() * x.rows(), how.reads_q8());
        how.check(x, parts, out);
        match how.across {
            true => self.push(Stage::Products, AcrossHeads::new(ctx, how, x, out)),
            false => self.push(Stage::Products, HeadProducts::new(ctx, how, x, parts, out)),
        }
    }
}

impl PerHead<'_> {
    /// Outputs and inputs of a head.
    pub(super) fn shape(&self) -> [usize; 2] {
        let [n, k] = [self.weights[0].rows(), self.weights[0].cols()];
        if self.across { [k, n] } else { [n, k] }
    }
    fn reads_q8(&self) -> bool {
        !self.across && self.weights.iter().any(|w| w.layout().reads() == Reads::Q8)
    }
    fn check(&self, x: Seen<'_>, parts: ActSlot<'_>, out: Slot<'_>) {
        let (heads, [n, k], parts) = (self.weights.len(), self.shape(), parts.f32());
        let first = &self.weights[0];
        let alike = |w: &Packed| [w.rows(), w.cols()] == [first.rows(), first.cols()];
        assert!(self.weights.iter().all(alike), "the heads' weights differ in shape");
        let across = |w: &Packed| w.layout().block() > 1 && w.layout() == first.layout();
        assert!(!self.across || self.weights.iter().all(across), "weights that are read across");
        assert_eq!(x.cols(), heads * (k + self.kept), "input");
        assert_eq!((parts.rows(), parts.cols()), (heads * x.rows(), k), "parts");
        assert_eq!((out.rows(), out.cols()), (x.rows(), heads * (self.kept + n)), "output");
    }
}
