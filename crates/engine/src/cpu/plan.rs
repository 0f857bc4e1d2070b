//! A spec and its weights, resolved once to the steps of a forward pass.
use super::adapter::Own;
use super::altup::{AltUpSteps, Turn};
use super::attention::AttentionStep;
use super::embed::EmbedStep;
use super::end::End;
use super::laurel::LaurelStep;
use super::mla::MlaStep;
use super::mlp::MlpStep;
use super::moe::MoeStep;
use super::order::Order;
use super::pack::Packer;
use super::per_layer::{GateStep, PerLayerStep};
use super::recurrent::RecurrentStep;
use crate::backend::LoadError;
use crate::spec::{Branch, ModelSpec, Norm, NormKind, Op, Reads, Skip, Then};
use crate::weights::{Owner, branch_norms, layer, part_norms};
use rinfer_kernels::layout::Reads as Activations;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{self, Linear, Product};
use rinfer_kernels::{Mat, Packed};
use std::collections::HashMap;
use std::sync::Arc;

/// Everything that a pass reads but state.
pub(crate) struct Plan {
    /// From tokens to the stream.
    pub embed: EmbedStep,
    /// What tokens give each layer besides.
    pub per_layer: Option<PerLayerStep>,
    /// Further streams.
    pub altup: Option<AltUpSteps>,
    /// All layers' branches.
    pub steps: Vec<Step>,
    /// The logits, or sequences' vectors.
    pub end: End,
}

/// One branch.
pub(crate) struct Step {
    /// Whose it is.
    pub layer: usize,
    /// Of the streams, before it.
    pub turn: Option<Turn>,
    /// What it works on.
    pub reads: Reads,
    /// Which other steps may have too.
    pub weights: Arc<BranchWeights>,
    /// By part, what the step alone has.
    pub own: Vec<Own>,
    /// Whether 8-bit activations are read.
    pub q8: bool,
    /// Multiplies what joins the stream.
    pub scale: f32,
    /// What it joins.
    pub skip: Skip,
    /// Multiplies the stream then.
    pub then: f32,
    /// Bytes of what the step alone holds: none of weights that an earlier one has.
    bytes: usize,
}

/// A branch's weights.
pub(crate) struct BranchWeights {
    /// Of what the branch reads.
    pub pre: Option<NormWeights>,
    /// Of what that makes, if it is not the stream's.
    pub order: Option<Order>,
    /// On one input, or each on one that it norms itself.
    pub parts: Vec<PartStep>,
    /// Of the parts' sum.
    pub post: Option<NormWeights>,
}

/// One operation between norms of its own.
pub(crate) struct PartStep {
    /// Of the stream.
    pub pre: Option<NormWeights>,
    /// The operation.
    pub block: Block,
    /// Of its output.
    pub post: Option<NormWeights>,
    /// Multiplies that.
    pub scale: f32,
}

/// One operation.
pub(crate) enum Block {
    Attention(Box<AttentionStep>),
    Mla(Box<MlaStep>),
    Recurrent(RecurrentStep),
    Mlp(Box<MlpStep>),
    Moe(Box<MoeStep>),
    Laurel(Box<LaurelStep>),
    Gate(Box<GateStep>),
    Linear(Projection),
}

impl Plan {
    /// Packs everything. The numbers of buffers and operations are their places in the lists that
    /// [`super::scratch`] and [`crate::state`] make of the same spec.
    pub fn new(spec: &ModelSpec, packer: &Packer<'_>) -> Result<Plan, LoadError> {
        let (mut nth, mut steps) = (0, Vec::new());
        let mut shared = HashMap::new();
        for (i, branches) in spec.layers.iter().enumerate() {
            for (b, branch) in branches.iter().enumerate() {
                let turn = match branch.skip {
                    Skip::Others => Some(Turn::Correct(i)),
                    _ => (spec.altup.is_some() && b == 0).then_some(Turn::Predict(i)),
                };
                let key = branch.shared.map(|n| (n, b));
                let known = key.and_then(|key| shared.get(&key).cloned());
                let step = Step::new(spec, i, branch, nth, known, packer)?;
                shared.extend(key.map(|key| (key, Arc::clone(&step.weights))));
                steps.push(Step { turn, ..step });
                nth += branch.parts.len();
            }
        }
        Ok(Plan {
            embed: EmbedStep::new(spec, packer)?,
            per_layer: spec.embed.per_layer.map(|p| PerLayerStep::new(&p, packer)).transpose()?,
            altup: spec.altup.map(|a| AltUpSteps::new(spec, &a, packer)).transpose()?,
            steps,
            end: End::new(spec, packer)?,
        })
    }
    /// Whether a step reads what tokens entered the stream as.
    pub fn reads_tokens(&self) -> bool {
        self.steps.iter().any(|step| step.reads == Reads::StreamAndTokens)
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let ends = self.embed.bytes() + self.end.bytes();
        let beside = self.per_layer.as_ref().map_or(0, PerLayerStep::bytes)
            + self.altup.as_ref().map_or(0, AltUpSteps::bytes);
        ends + beside + self.steps.iter().map(|step| step.bytes).sum::<usize>()
    }
}

