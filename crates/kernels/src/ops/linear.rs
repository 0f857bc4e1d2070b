//! Matrix products of one input with one or several weights, in one pass of the team.
use super::Ctx;
use crate::act::Act;
use crate::layout::{Packed, Reads};
use crate::mat::{Mat, MatmulTask, Store};

/// One product: `out[m, n] (+)= Σ_k weights[n, k]·x[m, k] + bias[n]`.
pub struct Linear<'a> {
    /// `[n, k]`.
    pub weights: &'a Packed,
    /// `n` long.
    pub bias: Option<&'a [f32]>,
    /// Replace or add.
    pub store: Store,
    /// Takes the input's row count; with [`Store::Add`] it must have it already.
    pub out: &'a mut Mat,
}

/// Jobs to a run, so that their tables need no heap.
const JOBS: usize = 8;
/// Weight bytes of a task: above, claims cost nothing beside the work; below, the last task of a
/// run keeps the other threads waiting for long.
const TASK_BYTES: std::ops::RangeInclusive<usize> = 8 << 10..=256 << 10;
/// Tasks that a thread should find, between those bounds.
const TASKS: usize = 16;

/// Computes all of `jobs` from `x`, whose 8-bit form is made here if a layout reads it and it is
/// stale. Tasks are groups of panels over all jobs.
///
/// # Panics
/// If shapes disagree.
pub fn linear(ctx: &Ctx, x: &mut Act, jobs: &mut [Linear<'_>]) {
    for job in jobs.iter_mut() {
        prepare(ctx, x, job.weights, job.bias);
        job.check(x);
    }
    for jobs in jobs.chunks_mut(JOBS) {
        run(ctx, x, jobs);
    }
}

/// Checks that `x` can be multiplied with `weights`, and makes its 8-bit form if they read it.
pub(super) fn prepare(ctx: &Ctx, x: &mut Act, weights: &Packed, bias: Option<&[f32]>) {
    let (rows, cols) = (weights.rows(), weights.cols());
    assert_eq!(x.cols(), cols, "the input's width against the weights'");
    assert!(bias.is_none_or(|bias| bias.len() == rows), "the bias is not {rows} long");
    match weights.layout().reads() {
        Reads::Q8 => x.quantise(ctx),
        Reads::F32 => assert!(x.exact(), "the f32 rows were not made"),
    }
}

impl Linear<'_> {
    fn check(&mut self, x: &Act) {
        let rows = self.weights.rows();
        assert_eq!(self.out.cols(), rows, "the output's width against the weights' rows");
        match self.store {
            Store::Set => self.out.resize(x.rows()),
            Store::Add => assert_eq!(self.out.rows(), x.rows(), "the rows to add to"),
        }
    }
}

/// Weight bytes of a task, of `bytes` in all.
pub(super) fn share(ctx: &Ctx, bytes: usize) -> usize {
    (bytes / (TASKS * ctx.team.threads())).clamp(*TASK_BYTES.start(), *TASK_BYTES.end())
}

/// Panels to a task of `share` bytes.
pub(super) fn group(share: usize, weights: &Packed) -> usize {
    (share * weights.panels() / weights.bytes().len().max(1)).max(1)
}

fn run(ctx: &Ctx, x: &Act, jobs: &mut [Linear<'_>]) {
    let bytes: usize = jobs.iter().map(|job| job.weights.bytes().len()).sum();
    let share = share(ctx, bytes);
    // Of each job its operands, and the panels to a task.
    let mut table = [const { None }; JOBS];
    let mut tasks = 0;
    for (entry, job) in table.iter_mut().zip(jobs) {
        let panels = job.weights.panels();
        let group = group(share, job.weights);
        tasks += panels.div_ceil(group);
        let Linear { weights, bias, store, out } = job;
        let operands = MatmulTask {
            weights: weights.view(),
            input: x.all(),
            bias: *bias,
            store: *store,
            first: 0,
            out: out.shared(),
        };
        *entry = Some((operands, group));
    }
    ctx.team.run(|worker| {
        worker.phase(tasks, |mut i| {
            for (operands, group) in table.iter().flatten() {
                let panels = operands.weights.panels();
                let groups = panels.div_ceil(*group);
                if i < groups {
                    let panels = i * group..panels.min((i + 1) * group);
                    let matmul = ctx.kernels.matmul[operands.weights.layout() as usize];
                    // SAFETY: the tier is usable, the shapes were checked, and a group of panels
                    // is one task's.
                    unsafe { matmul(operands, panels) };
                    return;
                }
                i -= groups;
            }
        });
    });
}
