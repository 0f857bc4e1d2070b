//! Walks the plan: one batch in, the wanted rows' logits out.
use super::pack::Packer;
use super::plan::{Block, NormWeights, Plan, Step};
use super::scratch::Scratch;
use crate::backend::{self, DeviceError, Limits, LoadError, State};
use crate::batch::{Batch, Logits, Row, Want};
use crate::size::Memory;
use crate::spec::ModelSpec;
use crate::state::{Cache, Group, Pages};
use rinfer_formats::Weights;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, AttendRow, Ctx, Residual};
use rinfer_kernels::{Kernels, Team};

/// A loaded model on the CPU.
pub struct CpuExecutor {
    ctx: Ctx,
    plan: Plan,
    scratch: Scratch,
    state: Pages,
    limits: Limits,
    /// Of the batch at hand.
    ids: Vec<u32>,
    rows: Vec<AttendRow>,
    wanted: Vec<usize>,
}

/// What one pass's operations share.
pub(crate) struct Pass<'a> {
    /// Who computes.
    pub ctx: &'a Ctx,
    /// Where each row stands.
    pub rows: &'a [AttendRow],
    /// By group of layers: which pages the sequences' positions lie in.
    pub groups: &'a [Group],
    /// Keys and values.
    pub cache: &'a mut Cache,
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
            ids: Vec::with_capacity(limits.batch),
            rows: Vec::with_capacity(limits.batch),
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
        self.wanted.clear();
        self.ids.extend(batch.rows.iter().map(|row| match row {
            Row::Token(id) => id.0,
            Row::Image(_) => panic!("this model takes no images"),
        }));
        for span in &batch.seqs {
            let table = span.slot.0 as usize;
            assert!(span.len > 0 && span.past == self.state.len(span.slot), "a span out of place");
            self.state.extend(span.slot, span.len);
            let from = self.rows.len();
            self.rows.extend((0..span.len).map(|i| AttendRow { table, pos: span.past + i }));
            self.wanted.extend(match span.want {
                Want::Nothing => 0..0,
                Want::Last => self.rows.len() - 1..self.rows.len(),
                Want::Every => from..self.rows.len(),
            });
        }
        assert_eq!(self.rows.len(), self.ids.len(), "spans and rows disagree");
    }

    fn layers(&mut self) {
        let s = &mut self.scratch;
        for angles in &mut s.angles {
            angles.fill(&self.rows);
        }
        ops::embed(&self.ctx, &self.plan.embed, &self.ids, self.plan.embed_scale, &mut s.stream);
        let (groups, cache) = self.state.tables();
        let mut pass = Pass { ctx: &self.ctx, rows: &self.rows, groups, cache };
        for step in &self.plan.steps {
            let pre = step.pre.as_ref().map(NormWeights::view);
            ops::norm(pass.ctx, pre.as_ref(), &s.stream, &mut s.input, step.q8);
            branch(step, &mut pass, s);
        }
    }
}

impl backend::Executor for CpuExecutor {
    fn forward(&mut self, batch: &Batch, out: &mut Logits) -> Result<(), DeviceError> {
        out.vocab = self.scratch.head.vocab();
        out.data.clear();
        if batch.rows.is_empty() {
            return Ok(());
        }
        self.admit(batch);
        self.layers();
        let Plan { head, embed, .. } = &self.plan;
        let Scratch { stream, head: buffers, .. } = &mut self.scratch;
        head.run(&self.ctx, embed, stream, &self.wanted, buffers, &mut out.data);
        Ok(())
    }
    fn state(&mut self) -> &mut dyn State {
        &mut self.state
    }
}

/// Adds a branch's share of its input to the stream.
fn branch(step: &Step, pass: &mut Pass<'_>, s: &mut Scratch) {
    let as_is = step.joins_as_is();
    let out = if as_is { &mut s.stream } else { &mut s.branch };
    for (i, block) in step.blocks.iter().enumerate() {
        let store = if as_is || i > 0 { Store::Add } else { Store::Set };
        match block {
            Block::Attention(a) => {
                a.run(pass, &s.angles, &mut s.attention, &mut s.input, out, store);
            }
            Block::Mlp(m) => m.run(pass, &mut s.mlp, &mut s.input, out, store),
        }
    }
    if !as_is {
        let how = Residual { post: step.post.as_ref().map(NormWeights::view), scale: step.scale };
        ops::residual(pass.ctx, &how, &mut s.branch, &mut s.stream);
    }
}
