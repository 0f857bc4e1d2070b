//! Walks the plan: one batch in, the wanted rows' logits out.
use super::clock::Clock;
use super::flow::Flow;
use super::pack::Packer;
use super::plan::{Block, NormWeights, PartStep, Plan, Step};
use super::scratch::Scratch;
use crate::backend::{self, DeviceError, Limits, LoadError, State};
use crate::batch::{Batch, Logits, Row, Want};
use crate::profile::{Kind, Profile};
use crate::size::Memory;
use crate::spec::{ModelSpec, Reads, Skip};
use crate::state::{Cache, Group, Pages, Recurrent};
use rinfer_formats::Weights;
use rinfer_kernels::mat::{Rows, Store};
use rinfer_kernels::ops::{
    self, AttendRow, Ctx, Gated, GatedScratch, Linear, PerHead, Residual, Run,
};
use rinfer_kernels::{Act, Kernels, Mat, Team};

/// A loaded model on the CPU.
pub struct CpuExecutor {
    ctx: Ctx,
    plan: Plan,
    scratch: Scratch,
    state: Pages,
    limits: Limits,
    layers: usize,
    clock: Clock,
    flow: Flow,
    /// Of the batch at hand.
    ids: Vec<u32>,
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
}

impl Pass<'_> {
    /// [`ops::linear`], counted.
    pub fn linear(&mut self, kind: Kind, x: &mut Act, jobs: &mut [Linear<'_>]) {
        ops::linear(self.ctx, x, jobs);
        self.clock.products(kind, x.rows(), jobs.iter().map(|job| job.weights));
        self.clock.lap(kind);
    }
    /// [`ops::per_head`], counted.
    pub fn per_head(&mut self, how: &PerHead<'_>, x: Rows<'_>, parts: &mut Act, out: &mut Mat) {
        ops::per_head(self.ctx, how, x, parts, out);
        self.clock.products(Kind::Projections, x.rows(), how.weights);
        self.clock.lap(Kind::Projections);
    }
    /// [`ops::gated`], counted.
    pub fn gated(
        &mut self,
        kind: Kind,
        how: &Gated<'_>,
        x: &mut Act,
        scratch: &mut GatedScratch,
        out: &mut Act,
        q8: bool,
    ) {
        ops::gated(self.ctx, how, x, scratch, out, q8);
        self.clock.products(kind, x.rows(), how.weights().map(|(weights, _)| weights));
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
            scratch: Scratch::new(spec, limits, ctx.team.threads()),
            state: Pages::new(spec, limits),
            limits: limits.clone(),
            layers: spec.layers.len(),
            clock: Clock::default(),
            flow: Flow::new(spec, weights, limits),
            ids: Vec::with_capacity(limits.batch),
            rows: Vec::with_capacity(limits.batch),
            runs: Vec::with_capacity(limits.slots),
            wanted: Vec::with_capacity(limits.batch),
            ctx,
        })
    }

    /// What it holds.
    pub fn memory(&self) -> Memory {
        let (weights, state) = (self.plan.bytes(), self.state.bytes());
        Memory { weights, state, scratch: self.scratch.bytes() }
    }

    /// Notes what the batch's rows are, and makes pages for them.
    fn admit(&mut self, batch: &Batch) {
        assert!(batch.rows.len() <= self.limits.batch, "the batch has too many rows");
        self.ids.clear();
        self.rows.clear();
        self.runs.clear();
        self.wanted.clear();
        self.ids.extend(batch.rows.iter().map(|row| match row {
            Row::Token(id) => id.0,
            Row::Image(_) => panic!("this model takes no images"),
        }));
        for span in &batch.seqs {
            let table = span.slot.0 as usize;
            assert!(span.len > 0 && span.past == self.state.len(span.slot), "a span out of place");
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
        out.vocab = self.scratch.head.vocab();
        out.data.clear();
        if batch.rows.is_empty() {
            return Ok(());
        }
        self.clock.start();
        self.admit(batch);
        self.clock.lap(Kind::Other);
        let (prompts, groups, cache, recurrent) = self.state.parts();
        let (ctx, rows, runs, clock) = (&self.ctx, &self.rows, &self.runs, &mut self.clock);
        let flow = &mut self.flow;
        let mut pass = Pass { ctx, rows, prompts, runs, groups, cache, recurrent, clock, flow };
        layers(&self.plan, &self.ids, &mut pass, &mut self.scratch);
        pass.flow.enter(self.layers);
        let Plan { head, embed, .. } = &self.plan;
        let Scratch { stream, head: buffers, .. } = &mut self.scratch;
        head.run(&mut pass, &embed.table, stream, &self.wanted, buffers, &mut out.data);
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
fn layers(plan: &Plan, ids: &[u32], pass: &mut Pass<'_>, s: &mut Scratch) {
    for angles in &mut s.angles {
        angles.fill(pass.rows, pass.prompts);
    }
    pass.clock.lap(Kind::Rotate);
    plan.embed.run(pass, ids, &mut s.places, &mut s.branch, &mut s.stream);
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
    for step in &plan.steps {
        pass.flow.enter(step.layer);
        if let (Some(turn), Some(altup), Some(b)) = (step.turn, &plan.altup, &mut s.altup) {
            altup.turn(pass, turn, &mut s.stream, b);
        }
        branch(step, pass, s);
    }
    if let Some((altup, b)) = plan.altup.as_ref().zip(s.altup.as_mut()) {
        altup.average(pass, &mut s.stream, &mut s.input, b);
    }
}

/// Adds a branch's share of its input to the stream.
fn branch(step: &Step, pass: &mut Pass<'_>, s: &mut Scratch) {
    let (as_is, weights) = (step.joins_as_is(), &*step.weights);
    for (i, (part, own)) in weights.parts.iter().zip(&step.own).enumerate() {
        if i == 0 || weights.parts.iter().any(|part| part.pre.is_some()) {
            read(step, part.pre.as_ref().or(weights.pre.as_ref()), pass, s);
        }
        if let Block::Moe(m) = &part.block {
            m.route(pass, &mut s.moe, &mut s.input, &s.stream);
        }
        let wide = step.reads == Reads::StreamAndTokens;
        let input = if wide { &mut s.wide_input } else { &mut s.input };
        let (out, store) = if !part.joins_as_is() {
            (&mut s.part, Store::Set)
        } else if as_is {
            (&mut s.stream, Store::Add)
        } else {
            (&mut s.branch, if i > 0 { Store::Add } else { Store::Set })
        };
        match &part.block {
            Block::Attention(a) => {
                a.run(pass, own, (&s.angles, &mut s.attention), input, out, store);
            }
            Block::Mla(m) => m.run(pass, &s.angles, &mut s.latent, input, out, store),
            Block::Recurrent(r) => r.run(pass, &mut s.recurrent, input, out, store),
            Block::Mlp(m) => m.run(pass, Some(own), &mut s.mlp, input, out, store),
            Block::Moe(m) => m.run(pass, (&mut s.moe, &mut s.mlp), input, out, store),
            Block::Laurel(l) => l.run(pass, &mut s.laurel, input, out, store),
            Block::Gate(g) => {
                let b = s.per_layer.as_mut().expect("inputs of layers, since a layer reads them");
                g.run(pass, b, input, out, store);
            }
            Block::Linear(l) => pass.linear(Kind::Projections, input, &mut [l.job(out, store)]),
        }
        if !part.joins_as_is() {
            sum(part, i == 0, pass, s);
        }
    }
    if !as_is {
        join(step, pass, s);
    }
}

/// Norms what a branch works on.
fn read(step: &Step, norm: Option<&NormWeights>, pass: &mut Pass<'_>, s: &mut Scratch) {
    let norm = norm.map(NormWeights::view);
    let (from, to) = match step.reads {
        Reads::Stream => (&s.stream, &mut s.input),
        Reads::Aside => (&s.aside, &mut s.input),
        Reads::StreamAndTokens => {
            let d = s.stream.cols();
            for i in 0..s.stream.rows() {
                s.wide.row_mut(i)[..d].copy_from_slice(s.stream.row(i));
            }
            (&s.wide, &mut s.wide_input)
        }
    };
    match &step.weights.order {
        None => ops::norm(pass.ctx, norm.as_ref(), from, to, step.q8),
        Some(order) => ops::norm_in_order(pass.ctx, norm.as_ref(), order, from, to, step.q8),
    }
    pass.clock.lap(Kind::Norm);
}

/// Adds a part's output to its branch's.
fn sum(part: &PartStep, first: bool, pass: &mut Pass<'_>, s: &mut Scratch) {
    if first {
        s.branch.resize(s.part.rows());
        s.branch.data_mut().fill(0.0);
    }
    let post = part.post.as_ref().map(NormWeights::view);
    let how = Residual { post, scale: part.scale, skip: None, then: 1.0 };
    ops::residual(pass.ctx, &how, &mut s.part, &mut s.branch);
    pass.clock.lap(Kind::Norm);
}

/// Makes the stream of it and a branch's output, or what is set aside.
fn join(step: &Step, pass: &mut Pass<'_>, s: &mut Scratch) {
    let post = step.weights.post.as_ref().map(NormWeights::view);
    let how = Residual { post, scale: step.scale, skip: None, then: step.then };
    match (step.skip, s.altup.as_mut()) {
        (Skip::Others, Some(b)) => {
            let post = how.post.as_ref();
            ops::residual_of_others(pass.ctx, post, step.scale, &mut s.branch, &mut b.all);
        }
        (Skip::Aside { stream }, _) => {
            s.aside.resize(s.branch.rows());
            match stream {
                true => s.aside.data_mut().copy_from_slice(s.stream.data()),
                false => s.aside.data_mut().fill(0.0),
            }
            ops::residual(pass.ctx, &how, &mut s.branch, &mut s.aside);
        }
        (Skip::Input(by), _) => {
            let how = Residual { skip: Some((by, s.input.view())), ..how };
            ops::residual(pass.ctx, &how, &mut s.branch, &mut s.stream);
        }
        _ => ops::residual(pass.ctx, &how, &mut s.branch, &mut s.stream),
    }
    pass.clock.lap(Kind::Norm);
}