impl Step {
    /// Of layer `i`; its first operation is the `nth` of all. `known` are its weights, if an earlier
    /// step has them.
    fn new(
        spec: &ModelSpec,
        i: usize,
        branch: &Branch,
        nth: usize,
        known: Option<Arc<BranchWeights>>,
        packer: &Packer<'_>,
    ) -> Result<Step, LoadError> {
        let (weights, mut bytes) = match known {
            Some(weights) => (weights, 0),
            None => {
                let weights = BranchWeights::new(spec, i, branch, nth, packer)?;
                let bytes = weights.bytes();
                (Arc::new(weights), bytes)
            }
        };
        let own = branch
            .parts
            .iter()
            .enumerate()
            .map(|(at, part)| Own::new(spec, Owner::of(i, branch), &part.op, nth + at, packer));
        let own: Vec<Own> = own.collect::<Result<_, LoadError>>()?;
        let learned = || packer.vector(&layer(i, "layer_output_scale.weight"));
        let then = match branch.then {
            Then::Nothing => 1.0,
            Then::Scale(by) => by,
            Then::Learned => {
                bytes += 4;
                learned()?[0]
            }
        };
        bytes += own.iter().map(Own::bytes).sum::<usize>();
        let q8 =
            weights.parts.iter().any(|part| part.block.reads_q8()) || own.iter().any(Own::reads_q8);
        let (reads, scale, skip) = (branch.reads, branch.scale, branch.skip);
        Ok(Step { layer: i, turn: None, reads, weights, own, q8, scale, skip, then, bytes })
    }
    /// Whether the one part's output joins the stream as it is, so that its last product can be
    /// added right there.
    pub fn joins_as_is(&self) -> bool {
        let bare = self.weights.post.is_none() && self.scale == 1.0;
        let stream = self.skip == Skip::Stream && self.then == 1.0;
        bare && stream && matches!(&self.weights.parts[..], [part] if part.joins_as_is())
    }
}

impl BranchWeights {
    fn new(
        spec: &ModelSpec,
        i: usize,
        branch: &Branch,
        nth: usize,
        packer: &Packer<'_>,
    ) -> Result<BranchWeights, LoadError> {
        let owner = Owner::of(i, branch);
        let (pre, post) = branch_norms(branch);
        let norm = |norm: &Option<Norm>, name| {
            NormWeights::new(norm.as_ref(), &layer(owner, name), packer)
        };
        let parts = branch.parts.iter().enumerate().map(|(at, part)| {
            let (pre, post) = part_norms(branch, at);
            Ok(PartStep {
                pre: norm(&part.pre, pre)?,
                block: Block::new(spec, (i, owner), &part.op, nth + at, packer)?,
                post: norm(&part.post, post)?,
                scale: part.scale,
            })
        });
        Ok(BranchWeights {
            parts: parts.collect::<Result<_, LoadError>>()?,
            pre: norm(&branch.pre, pre)?,
            order: packer.order(&layer(owner, pre)),
            post: norm(&branch.post, post)?,
        })
    }
    fn bytes(&self) -> usize {
        let norms = [&self.pre, &self.post].into_iter().flatten().map(NormWeights::bytes);
        let order = self.order.as_ref().map_or(0, |order| size_of_val(&order[..]));
        order + norms.chain(self.parts.iter().map(PartStep::bytes)).sum::<usize>()
    }
}

impl PartStep {
    /// Whether the operation's output joins the branch's sum as it is.
    pub fn joins_as_is(&self) -> bool {
        self.post.is_none() && self.scale == 1.0
    }
    fn bytes(&self) -> usize {
        let norms = [&self.pre, &self.post].into_iter().flatten().map(NormWeights::bytes);
        norms.chain([self.block.bytes()]).sum()
    }
}

impl Block {
    fn new(
        spec: &ModelSpec,
        (i, owner): (usize, Owner),
        op: &Op,
        nth: usize,
        packer: &Packer<'_>,
    ) -> Result<Block, LoadError> {
        match op {
            Op::Attention(a) => {
                AttentionStep::new(spec, owner, a, packer).map(|a| Block::Attention(a.into()))
            }
            Op::Mla(m) => MlaStep::new(spec, i, m, nth, packer).map(|m| Block::Mla(m.into())),
            Op::Mlp(m) => MlpStep::new(spec, owner, "", m, packer).map(|m| Block::Mlp(m.into())),
            Op::Moe(m) => MoeStep::new(spec, i, m, packer).map(|m| Block::Moe(m.into())),
            Op::Laurel(l) => LaurelStep::new(spec, i, l, packer).map(|l| Block::Laurel(l.into())),
            Op::InputGate(g) => GateStep::new(i, g, packer).map(|g| Block::Gate(g.into())),
            Op::Linear => Projection::new(&layer(i, "linear"), false, packer).map(Block::Linear),
            other => match RecurrentStep::new(spec, i, other, nth, packer)? {
                Some(r) => Ok(Block::Recurrent(r)),
                None => Err(LoadError::Unsupported(format!("{other:?}"))),
            },
        }
    }
    fn reads_q8(&self) -> bool {
        match self {
            Block::Attention(a) => a.reads_q8(),
            Block::Mla(m) => m.reads_q8(),
            Block::Recurrent(r) => r.reads_q8(),
            Block::Mlp(m) => m.reads_q8(),
            Block::Moe(m) => m.reads_q8(),
            Block::Laurel(l) => l.reads_q8(),
            Block::Gate(g) => g.reads_q8(),
            Block::Linear(l) => l.reads_q8(),
        }
    }
    fn bytes(&self) -> usize {
        match self {
            Block::Attention(a) => a.bytes(),
            Block::Mla(m) => m.bytes(),
            Block::Recurrent(r) => r.bytes(),
            Block::Mlp(m) => m.bytes(),
            Block::Moe(m) => m.bytes(),
            Block::Laurel(l) => l.bytes(),
            Block::Gate(g) => g.bytes(),
            Block::Linear(l) => l.bytes(),
        }
    }
}

