//! Walks the plan: one batch in, the wanted rows' logits out.
use super::altup::AltUpSteps;
use super::branch;
use super::clock::Clock;
use super::flow::Flow;
use super::pack::Packer;
use super::plan::Plan;
use super::scratch::{Scratch, turned};
use crate::backend::{self, DeviceError, Limits, LoadError, State};
use crate::batch::{Batch, Logits, Row, Want};
use crate::profile::{Kind, Profile};
use crate::size::Memory;
use crate::spec::{Head, ModelSpec};
use crate::state::{Cache, Group, Pages, Recurrent};
use rinfer_formats::Weights;
use rinfer_kernels::ops::{self, AttendRow, Ctx, Linear, Run, Turned};
use rinfer_kernels::{Act, Kernels, Team};

/// A loaded model on the CPU.
pub struct CpuExecutor {
    ctx: Ctx,
    plan: Plan,
    scratch: Scratch,
    turned: Turned,
    state: Pages,
    limits: Limits,
    layers: usize,
    pools: bool,
    clock: Clock,
    flow: Flow,
    /// Of the batch at hand.
    ids: Vec<u32>,
    /// By row: whether it is of a pair's second text.
    types: Vec<u32>,
    rows: Vec<AttendRow>,
    runs: Vec<Run>,
    wanted: Vec<usize>,
}

/// What one pass's operations share.
pub(crate) struct Pass<'a> {
    /// Who computes.
    pub ctx: &'a Ctx,
    /// Where each row stands.
    pub rows: &'a [AttendRow],
    /// By slot: the length of the prompt that its sequence began with.
    pub prompts: &'a [usize],
    /// How each sequence's recurrent states go on.
    pub runs: &'a [Run],
    /// By group of layers: which pages the sequences' positions lie in.
    pub groups: &'a [Group],
    /// Keys and values.
    pub cache: &'a mut Cache,
    /// Recurrent states.
    pub recurrent: &'a mut Recurrent,
    /// Where the time goes.
    pub clock: &'a mut Clock,
    /// Which weights come and go.
    pub flow: &'a mut Flow,
    /// Inputs in the orders of single matrices.
    pub turned: &'a Turned,
    /// What becomes of further streams.
    pub altup: Option<&'a AltUpSteps>,
}

impl Pass<'_> {
    /// [`ops::linear_in_orders`], counted.
    pub fn linear(&mut self, kind: Kind, x: &mut Act, jobs: &mut [Linear<'_>]) {
        ops::linear_in_orders(self.ctx, x, jobs, self.turned);
        self.clock.products(kind, x.rows(), jobs.iter().map(|job| job.weights));
        self.clock.lap(kind);
    }
}

impl CpuExecutor {
    /// Packs the weights and allocates what a forward needs.
    pub(crate) fn load(
        spec: &ModelSpec,
        weights: &dyn Weights,
        limits: &Limits,
        threads: usize,
        kernels: &'static Kernels,
    ) -> Result<CpuExecutor, LoadError> {
        let ctx = Ctx { team: Team::new(threads), kernels };
        let packer = Packer::new(spec, weights, limits, &ctx.team);
        Ok(CpuExecutor {
            plan: Plan::new(spec, &packer)?,
            scratch: Scratch::new(spec, packer.orders(), limits, ctx.team.threads()),
            turned: turned(packer.orders(), limits),
            state: Pages::new(spec, limits),
            limits: limits.clone(),
            layers: spec.layers.len(),
            pools: matches!(spec.head, Head::Pool { .. }),
            clock: Clock::default(),
            flow: Flow::new(spec, weights, limits),
            ids: Vec::with_capacity(limits.batch),
            types: Vec::with_capacity(limits.batch),
            rows: Vec::with_capacity(limits.batch),
            runs: Vec::with_capacity(limits.slots),
            wanted: Vec::with_capacity(limits.batch),
            ctx,
        })
    }

    /// What it holds.
    pub fn memory(&self) -> Memory {
        let (weights, state) = (self.plan.bytes(), self.state.bytes());
        Memory { weights, state, scratch: self.scratch.bytes() + self.turned.bytes() }
    }

    /// Runs of the team so far, if it has several threads.
    pub fn runs(&self) -> u64 {
        self.ctx.team.runs()
    }

