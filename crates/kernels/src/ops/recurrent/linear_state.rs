//! A matrix a head that decays and takes outer products: Mamba-2 and linear attention with a decay.
//! Dao & Gu 2024, arXiv:2405.21060; Qin et al. 2024, arXiv:2401.04658.
use super::{Cells, CellsFrom, Run, by_parts, few, lend};
use crate::mat::{Mat, Seen, Shared, Slot, apart};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Stage};
use crate::team::Worker;

/// The shape of a linear state, and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct LinearState<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Elements to a head's values.
    pub values: usize,
    /// Elements to a key, which is what a value is written and read by.
    pub keys: usize,
    /// Groups of neighbouring heads that share keys; divides `heads`.
    pub groups: usize,
    /// A number a head: what of the values goes to the output as it is; none is zero.
    pub skip: Option<&'a [f32]>,
}

/// A linear state's inputs, a row each.
#[derive(Clone, Copy)]
pub struct LinearStateInput<'a> {
    /// `[rows, heads · values]`
    pub values: Seen<'a>,
    /// What the values are written by, `[rows, groups · keys]`.
    pub write: Seen<'a>,
    /// What the output is read by, as wide.
    pub read: Seen<'a>,
    /// What the values are multiplied by when they are written, `[rows, heads]`; none is one.
    pub step: Option<Seen<'a>>,
    /// What the state is multiplied by before, `[rows, heads]`; or the same for all rows.
    pub decay: Result<Seen<'a>, &'a [f32]>,
}

impl LinearState<'_> {
    /// Floats of the state: a matrix `[keys, values]` a head, the values padded to whole vectors.
    pub fn floats(heads: usize, keys: usize, values: usize) -> usize {
        heads * keys * values.next_multiple_of(16)
    }
}

/// For each head `S = decay·S + write·(step·values)ᵀ`, then `out = Sᵀ·read + skip·values`. The state
/// begins at float `at` of each cell. `out` takes the input's row count; rows of no run are
/// unspecified.
///
/// # Panics
/// If shapes disagree.
pub fn linear_state(
    ctx: &Ctx,
    how: &LinearState<'_>,
    runs: &[Run],
    input: LinearStateInput<'_>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let out = out.lend(input.values.rows());
    alone(ctx, LinearScan::new(*how, runs, input, (cells.slot(), at), out));
}

/// The same, as an operation.
struct LinearScan<'a> {
    how: LinearState<'a>,
    runs: &'a [Run],
    input: LinearStateInput<'a>,
    cells: Cells<'a>,
    out: Slot<'a>,
}

impl<'a> LinearScan<'a> {
    /// # Panics
    /// If shapes disagree.
    pub fn new(
        how: LinearState<'a>,
        runs: &'a [Run],
        input: LinearStateInput<'a>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) -> LinearScan<'a> {
        let LinearState { heads, values, keys, groups, skip } = how;
        let rows = input.values.rows();
        assert!(groups > 0 && heads.is_multiple_of(groups), "{groups} groups of {heads} heads");
        assert!(skip.is_none_or(|skip| skip.len() == heads), "what is skipped");
        let is = |m: Seen<'_>, cols| m.rows() == rows && m.cols() == cols;
        assert!(is(input.values, heads * values) && is(out.into(), heads * values), "values");
        assert!(is(input.write, groups * keys) && is(input.read, groups * keys), "keys");
        assert!(input.step.is_none_or(|step| is(step, heads)), "steps");
        let decays = match input.decay {
            Ok(decay) => is(decay, heads),
            Err(fixed) => fixed.len() == heads,
        };
        assert!(decays, "decays");
        let (step, decay) = (input.step, input.decay.ok());
        let or = |x: Option<Seen<'a>>| x.unwrap_or(input.values);
        let reads = [input.values, input.write, input.read, or(step), or(decay)];
        apart([*out, *cells.0], reads);
        let cells = lend(cells, LinearState::floats(heads, keys, values), runs, rows);
        LinearScan { how, runs, input, cells, out }
    }
}

// SAFETY: a run's head is one task's.
unsafe impl Phases for LinearScan<'_> {
    fn few(&self, least: usize) -> bool {
        let LinearState { heads, keys, values, .. } = self.how;
        few(self.runs, heads, LinearState::floats(heads, keys, values), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let LinearScan { how, input, cells, out, .. } = self;
        by_parts(worker, self.runs, how.heads, &|run, head| {
            let task = LinearStateTask { how, run, head, input, cells: *cells, out: **out };
            // SAFETY: passed on, shapes agree.
            unsafe { (ctx.kernels.linear_state)(&task) };
        });
    }
}

impl<'a> Chain<'a> {
    /// A linear state, as of [`linear_state()`].
    ///
    /// # Panics
    /// If shapes disagree.
    pub fn linear_state(
        &mut self,
        how: LinearState<'a>,
        runs: &'a [Run],
        input: LinearStateInput<'a>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) {
        self.push(Stage::State, LinearScan::new(how, runs, input, cells, out));
    }
}

/// One head of one run.
pub struct LinearStateTask<'a> {
    pub(crate) how: &'a LinearState<'a>,
    pub(crate) run: &'a Run,
    pub(crate) head: usize,
    pub(crate) input: &'a LinearStateInput<'a>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
