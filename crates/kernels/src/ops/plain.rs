//! What takes no instructions of its own: copies, sums, factors, functions of single numbers.
use super::chain::Phases;
use super::{Chain, Ctx, Stage, by_rows, few};
use crate::mat::{Seen, Slot, apart};
use crate::team::Worker;

/// What becomes of each element.
#[derive(Clone, Copy)]
pub enum Plain<'a> {
    /// Zero.
    Zero,
    /// That of another matrix.
    Copy(Seen<'a>),
    /// The sum of it and another matrix's.
    Add(Seen<'a>),
    /// It times this.
    Scale(f32),
    /// What this makes of it.
    Of(fn(f32) -> f32),
}

/// That, as an operation.
struct Plainly<'a> {
    what: Plain<'a>,
    to: Slot<'a>,
}

// SAFETY: a row is one task's.
unsafe impl Phases for Plainly<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.to.rows(), self.to.cols(), least)
    }
    unsafe fn phase(&self, _: &Ctx, worker: &Worker<'_>, _: usize) {
        let Plainly { what, to } = *self;
        by_rows(worker, to.rows(), &|i| {
            // SAFETY: passed on, shapes agree.
            unsafe {
                let to = to.part(i, 0, to.cols());
                match what {
                    Plain::Zero => to.fill(0.0),
                    Plain::Copy(x) => to.copy_from_slice(x.row(i)),
                    Plain::Add(x) => to.iter_mut().zip(x.row(i)).for_each(|(to, x)| *to += x),
                    Plain::Scale(by) => to.iter_mut().for_each(|to| *to *= by),
                    Plain::Of(function) => to.iter_mut().for_each(|to| *to = function(*to)),
                }
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// Makes `what` of `to`.
    ///
    /// # Panics
    /// If another matrix is of another shape.
    pub fn plain(&mut self, stage: Stage, what: Plain<'a>, to: Slot<'a>) {
        if let Plain::Copy(x) | Plain::Add(x) = what {
            assert_eq!((x.rows(), x.cols()), (to.rows(), to.cols()), "matrices of one shape");
            apart([*to], [x]);
        }
        self.push(stage, Plainly { what, to });
    }
}