    /// Notes what the batch's rows are, and makes pages for them.
    fn admit(&mut self, batch: &Batch) {
        assert!(batch.rows.len() <= self.limits.batch, "the batch has too many rows");
        self.ids.clear();
        self.types.clear();
        self.rows.clear();
        self.runs.clear();
        self.wanted.clear();
        self.ids.extend(batch.rows.iter().map(|row| match row {
            Row::Token(id) | Row::Second(id) => id.0,
            Row::Image(_) => panic!("this model takes no images"),
        }));
        let second = |row: &Row| u32::from(matches!(row, Row::Second(_)));
        self.types.extend(batch.rows.iter().map(second));
        for span in &batch.seqs {
            let table = span.slot.0 as usize;
            assert!(span.len > 0 && span.past == self.state.len(span.slot), "a span out of place");
            let whole = span.past == 0 && span.want == Want::Last;
            assert!(whole || !self.pools, "a vector is made of a whole sequence");
            let from = self.rows.len();
            self.runs.push(Run { row: from, ..self.state.extend(span.slot, span.len) });
            self.rows.extend((0..span.len).map(|i| AttendRow { table, pos: span.past + i }));
            self.wanted.extend(match span.want {
                Want::Nothing => 0..0,
                Want::Last => self.rows.len() - 1..self.rows.len(),
                Want::Every => from..self.rows.len(),
            });
        }
        assert_eq!(self.rows.len(), self.ids.len(), "spans and rows disagree");
    }
}

impl backend::Executor for CpuExecutor {
    fn forward(&mut self, batch: &Batch, out: &mut Logits) -> Result<(), DeviceError> {
        out.vocab = self.scratch.end.width();
        out.data.clear();
        if batch.rows.is_empty() {
            return Ok(());
        }
        self.clock.start();
        self.admit(batch);
        self.clock.lap(Kind::Other);
        let (prompts, groups, cache, recurrent) = self.state.parts();
        let (ctx, rows, runs, clock) = (&self.ctx, &self.rows, &self.runs, &mut self.clock);
        let (flow, turned, altup) = (&mut self.flow, &self.turned, self.plan.altup.as_ref());
        let mut pass =
            Pass { ctx, rows, prompts, runs, groups, cache, recurrent, clock, flow, turned, altup };
        layers(&self.plan, (&self.ids, &self.types), &mut pass, &mut self.scratch);
        pass.flow.enter(self.layers);
        let Plan { end, embed, .. } = &self.plan;
        let Scratch { stream, end: buffers, .. } = &mut self.scratch;
        end.run(&mut pass, &embed.table, stream, &self.wanted, buffers, &mut out.data);
        pass.flow.leave();
        Ok(())
    }
    fn state(&mut self) -> &mut dyn State {
        &mut self.state
    }
    fn profile(&mut self, on: bool) -> Option<Profile> {
        Some(self.clock.take(on))
    }
}

/// From tokens to the stream after the last layer.
fn layers(plan: &Plan, tokens: (&[u32], &[u32]), pass: &mut Pass<'_>, s: &mut Scratch) {
    let ids = tokens.0;
    for angles in &mut s.angles {
        angles.fill(pass.rows, pass.prompts);
    }
    pass.clock.lap(Kind::Rotate);
    plan.embed.run(pass, tokens, &mut s.places, &mut s.branch, &mut s.stream);
    if plan.reads_tokens() {
        s.wide.resize(s.stream.rows());
        let d = s.stream.cols();
        (0..ids.len()).for_each(|i| s.wide.row_mut(i)[d..].copy_from_slice(s.stream.row(i)));
    }
    if let Some((per_layer, b)) = plan.per_layer.as_ref().zip(s.per_layer.as_mut()) {
        per_layer.run(pass, ids, &s.stream, &mut s.input, b);
    }
    if let Some((altup, b)) = plan.altup.as_ref().zip(s.altup.as_mut()) {
        altup.expand(pass, &s.stream, &mut s.input, b);
    }
    for steps in plan.steps.chunk_by(|a, b| a.layer == b.layer) {
        pass.flow.enter(steps[0].layer);
        branch::layer(steps, pass, s);
    }
    if let Some((altup, b)) = plan.altup.as_ref().zip(s.altup.as_mut()) {
        altup.average(pass, &mut s.stream, &mut s.input, b);
    }
}
