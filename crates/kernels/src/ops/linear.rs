//! Matrix products of one input with one or several weights, in one pass of the team.
use super::Ctx;
use crate::act::{Act, ActRows};
use crate::layout::{Packed, Reads};
use crate::mat::{Mat, MatmulTask, Shared, Store};
use crate::team::Worker;

/// Weights `[n, k]`, and a bias `n` long.
pub type Weights<'a> = (&'a Packed, Option<&'a [f32]>);

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
/// If shapes disagree, or weights have an order of their own.
pub fn linear(ctx: &Ctx, x: &mut Act, jobs: &mut [Linear<'_>]) {
    assert!(jobs.iter().all(|job| job.weights.order().is_none()), "weights in an order");
    turned(ctx, x, jobs);
}

/// As [`linear`] of an `x` that is in the weights' order.
pub(super) fn turned(ctx: &Ctx, x: &mut Act, jobs: &mut [Linear<'_>]) {
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
    let mut all = [None; JOBS];
    for (to, job) in all.iter_mut().zip(jobs) {
        *to = Some(((job.weights, job.bias), job.store, job.out.shared()));
    }
    let products = Linears::new(ctx, &all);
    // SAFETY: the input is made, the outputs are this call's.
    ctx.team.run(|worker| unsafe { products.phase(ctx, worker, x.all()) });
}

/// Products of one input, as the tasks of a phase share them.
pub(super) struct Linears<'a> {
    jobs: [Option<Job<'a>>; JOBS],
    tasks: usize,
}

struct Job<'a> {
    weights: Weights<'a>,
    store: Store,
    out: Shared<'a>,
    /// Panels to a task.
    group: usize,
}

impl<'a> Linears<'a> {
    /// Up to [`JOBS`] of them.
    ///
    /// # Panics
    /// If an output is not as wide as its weights have rows.
    pub fn new(ctx: &Ctx, jobs: &[Option<(Weights<'a>, Store, Shared<'a>)>]) -> Linears<'a> {
        let all = || jobs.iter().flatten();
        let share = share(ctx, all().map(|((weights, _), ..)| weights.bytes().len()).sum());
        let mut products = Linears { jobs: [const { None }; JOBS], tasks: 0 };
        for (job, &(weights, store, out)) in products.jobs.iter_mut().zip(all()) {
            let rows = weights.0.rows();
            assert_eq!(out.cols(), rows, "the output's width against the weights' rows");
            let group = group(share, weights.0);
            products.tasks += weights.0.panels().div_ceil(group);
            *job = Some(Job { weights, store, out, group });
        }
        products
    }

    /// Phase: all of them. Tasks are groups of panels over all jobs.
    ///
    /// # Safety
    /// The tier is usable; `x` is as wide as the weights, and has the rows of the outputs and the
    /// forms that the weights read; nobody else reads or writes the outputs meanwhile.
    pub unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, input: ActRows<'_>) {
        worker.phase(self.tasks, |mut i| {
            for job in self.jobs.iter().flatten() {
                let (weights, bias) = job.weights;
                let groups = weights.panels().div_ceil(job.group);
                if i < groups {
                    let panels = i * job.group..weights.panels().min((i + 1) * job.group);
                    let (store, out) = (job.store, job.out);
                    let matmul = ctx.kernels.matmul[weights.layout() as usize];
                    let weights = weights.view();
                    let task = MatmulTask { weights, input, bias, store, first: 0, out };
                    // SAFETY: the caller's promise, and a group of panels is one task's.
                    unsafe { matmul(&task, panels) };
                    return;
                }
                i -= groups;
            }
        });
    }
}
