//! The gated delta rule. Yang et al. 2024, arXiv:2412.06464; with a decay for each channel of the
//! keys, Kimi Team 2025, arXiv:2510.26692.
use super::{Cells, CellsFrom, Run, by_parts, few, lend};
use crate::mat::{Mat, Seen, Shared, Slot, apart};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Stage};
use crate::team::Worker;

/// The shape of a delta-rule state.
#[derive(Clone, Copy, Debug)]
pub struct Delta {
    /// Heads of queries and keys.
    pub k_heads: usize,
    /// Heads of values, and of the state; a multiple of `k_heads`.
    pub v_heads: usize,
    /// Elements to a query or key.
    pub k_dim: usize,
    /// Elements to a value.
    pub v_dim: usize,
    /// Whether value head `h` has key head `h % k_heads`, or `h / (v_heads / k_heads)`.
    pub interleaved: bool,
    /// Whether each element of a key has a decay of its own, or each value head one.
    pub per_channel: bool,
}

/// A delta rule's inputs, a row each.
#[derive(Clone, Copy)]
pub struct DeltaInput<'a> {
    /// `[rows, k_heads · k_dim]`, normalised and scaled.
    pub q: Seen<'a>,
    /// `[rows, k_heads · k_dim]`, normalised.
    pub k: Seen<'a>,
    /// `[rows, v_heads · v_dim]`
    pub v: Seen<'a>,
    /// What the state is multiplied by, `[rows, v_heads]` or `[rows, v_heads · k_dim]`.
    pub decay: Seen<'a>,
    /// How much of the difference is written, `[rows, v_heads]`.
    pub beta: Seen<'a>,
}

impl Delta {
    /// Floats of the state: a matrix `[k_dim, v_dim]` a value head, the values padded to whole
    /// vectors.
    pub fn floats(&self) -> usize {
        self.v_heads * self.k_dim * self.v_dim.next_multiple_of(16)
    }
    /// The key head of a value head.
    pub(crate) fn key_head(&self, head: usize) -> usize {
        if self.interleaved { head % self.k_heads } else { head * self.k_heads / self.v_heads }
    }
}

/// For each value head `S = diag(decay)·S`, `S = S + k·(beta·(v - Sᵀ·k))ᵀ`, then `out = Sᵀ·q`. The
/// state begins at float `at` of each cell. `out` takes the input's row count; rows of no run are
/// unspecified.
///
/// # Panics
/// If shapes disagree.
pub fn delta(
    ctx: &Ctx,
    how: &Delta,
    runs: &[Run],
    input: DeltaInput<'_>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let out = out.lend(input.v.rows());
    alone(ctx, DeltaScan::new(*how, runs, input, (cells.slot(), at), out));
}

/// The same, as an operation.
struct DeltaScan<'a> {
    how: Delta,
    runs: &'a [Run],
    input: DeltaInput<'a>,
    cells: Cells<'a>,
    out: Slot<'a>,
}

impl<'a> DeltaScan<'a> {
    /// # Panics
    /// If shapes disagree.
    pub fn new(
        how: Delta,
        runs: &'a [Run],
        input: DeltaInput<'a>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) -> DeltaScan<'a> {
        let Delta { k_heads, v_heads, k_dim, v_dim, .. } = how;
        let DeltaInput { q, k, v, decay, beta } = input;
        assert!(k_heads > 0 && v_heads.is_multiple_of(k_heads), "{v_heads} of {k_heads} heads");
        let is = |m: Seen<'_>, cols| m.rows() == v.rows() && m.cols() == cols;
        assert!(is(q, k_heads * k_dim) && is(k, k_heads * k_dim), "queries and keys");
        assert!(is(v, v_heads * v_dim) && is(out.into(), v_heads * v_dim), "values");
        let decays = if how.per_channel { v_heads * k_dim } else { v_heads };
        assert!(is(decay, decays) && is(beta, v_heads), "gates");
        apart([*out, *cells.0], [q, k, v, decay, beta]);
        let cells = lend(cells, how.floats(), runs, v.rows());
        DeltaScan { how, runs, input, cells, out }
    }
}

// SAFETY: a run's head is one task's.
unsafe impl Phases for DeltaScan<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.runs, self.how.v_heads, self.how.floats(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let DeltaScan { how, input, cells, out, .. } = self;
        by_parts(worker, self.runs, how.v_heads, &|run, head| {
            let task = DeltaTask { how, run, head, input, cells: *cells, out: **out };
            // SAFETY: passed on, shapes agree.
            unsafe { (ctx.kernels.delta)(&task) };
        });
    }
}

impl<'a> Chain<'a> {
    /// A delta rule, as of [`delta()`].
    ///
    /// # Panics
    /// If shapes disagree.
    pub fn delta(
        &mut self,
        how: Delta,
        runs: &'a [Run],
        input: DeltaInput<'a>,
        cells: CellsFrom<'a>,
        out: Slot<'a>,
    ) {
        self.push(Stage::State, DeltaScan::new(how, runs, input, cells, out));
    }
}

/// One head of one run.
pub struct DeltaTask<'a> {
    pub(crate) how: &'a Delta,
    pub(crate) run: &'a Run,
    pub(crate) head: usize,
    pub(crate) input: &'a DeltaInput<'a>,
    pub(crate) cells: Cells<'a>,
    pub(crate) out: Shared<'a>,
}