/// A norm and its parameters.
pub(crate) struct NormWeights {
    kind: ops::NormKind,
    eps: f32,
    weight: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
}

impl NormWeights {
    /// The norm called `name`, if there is one.
    pub fn new(
        norm: Option<&Norm>,
        name: &str,
        packer: &Packer<'_>,
    ) -> Result<Option<NormWeights>, LoadError> {
        let Some(norm) = norm else { return Ok(None) };
        let vector = |part| packer.vector(&format!("{name}.{part}"));
        Ok(Some(NormWeights {
            weight: norm.weight.then(|| vector("weight")).transpose()?,
            bias: norm.bias.then(|| vector("bias")).transpose()?,
            ..NormWeights::of(norm, None)
        }))
    }
    /// A norm with these weights and no bias.
    pub fn of(norm: &Norm, weight: Option<Vec<f32>>) -> NormWeights {
        let kind = match norm.kind {
            NormKind::Rms => ops::NormKind::Rms,
            NormKind::Layer => ops::NormKind::Layer,
            NormKind::None => ops::NormKind::None,
        };
        NormWeights { kind, eps: norm.eps, weight, bias: None }
    }
    /// The same, its output multiplied.
    pub fn scaled(mut self, by: f32) -> NormWeights {
        self.weight.iter_mut().flatten().for_each(|w| *w *= by);
        self
    }
    /// What the kernels take.
    pub fn view(&self) -> ops::Norm<'_> {
        ops::Norm {
            kind: self.kind,
            eps: self.eps,
            weight: self.weight.as_deref(),
            bias: self.bias.as_deref(),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        4 * [&self.weight, &self.bias].into_iter().flatten().map(Vec::len).sum::<usize>()
    }
}

/// A projection and its bias.
pub(crate) struct Projection {
    weights: Packed,
    bias: Option<Vec<f32>>,
}

impl Projection {
    /// The projection called `name`.
    pub fn new(name: &str, bias: bool, packer: &Packer<'_>) -> Result<Projection, LoadError> {
        let bias = bias.then(|| packer.vector(&format!("{name}.bias"))).transpose()?;
        let weights = packer.matrix(&format!("{name}.weight"))?;
        let weights = match packer.order(name) {
            Some(order) => weights.in_order(order),
            None => weights,
        };
        Ok(Projection { weights, bias })
    }
    /// Those that lie one after another in the tensor called `name`.
    pub fn stack(name: &str, packer: &Packer<'_>) -> Result<Vec<Projection>, LoadError> {
        let all = packer.stack(&format!("{name}.weight"))?;
        Ok(all.into_iter().map(|weights| Projection { weights, bias: None }).collect())
    }
    /// What [`ops::linear`] takes.
    pub fn job<'a>(&'a self, out: &'a mut Mat, store: Store) -> Linear<'a> {
        Linear { weights: &self.weights, bias: self.bias.as_deref(), store, out }
    }
    /// What a chain takes.
    pub fn to<'a>(&'a self, out: Slot<'a>, store: Store) -> Product<'a> {
        (self.weights(), store, out)
    }
    /// Weights and bias.
    pub fn weights(&self) -> (&Packed, Option<&[f32]>) {
        (&self.weights, self.bias.as_deref())
    }
    /// Whether it multiplies 8-bit activations.
    pub fn reads_q8(&self) -> bool {
        q8(&self.weights)
    }
    /// Whether that is its input in the order that it lies in.
    pub fn reads_q8_as_is(&self) -> bool {
        self.reads_q8() && !self.gathers()
    }
    /// Whether its input is gathered in its order.
    pub fn gathers(&self) -> bool {
        self.weights.order().is_some()
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let order = self.weights.order().map_or(0, size_of_val);
        self.weights.bytes().len() + order + self.bias.as_ref().map_or(0, |b| 4 * b.len())
    }
}

/// Whether a matrix multiplies 8-bit activations.
pub(crate) fn q8(weights: &Packed) -> bool {
    weights.layout().reads() == Activations::Q8
}
