//! Matrix products of one input with one or several weights, in one pass of the team.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Stage, Turned};
use crate::act::{Act, ActSlot};
use crate::layout::{Packed, Reads};
use crate::mat::{Mat, MatmulTask, Slot, Store, apart};
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

/// Products of one operation, so that their tables need no heap.
const JOBS: usize = 4;
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
    if jobs.iter().any(|job| job.weights.layout().reads() == Reads::Q8) {
        x.quantise(ctx);
    }
    all(ctx, x.slot(ctx), jobs);
}

/// As [`linear`] of an `x` that is made in all forms, and in the weights' order.
pub(super) fn all(ctx: &Ctx, x: ActSlot<'_>, jobs: &mut [Linear<'_>]) {
    for jobs in jobs.chunks_mut(JOBS) {
        let mut all = [None; JOBS];
        for (to, Linear { weights, bias, store, out }) in all.iter_mut().zip(jobs) {
            let rows = x.f32().rows();
            let out = if *store == Store::Set { out.lend(rows) } else { out.slot() };
            *to = Some(((*weights, *bias), *store, out));
        }
        alone(ctx, Products::new(ctx, x, &all));
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

/// A product, what becomes of it, and where it goes.
pub type Product<'a> = (Weights<'a>, Store, Slot<'a>);

/// Products of one input, side by side: tasks are groups of panels of all of them.
struct Products<'a> {
    x: ActSlot<'a>,
    jobs: [Option<Job<'a>>; JOBS],
    tasks: usize,
}

struct Job<'a> {
    weights: Weights<'a>,
    store: Store,
    out: Slot<'a>,
    /// Panels to a task.
    group: usize,
}

impl<'a> Products<'a> {
    /// Up to [`JOBS`] of them.
    ///
    /// # Panics
    /// If shapes disagree, or a form of `x` that is read is not made.
    pub fn new(ctx: &Ctx, x: ActSlot<'a>, jobs: &[Option<Product<'a>>]) -> Products<'a> {
        let all = || jobs.iter().flatten();
        let share = share(ctx, all().map(|((weights, _), ..)| weights.bytes().len()).sum());
        let mut products = Products { x, jobs: [const { None }; JOBS], tasks: 0 };
        for (i, &(weights, store, out)) in all().enumerate() {
            fits(x, weights);
            let wide = out.cols() == weights.0.rows();
            assert!(wide, "the output's width against the weights' rows");
            assert_eq!(out.rows(), x.f32().rows(), "the output's rows");
            apart([*out], [x.f32().into()]);
            all().take(i).for_each(|(.., other)| apart([*out, **other], []));
            let group = group(share, weights.0);
            products.tasks += weights.0.panels().div_ceil(group);
            products.jobs[i] = Some(Job { weights, store, out, group });
        }
        products
    }
}

/// # Panics
/// If `x` cannot be multiplied with the weights.
pub(super) fn fits(x: ActSlot<'_>, (weights, bias): Weights<'_>) {
    let (rows, cols) = (weights.rows(), weights.cols());
    assert_eq!(x.f32().cols(), cols, "the input's width against the weights'");
    assert!(bias.is_none_or(|bias| bias.len() == rows), "the bias is not {rows} long");
    match weights.layout().reads() {
        Reads::Q8 => assert!(x.q8(), "the 8-bit form is not made"),
        Reads::F32 => assert!(x.exact(), "the f32 rows were not made"),
    }
}

// SAFETY: a group of panels is one task's.
unsafe impl Phases for Products<'_> {
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        // SAFETY: those who made it have come to an end.
        let input = unsafe { self.x.seen() };
        worker.phase(self.tasks, |mut i| {
            for job in self.jobs.iter().flatten() {
                let (weights, bias) = job.weights;
                let groups = weights.panels().div_ceil(job.group);
                if i < groups {
                    let panels = i * job.group..weights.panels().min((i + 1) * job.group);
                    let (store, out) = (job.store, *job.out);
                    let matmul = ctx.kernels.matmul[weights.layout() as usize];
                    let weights = weights.view();
                    let task = MatmulTask { weights, input, bias, store, first: 0, out };
                    // SAFETY: passed on, the shapes were checked.
                    unsafe { matmul(&task, panels) };
                    return;
                }
                i -= groups;
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// All of `jobs` from `x`, whose 8-bit form is made first if weights read it and it is not there.
    /// Weights that have an [order](crate::Packed::order) read what is gathered to `turned`.
    ///
    /// # Panics
    /// If shapes disagree, or `turned` has no room for a width.
    pub fn products(
        &mut self,
        stage: Stage,
        x: &mut ActSlot<'a>,
        jobs: &[Option<Product<'a>>],
        turned: &'a Turned,
    ) {
        let order = |job: &Product<'a>| job.0.0.order();
        let mut rest = jobs.iter().flatten().copied().peekable();
        while let Some(first) = rest.next() {
            let mut alike = [None; JOBS];
            alike[0] = Some(first);
            for to in &mut alike[1..] {
                *to = rest.next_if(|job| order(job) == order(&first));
            }
            let reads = |((weights, _), ..): &Product<'_>| weights.layout().reads();
            let q8 = alike.iter().flatten().any(|job| reads(job) == Reads::Q8);
            let from = if let Some(order) = order(&first) {
                let to = turned.lend(self.ctx(), x.f32().rows(), x.f32().cols(), q8);
                self.norm(None, Some(order), x.f32(), to);
                to
            } else {
                self.quantise(stage, q8, x);
                *x
            };
            self.push(stage, Products::new(self.ctx(), from, &alike));
        }
    }
}
