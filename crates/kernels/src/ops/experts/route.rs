//! What rows choose.
use super::Choice;
use crate::mat::{Lent, Slot};
use crate::ops::chain::Phases;
use crate::ops::{Ctx, by_rows, few};
use crate::team::Worker;
use std::marker::PhantomData;

/// Chooses experts.
pub trait Router: Sync {
    /// Fills `out` with a row's choices, none twice, by its `logits`, which it may overwrite.
    fn choose(&self, logits: &mut [f32], out: &mut [Choice]);
}

/// What all rows choose, each as many experts: lent to the operations of a chain.
#[derive(Clone, Copy)]
pub struct Choices<'a> {
    /// `[rows, top_k]`.
    all: Lent<'a, Choice>,
    rows: usize,
    here: PhantomData<*const ()>,
}

impl<'a> Choices<'a> {
    /// Of so many rows.
    ///
    /// # Panics
    /// If they are not as many each.
    pub fn lend(all: &'a mut [Choice], rows: usize) -> Choices<'a> {
        let whole = if rows == 0 { all.is_empty() } else { all.len().is_multiple_of(rows) };
        assert!(whole, "rows differ in what they chose");
        Choices { all: Lent::new(all), rows, here: PhantomData }
    }
    /// What was chosen when the chain last ran.
    pub fn iter(&self) -> impl Iterator<Item = Choice> {
        // SAFETY: no chain runs that they are lent to, and no reference outlives this expression.
        (0..self.all.len).map(|i| unsafe { self.all.seen(i, 1) }[0])
    }
    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }
    /// Choices to a row.
    pub(super) fn top_k(&self) -> usize {
        self.all.len / self.rows.max(1)
    }
    /// All of them.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    pub(super) unsafe fn seen(&self) -> &'a [Choice] {
        // SAFETY: passed on.
        unsafe { self.all.seen(0, self.all.len) }
    }
}

/// The choice of all rows.
pub(super) struct Route<'a> {
    how: &'a dyn Router,
    logits: Slot<'a>,
    choices: Choices<'a>,
}

impl<'a> Route<'a> {
    /// # Panics
    /// If there are choices of another number of rows.
    pub fn new(how: &'a dyn Router, logits: Slot<'a>, choices: Choices<'a>) -> Route<'a> {
        assert_eq!(logits.rows(), choices.rows, "rows that choose");
        Route { how, logits, choices }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Route<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.logits.rows(), self.logits.cols(), least)
    }
    unsafe fn phase(&self, _: &Ctx, worker: &Worker<'_>, _: usize) {
        let Route { how, logits, choices } = self;
        let top_k = choices.top_k();
        by_rows(worker, logits.rows(), &|i| {
            // SAFETY: passed on.
            unsafe {
                let logits = logits.part(i, 0, logits.cols());
                how.choose(logits, choices.all.part(i * top_k, top_k));
            }
        });
    }
}
