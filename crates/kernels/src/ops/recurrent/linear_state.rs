//! A matrix a head that decays and takes outer products: Mamba-2 and linear attention with a decay.
//! Dao & Gu 2024, arXiv:2405.21060; Qin et al. 2024, arXiv:2401.04658.
use super::{Cells, Ctx, Run, lend};
use crate::mat::{Columns, Mat, Shared};

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
#[derive(Clone, Copy, Debug)]
pub struct LinearStateInput<'a> {
    /// `[rows, heads · values]`
    pub values: Columns<'a>,
    /// What the values are written by, `[rows, groups · keys]`.
    pub write: Columns<'a>,
    /// What the output is read by, as wide.
    pub read: Columns<'a>,
    /// What the values are multiplied by when they are written, `[rows, heads]`; none is one.
    pub step: Option<&'a Mat>,
    /// What the state is multiplied by before, `[rows, heads]`; or the same for all rows.
    pub decay: Result<&'a Mat, &'a [f32]>,
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
    input: &LinearStateInput<'_>,
    (cells, at): (&mut Mat, usize),
    out: &mut Mat,
) {
    let LinearState { heads, values, keys, groups, skip } = *how;
    let rows = input.values.rows();
    assert!(groups > 0 && heads.is_multiple_of(groups), "{groups} groups of {heads} heads");
    assert!(skip.is_none_or(|skip| skip.len() == heads), "what is skipped");
    let is = |m: Columns<'_>, cols| m.rows() == rows && m.cols() == cols;
    assert!(is(input.values, heads * values) && out.cols() == heads * values, "values");
    assert!(is(input.write, groups * keys) && is(input.read, groups * keys), "keys");
    assert!(input.step.is_none_or(|step| is(step.all(), heads)), "steps");
    let decays = match input.decay {
        Ok(decay) => is(decay.all(), heads),
        Err(fixed) => fixed.len() == heads,
    };
    assert!(decays, "decays");
    let floats = LinearState::floats(heads, keys, values);
    let cells = lend(cells, at, floats, runs, rows);
    out.resize(rows);
    let out = out.shared();
    ctx.each_part(runs, heads, floats, |run, head| {
        // SAFETY: the tier is usable, shapes agree; a run's head is one task's.
        unsafe {
            (ctx.kernels.linear_state)(&LinearStateTask { how, run, head, input, cells, out })
        };
    });
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
