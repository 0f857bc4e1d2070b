//! Mixers with a state of fixed size: each row of a sequence reads and rewrites what the rows before
//! it left.
//!
//! A state lies in a *cell*, one row of a matrix `[cells, floats]`. Rows are taken in order, one
//! after another, so a prompt's cut into chunks changes no bit; heads or channels, and sequences,
//! are side by side on the team.
mod blocks;
mod conv;
mod delta;
mod groups;
mod linear_state;
mod rg_lru;
mod selective;

pub use blocks::block_diagonal;
pub use conv::{Conv, ConvTask, conv};
pub use delta::{Delta, DeltaInput, DeltaTask, delta};
pub use groups::norm_groups;
pub use linear_state::{LinearState, LinearStateInput, LinearStateTask, linear_state};
pub use rg_lru::{RgLru, RgLruTask, rg_lru};
pub use selective::{Selective, SelectiveInput, SelectiveTask, selective};

use crate::mat::Slot;
use crate::team::Worker;
use std::ops::Range;

/// One sequence's rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first, in the batch.
    pub row: usize,
    /// How many.
    pub rows: usize,
    /// Positions before them; the state of none is zero.
    pub past: usize,
    /// Where the state is, before and after.
    pub cell: usize,
    /// A copy to be made on the way.
    pub mark: Option<Mark>,
}

/// A copy of a state between two rows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Rows of the run before it; not all.
    pub after: usize,
    /// Where to.
    pub cell: usize,
}

impl Run {
    /// The run's rows in two parts, and the cell that the state is copied to after each.
    pub(crate) fn parts(&self) -> [(Range<usize>, Option<usize>); 2] {
        let end = self.row + self.rows;
        let Mark { after, cell } = self.mark.unwrap_or(Mark { after: 0, cell: self.cell });
        let middle = self.row + after;
        [(self.row..middle, self.mark.map(|_| cell)), (middle..end, None)]
    }
}

/// The states of all sequences, `[cells, floats]`, and where in a cell an operation's part begins.
pub type CellsFrom<'a> = (Slot<'a>, usize);

/// One operation's part of every cell, lent to the tasks of a phase.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    all: Slot<'a>,
    /// Where in a cell the part begins.
    at: usize,
}

impl<'a> Cells<'a> {
    /// Where floats `from..from + len` of a cell's part are.
    ///
    /// # Panics
    /// Outside the cells.
    pub(crate) fn at(&self, cell: usize, from: usize, len: usize) -> *mut f32 {
        self.all.at(cell, self.at + from, len)
    }
    /// The same, to write.
    ///
    /// # Safety
    /// No other live reference overlaps them.
    ///
    /// # Panics
    /// Outside the cells.
    pub(crate) unsafe fn part(&self, cell: usize, from: usize, len: usize) -> &'a mut [f32] {
        // SAFETY: passed on.
        unsafe { self.all.part(cell, self.at + from, len) }
    }
}

/// Checks runs over `rows` rows, and lends the part of `floats` floats from `at` on of their cells,
/// zeroed where a sequence begins.
///
/// # Panics
/// If runs overlap or are no part of the batch, or cells are too small or shared.
fn lend<'a>((all, at): CellsFrom<'a>, floats: usize, runs: &[Run], rows: usize) -> Cells<'a> {
    assert!(at + floats <= all.cols(), "a state of {floats} floats in cells of {}", all.cols());
    let mut next = 0;
    for run in runs {
        assert!(run.row >= next && run.rows > 0, "runs overlap");
        next = run.row + run.rows;
        assert!(run.mark.is_none_or(|m| m.after < run.rows && m.cell != run.cell), "a mark");
        if run.past == 0 {
            // SAFETY: no chain runs that the cells are lent to, and no reference outlives one.
            unsafe { all.part(run.cell, at, floats) }.fill(0.0);
        }
    }
    assert!(next <= rows, "runs of {next} rows in a batch of {rows}");
    let mut used = runs.iter().flat_map(|r| [Some(r.cell), r.mark.map(|m| m.cell)]).flatten();
    while let Some(cell) = used.next() {
        assert!(used.clone().all(|other| other != cell), "a cell that two sequences share");
    }
    Cells { all, at }
}

/// Phase: `task(run, part)` for all parts of all runs.
fn by_parts(worker: &Worker<'_>, runs: &[Run], parts: usize, task: &dyn Fn(&Run, usize)) {
    worker.phase(runs.len() * parts, |i| task(&runs[i / parts], i % parts));
}

/// Whether states of so many floats in so many parts are little work.
fn few(runs: &[Run], parts: usize, floats: usize, least: usize) -> bool {
    let rows = runs.iter().map(|run| run.rows).sum::<usize>();
    crate::ops::few(runs.len() * parts, rows * floats / (runs.len() * parts).max(1), least)
}

/// Channels that elementwise states are cut into.
const CHANNELS: usize = 128;

/// Stretch `i` of so many channels.
fn stretch(i: usize, channels: usize) -> Range<usize> {
    i * CHANNELS..channels.min((i + 1) * CHANNELS)
}
