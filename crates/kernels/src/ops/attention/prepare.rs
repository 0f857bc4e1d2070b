//! What queries, keys and values go through between their products and the attention.
use crate::mat::Slot;
use crate::ops::chain::Phases;
use crate::ops::{Ctx, Rotate, by_rows};
use crate::team::Worker;
use std::ops::Range;

/// What happens to the heads of queries, keys and values before they meet.
#[derive(Clone, Copy, Default)]
pub struct Heads<'a> {
    /// To queries.
    pub q: Rotate<'a>,
    /// To keys.
    pub k: Rotate<'a>,
    /// To values.
    pub v: Rotate<'a>,
    /// Whether values begin as copies of the keys.
    pub v_from_k: bool,
}

/// Its operands.
#[derive(Clone, Copy)]
pub(super) struct Prepare<'a> {
    how: Heads<'a>,
    q: Slot<'a>,
    kv: Option<(Slot<'a>, Slot<'a>)>,
}

/// All of it as an operation, row by row.
pub(super) struct HeadsFirst<'a>(pub(super) Prepare<'a>);

// SAFETY: a row is one task's.
unsafe impl Phases for HeadsFirst<'_> {
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        // SAFETY: passed on.
        by_rows(worker, self.0.q.rows(), &|i| unsafe { self.0.heads(ctx, i, 0..1, 1) });
    }
}

impl<'a> Prepare<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(how: Heads<'a>, q: Slot<'a>, kv: Option<(Slot<'a>, Slot<'a>)>) -> Self {
        how.q.check(q.rows(), q.cols());
        if let Some((k, v)) = kv {
            how.k.check(k.rows(), k.cols());
            how.v.check(v.rows(), v.cols());
            assert!(!how.v_from_k || k.cols() == v.cols(), "values as wide as keys");
        }
        Prepare { how, q, kv }
    }
    /// Whether heads of a row may be done one by one.
    pub fn splits(&self) -> bool {
        [&self.how.q, &self.how.k, &self.how.v].iter().all(|how| how.splits())
    }

    /// Whether it changes anything.
    pub fn does_something(&self) -> bool {
        let Heads { q, k, v, v_from_k } = &self.how;
        let some = [k, v].iter().any(|how| how.does_something()) || *v_from_k;
        q.does_something() || some && self.kv.is_some()
    }

    /// What belongs to some of all K/V heads of row `i`: all, unless it [splits](Prepare::splits).
    ///
    /// # Safety
    /// The tier is usable; nobody else reads or writes these heads meanwhile.
    pub unsafe fn heads(&self, ctx: &Ctx, i: usize, some: Range<usize>, all: usize) {
        let part = |x: Slot<'a>| {
            let each = x.cols() / all;
            // SAFETY: the heads are the caller's.
            (some.start * each, unsafe { x.part(i, some.start * each, some.len() * each) })
        };
        let apply = |how: &Rotate<'_>, (from, x): (usize, &mut [f32])| {
            if how.does_something() {
                // SAFETY: the tier is usable, lengths were checked.
                unsafe { how.heads(ctx, i, from / how.head_dim, x) };
            }
        };
        apply(&self.how.q, part(self.q));
        let Some((k, v)) = self.kv else { return };
        let (k, v) = (part(k), part(v));
        if self.how.v_from_k {
            v.1.copy_from_slice(k.1);
        }
        apply(&self.how.k, k);
        apply(&self.how.v, v);
    }
}
