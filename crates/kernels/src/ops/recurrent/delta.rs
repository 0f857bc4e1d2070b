//! The gated delta rule. Yang et al. 2024, arXiv:2412.06464; with a decay for each channel of the
//! keys, Kimi Team 2025, arXiv:2510.26692.
use super::{Cells, Ctx, Run, lend};
use crate::mat::{Columns, Mat, Shared};

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
#[derive(Clone, Copy, Debug)]
pub struct DeltaInput<'a> {
    /// `[rows, k_heads · k_dim]`, normalised and scaled.
    pub q: Columns<'a>,
    /// `[rows, k_heads · k_dim]`, normalised.
    pub k: Columns<'a>,
    /// `[rows, v_heads · v_dim]`
    pub v: Columns<'a>,
    /// What the state is multiplied by, `[rows, v_heads]` or `[rows, v_heads · k_dim]`.
    pub decay: &'a Mat,
    /// How much of the difference is written, `[rows, v_heads]`.
    pub beta: &'a Mat,
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
    input: &DeltaInput<'_>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let Delta { k_heads, v_heads, k_dim, v_dim, .. } = *how;
    let rows = input.v.rows();
    assert!(k_heads > 0 && v_heads.is_multiple_of(k_heads), "{v_heads} of {k_heads} heads");
    let is = |m: Columns<'_>, cols| m.rows() == rows && m.cols() == cols;
    assert!(is(input.q, k_heads * k_dim) && is(input.k, k_heads * k_dim), "queries and keys");
    assert!(is(input.v, v_heads * v_dim) && out.cols() == v_heads * v_dim, "values");
    let decays = if how.per_channel { v_heads * k_dim } else { v_heads };
    assert!(is(input.decay.all(), decays) && is(input.beta.all(), v_heads), "gates");
    let cells = lend(cells, at, how.floats(), runs, rows);
    out.resize(rows);
    let out = out.shared();
    ctx.each_part(runs, v_heads, how.floats(), |run, head| {
        // SAFETY: the tier is usable, shapes agree; a run's head is one task's.
        unsafe { (ctx.kernels.delta)(&DeltaTask { how, run, head, input, cells, out }) };
    });
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
