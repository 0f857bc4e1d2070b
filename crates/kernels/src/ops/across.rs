//! Products of each head's part of a row with packed integers of that head's own, across their rows: what
//! can't be turned stays as it is stored.
use super::chain::Phases;
use super::linear::share;
use super::{Ctx, PerHead};
use crate::layout::Panels;
use crate::mat::{Seen, Shared, Slot, apart};
use crate::team::Worker;

/// One head's: `out[i, n] = Σ_k weights[k, n]·input[i, k]`.
pub struct AcrossTask<'a> {
    /// `[k, n]`, of a layout of integers.
    pub(crate) weights: Panels<'a>,
    /// `[rows, k]`.
    pub(crate) input: Seen<'a>,
    /// `[rows, n]`.
    pub(crate) out: Shared<'a>,
}

/// All heads', as an operation.
pub(super) struct AcrossHeads<'a> {
    how: PerHead<'a>,
    x: Seen<'a>,
    out: Slot<'a>,
    /// Runs of 32 outputs to a task.
    group: usize,
}

impl<'a> AcrossHeads<'a> {
    /// # Panics
    /// If shapes disagree.
    pub fn new(ctx: &Ctx, how: PerHead<'a>, x: Seen<'a>, out: Slot<'a>) -> AcrossHeads<'a> {
        apart([*out], [x]);
        let all: usize = how.weights.iter().map(|w| w.bytes().len()).sum();
        let [n, _] = how.shape();
        let run = (how.weights[0].bytes().len() / (n / 32).max(1)).max(1);
        AcrossHeads { how, x, out, group: (share(ctx, all) / run).max(1) }
    }
}

// SAFETY: a group of a head's outputs is one task's, and with the first goes what is kept.
unsafe impl Phases for AcrossHeads<'_> {
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let AcrossHeads { how: PerHead { weights, kept, .. }, x, out, group } = *self;
        let [n, k] = self.how.shape();
        let groups = (n / 32).div_ceil(group);
        worker.phase(weights.len() * groups, |i| {
            let (head, first) = (i / groups, i % groups * group);
            let from = head * (k + kept);
            if first == 0 {
                for row in 0..x.rows() {
                    // SAFETY: this head's, of which no other task writes what is kept.
                    unsafe {
                        let kept = &x.row(row)[from + k..from + k + kept];
                        out.part(row, head * (kept.len() + n), kept.len()).copy_from_slice(kept);
                    }
                }
            }
            let task = AcrossTask {
                weights: weights[head].view(),
                input: x.columns(from..from + k),
                out: out.columns(head * (kept + n) + kept, n),
            };
            // SAFETY: the tier is usable, the shapes were checked, this group is one task's.
            unsafe { (ctx.kernels.across)(&task, first..(n / 32).min(first + group)) };
        });
    }
}
