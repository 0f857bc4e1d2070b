//! Attention as a branch: products, norms and rotation of heads, pages, gates, output.
use super::{Around, Ends, as_is, between};
use crate::act::{Act, SharedAct};
use crate::kv::Pool;
use crate::layout::Reads;
use crate::mat::{Mat, Shared, Store};
use crate::ops::attention::{Places, Prepare, Work};
use crate::ops::chain::chain;
use crate::ops::gate_heads::GateHeads;
use crate::ops::linear::Linears;
use crate::ops::turn::Turn;
use crate::ops::{
    Attend, AttendRow, AttentionScratch, CHUNK, Ctx, Heads, Stage, Watch, Weights, by_chunks,
    by_rows,
};

/// What an attention does.
pub struct AttentionBranch<'a> {
    /// Whether queries, keys, values and gates are made already, in [`AttentionBuffers::products`].
    pub made: bool,
    /// Queries.
    pub q: Weights<'a>,
    /// Keys; none where the pages are another layer's.
    pub k: Option<Weights<'a>>,
    /// Values; none there, and where they begin as the keys.
    pub v: Option<Weights<'a>>,
    /// Gates of the heads' output, as in [`crate::ops::gate_heads()`].
    pub gate: Option<Weights<'a>>,
    /// What queries, keys and values go through.
    pub heads: Heads<'a>,
    /// How they meet.
    pub attend: Attend<'a>,
    /// Output.
    pub o: Weights<'a>,
}

/// Where the rows of a batch stand, and what is kept there.
pub struct Cached<'a> {
    /// Positions.
    pub rows: &'a [AttendRow],
    /// Pages of each sequence.
    pub tables: &'a [Vec<u32>],
    /// Keys and values.
    pub pool: &'a mut Pool,
}

/// What an attention writes on the way, sized once.
pub struct AttentionBuffers {
    q: Mat,
    k: Mat,
    v: Mat,
    partial: AttentionScratch,
    out: Act,
    /// Gates and what passes them.
    gated: Option<(Mat, Act)>,
}

impl AttentionBuffers {
    /// For batches of up to `rows` rows, with so many gates and the `partial` results of as many.
    pub fn new(
        partial: AttentionScratch,
        shape: &Attend<'_>,
        gates: Option<usize>,
        rows: usize,
    ) -> AttentionBuffers {
        let Attend { heads, kv_heads, head_dim, v_dim, .. } = *shape;
        let out = || Act::new(rows, heads * v_dim);
        AttentionBuffers {
            q: Mat::new(rows, heads * head_dim),
            k: Mat::new(rows, kv_heads * head_dim),
            v: Mat::new(rows, kv_heads * v_dim),
            partial,
            out: out(),
            gated: gates.map(|gates| (Mat::new(rows, gates), out())),
        }
    }
    /// Queries, keys, values and gates, if there are any, to be made by other means.
    pub fn products(&mut self) -> [Option<&mut Mat>; 4] {
        let gates = self.gated.as_mut().map(|(gates, _)| gates);
        [Some(&mut self.q), Some(&mut self.k), Some(&mut self.v), gates]
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = [&self.q, &self.k, &self.v].map(Mat::bytes).iter().sum::<usize>();
        let gated = self.gated.as_ref().map_or(0, |(gates, out)| gates.bytes() + out.bytes());
        mats + self.partial.bytes() + self.out.bytes() + gated
    }
}

impl<'a> AttentionBranch<'a> {
    /// Of all products that are left to do.
    pub fn weights(&self) -> impl Iterator<Item = Weights<'a>> {
        self.inputs().into_iter().flatten().chain([self.o])
    }
    fn inputs(&self) -> [Option<Weights<'a>>; 4] {
        if self.made { [None; 4] } else { [Some(self.q), self.k, self.v, self.gate] }
    }
}

