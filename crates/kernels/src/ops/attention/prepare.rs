//! What queries, keys and values go through between their products and the attention.
use crate::mat::{Seen, Shared};
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

/// Its operands, as tasks share them.
pub(in crate::ops) struct Prepare<'a> {
    how: &'a Heads<'a>,
    q: Shared<'a>,
    kv: Option<(Shared<'a>, Shared<'a>)>,
}

impl<'a> Prepare<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(how: &'a Heads<'a>, q: Shared<'a>, kv: Option<(Shared<'a>, Shared<'a>)>) -> Self {
        how.q.check(q.rows(), q.cols());
        if let Some((k, v)) = kv {
            how.k.check(k.rows(), k.cols());
            how.v.check(v.rows(), v.cols());
            assert!(!how.v_from_k || k.cols() == v.cols(), "values as wide as keys");
        }
        Prepare { how, q, kv }
    }
    /// The queries, once they are made.
    pub fn q(&self) -> Seen<'a> {
        self.q.seen()
    }
    /// The keys and values, once they are made.
    pub fn kv(&self) -> Option<(Seen<'a>, Seen<'a>)> {
        self.kv.map(|(k, v)| (k.seen(), v.seen()))
    }
    /// Whether heads of a row may be done one by one.
    pub fn splits(&self) -> bool {
        [&self.how.q, &self.how.k, &self.how.v].iter().all(|how| how.splits())
    }

    /// Phase: all of it.
    ///
    /// # Safety
    /// The tier is usable; nobody else reads or writes the rows meanwhile.
    pub unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>) {
        let Heads { q, k, v, v_from_k } = self.how;
        let some = [k, v].iter().any(|how| how.does_something()) || *v_from_k;
        if q.does_something() || some && self.kv.is_some() {
            // SAFETY: passed on; a row is one task's.
            by_rows(worker, self.q.rows(), &|i| unsafe { self.heads(ctx, i, 0..1, 1) });
        }
    }

    /// What belongs to some of all K/V heads of row `i`: all, unless it [splits](Prepare::splits).
    ///
    /// # Safety
    /// As [`Prepare::phase`], of these heads.
    pub unsafe fn heads(&self, ctx: &Ctx, i: usize, some: Range<usize>, all: usize) {
        let part = |x: Shared<'a>| {
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