/// Takes the stream, or an input, through an attention: the numbers of [`crate::ops::norm()`],
/// [`crate::ops::linear()`], [`crate::ops::rotate()`], [`crate::ops::attention()`],
/// [`crate::ops::gate_heads()`] and [`crate::ops::residual()`] one after another.
///
/// # Panics
/// If shapes disagree, there is no stream where one is needed, the buffers are too small, or a
/// position that is written or seen has no page.
pub fn attention_branch(
    ctx: &Ctx,
    how: &AttentionBranch<'_>,
    cached: Cached<'_>,
    buffers: &mut AttentionBuffers,
    mut ends: Ends<'_>,
    watch: Watch<'_>,
) {
    let AttentionBuffers { q, k, v, partial, out, gated } = buffers;
    let turned = ends.turned.take();
    let around = Around::new(ctx, ends, &how.inputs(), how.o);
    let rows = around.rows();
    [&mut *q, k, v].into_iter().for_each(|x| x.resize(rows));
    let (q, k, v) = (q.shared(), k.shared(), v.shared());
    let q8 = how.o.0.layout().reads() == Reads::Q8 && as_is(how.o.0);
    let (heads, gate) = passing(ctx, how, out, gated, rows);
    let made = gate.as_ref().map_or(&heads, |(gate, _)| gate.out()).to_read();
    let turn = turn(ctx, how.o, &made, turned);
    let last = turn.as_ref().map_or(made, |turn| turn.out().to_read());
    let [of_q, of_k, of_v, of_gate] = how.inputs();
    let jobs = [(of_q, q), (of_k, k), (of_v, v)]
        .map(|(weights, out)| weights.map(|weights| (weights, Store::Set, out)));
    let [q_job, k_job, v_job] = jobs;
    let gate_job = gate.as_ref().and_then(|(_, job)| of_gate.map(|_| *job));
    let products = Linears::new(ctx, &[q_job, k_job, v_job, gate_job]);
    let prepare = Prepare::new(&how.heads, q, how.k.map(|_| (k, v)));
    let seen = (prepare.q(), prepare.kv());
    let Cached { rows: at, tables, pool } = cached;
    let places = Places { rows: at, tables, chosen: None, pool };
    let work = Work::new(ctx, &how.attend, places, seen, partial, heads, q8 && gate.is_none());
    let work = work.with(prepare, watch.is_some());
    let n = work.phases();
    let [first, join] = around.stages();
    let gated = gate.as_ref().map(|_| Stage::Attention);
    let stage = |i: usize| match i {
        0 => first,
        1 => Some(Stage::Products),
        _ if i < n + 2 => work.stage(i - 2),
        _ => [gated, turn.as_ref().map(|_| Stage::Unit), Some(Stage::Products), join][i - n - 2],
    };
    // SAFETY: the tier is usable and the shapes were checked; what a phase reads, one before it
    // made or this call was given, and what it writes is lent to this call.
    chain(ctx, watch, n + 6, stage, |worker, i| unsafe {
        match i {
            0 => around.enter(worker),
            1 => products.phase(ctx, worker, around.input()),
            _ if i < n + 2 => work.phase(worker, i - 2),
            _ if i == n + 2 => gate.iter().for_each(|(gate, _)| {
                by_chunks(worker, gate.shape(), CHUNK, &|i, from, len| {
                    gate.chunk(ctx, i, from, len);
                });
            }),
            _ if i == n + 3 => turn.iter().for_each(|turn| {
                by_rows(worker, rows, &|i| turn.row(ctx, i));
            }),
            _ if i == n + 4 => around.leave(worker, last.seen()),
            _ => around.join(worker),
        }
    });
}

/// What brings the output's input in its weights' order, if they have one.
fn turn<'a>(
    ctx: &Ctx,
    (weights, _): Weights<'a>,
    x: &SharedAct<'a>,
    to: Option<&'a mut Act>,
) -> Option<Turn<'a>> {
    let order = weights.order()?;
    let to = to.expect("room for an input in the weights' order");
    to.resize(x.f32().rows());
    let q8 = weights.layout().reads() == Reads::Q8;
    Some(Turn::new(order, x.f32().seen(), to.shared(ctx.kernels.tile, q8), q8))
}

/// Products with weights, to a matrix.
type Job<'a> = (Weights<'a>, Store, Shared<'a>);

/// Where the heads' results go, and what lets them pass, with its product.
fn passing<'a>(
    ctx: &Ctx,
    how: &AttentionBranch<'a>,
    out: &'a mut Act,
    gated: &'a mut Option<(Mat, Act)>,
    rows: usize,
) -> (SharedAct<'a>, Option<(GateHeads<'a>, Job<'a>)>) {
    let Some(weights) = how.gate else { return (between(ctx, out, rows, how.o), None) };
    let (gates, passed) = gated.as_mut().expect("buffers for gates");
    if !how.made {
        gates.resize(rows);
    }
    out.resize(rows);
    let (gates, x) = (gates.shared(), out.shared(ctx.kernels.tile, false));
    let passed = between(ctx, passed, rows, how.o);
    let q8 = how.o.0.layout().reads() == Reads::Q8 && as_is(how.o.0);
    let gate = GateHeads::new(gates.seen(), x.f32().seen(), passed, q8);
    (x, Some((gate, (weights, Store::Set, gates))))
}
