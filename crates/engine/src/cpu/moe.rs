//! Mixtures of experts: a router's choice, the chosen experts, and one that every row visits.
use super::branch::Line;
use super::mlp::{self, MlpStep};
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::router::{Chooser, sigmoid};
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{ModelSpec, Moe, Norm, Op, RouterInput, Shared};
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{Choice, Choices, Experts, ExpertsScratch, Plain, Stack, Stage, Weighs};
use rinfer_kernels::{Act, Mat};

/// One mixture, resolved.
pub(crate) struct MoeStep {
    layer: usize,
    router: Projection,
    /// Of the stream, if that is what the router reads.
    router_norm: Option<NormWeights>,
    chooser: Chooser,
    weighs: Weighs,
    experts: Experts,
    shared: Option<SharedStep>,
    buffers: usize,
}

struct SharedStep {
    mlp: MlpStep,
    gate: Option<Projection>,
}

impl MoeStep {
    /// Layer `i`'s mixture.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        m: &Moe,
        packer: &Packer<'_>,
    ) -> Result<MoeStep, LoadError> {
        let how = &m.router;
        let vector = |has: bool, part| has.then(|| packer.vector(&layer(i, part))).transpose();
        let stack = |part| -> Result<Stack, LoadError> {
            let name = layer(i, part);
            let bias = m.expert.bias.then(|| packer.vector(&format!("{name}.bias"))).transpose()?;
            Ok(Stack::new(packer.stack(&format!("{name}.weight"))?, bias))
        };
        let (gate, up) = if m.expert.gated {
            (stack("ffn_gate_exps")?, Some(stack("ffn_up_exps")?))
        } else {
            (stack("ffn_up_exps")?, None)
        };
        let act = mlp::function(&m.expert);
        let first = if m.expert.gated { "ffn_gate_exps" } else { "ffn_up_exps" };
        let orders = packer.expert_orders(&layer(i, first), m.experts);
        let shared = m.shared.as_ref().map(|s| SharedStep::new(spec, i, s, packer)).transpose()?;
        Ok(MoeStep {
            layer: i,
            router: Projection::new(&layer(i, "ffn_gate_inp"), how.bias, packer)?,
            router_norm: router_norm(i, how.input, packer)?,
            chooser: Chooser {
                how: how.clone(),
                select_bias: vector(how.select_bias, "exp_probs_b.bias")?,
                expert_scale: vector(how.expert_scale, "ffn_down_exps.scale")?,
            },
            weighs: if how.weighs_input { Weighs::Input } else { Weighs::Output },
            experts: Experts { act, gate, up, down: stack("ffn_down_exps")?, orders },
            shared,
            buffers: place(&shapes(spec), &m, same),
        })
    }

    /// Whether it has an expert that every row visits.
    pub fn shares(&self) -> bool {
        self.shared.is_some()
    }

    /// Adds `out (+)= moe(x)`, by what each row chooses by `x` or the stream that it was made of.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (buffers, mlps): (&'a mut [Buffers], Option<&'a mut [mlp::Buffers]>),
        (x, stream): (&mut ActSlot<'a>, Slot<'a>),
        (out, store): (Slot<'a>, Store),
    ) {
        let (ctx, n) = (line.chain.ctx(), line.rows.len());
        let b = &mut buffers[self.buffers];
        let (logits, choices) = (b.logits.lend(n), Choices::lend(&mut b.choices[..n * b.top_k], n));
        let mut of_stream = *x;
        if let Some(norm) = &self.router_norm {
            of_stream = b.input.lend(ctx, n, self.router.reads_q8_as_is());
            line.chain.norm(Some(norm.view()), None, stream, of_stream);
        }
        let from = if self.router_norm.is_some() { &mut of_stream } else { &mut *x };
        line.products(Stage::Router, from, &[Some(self.router.to(logits, Store::Set))]);
        line.chain.route(&self.chooser, logits, choices);
        self.visit(line, choices);
        let routes = (choices, self.weighs);
        line.chain.experts(&self.experts, *x, routes, &mut b.scratch, out, store);
        let Some((shared, mlps)) = self.shared.as_ref().zip(mlps) else { return };
        let Some(gate) = &shared.gate else {
            return shared.mlp.add(line, None, mlps, x, (out, Store::Add));
        };
        let (gates, given) = (b.gate.lend(n), b.shared.lend(n));
        line.products(Stage::Router, x, &[Some(gate.to(gates, Store::Set))]);
        line.chain.plain(Stage::Router, Plain::Of(sigmoid), gates);
        shared.mlp.add(line, None, mlps, x, (given, Store::Set));
        line.chain.weighted(Stage::Experts, given, gates, out);
    }

    /// Looks at what rows choose, if someone is to know before they visit: what comes from a file only
    /// then, and who counts.
    fn visit<'a>(&self, line: &mut Line<'a>, choices: Choices<'a>) {
        if !line.flow.visits() && !line.clock.on() {
            return;
        }
        line.run();
        line.flow.visit(self.layer, choices.iter().map(|choice| choice.expert as usize));
        for expert in 0..self.experts.gate.weights().len() {
            let rows = choices.iter().filter(|choice| choice.expert as usize == expert).count();
            let weights = self.experts.stacks().map(|s| &s.weights()[expert]);
            line.clock.products(Kind::Experts, rows, weights.filter(|_| rows > 0));
        }
    }

    /// Whether the input's 8-bit form is read. (Experts make their own, of what they gather; but one
    /// row is read where it lies.)
    pub fn reads_q8(&self) -> bool {
        self.experts.reads_q8() || self.shared.as_ref().is_some_and(|s| s.mlp.reads_q8())
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let vectors = [&self.chooser.select_bias, &self.chooser.expert_scale].into_iter().flatten();
        let norm = self.router_norm.as_ref().map_or(0, NormWeights::bytes);
        let shared = self.shared.as_ref().map_or(0, SharedStep::bytes);
        let orders = self.experts.orders.iter().map(|order| size_of_val(&order[..]));
        let experts = self.experts.stacks().map(Stack::bytes).chain(orders).sum::<usize>();
        let vectors: usize = vectors.map(|v| 4 * v.len()).sum();
        self.router.bytes() + vectors + norm + experts + shared
    }
}

impl SharedStep {
    fn new(
        spec: &ModelSpec,
        i: usize,
        s: &Shared,
        packer: &Packer<'_>,
    ) -> Result<SharedStep, LoadError> {
        let gate = || Projection::new(&layer(i, "ffn_gate_inp_shexp"), false, packer);
        Ok(SharedStep {
            mlp: MlpStep::new(spec, i.into(), "_shexp", &s.mlp, packer)?,
            gate: s.sigmoid_gate.then(gate).transpose()?,
        })
    }
    fn bytes(&self) -> usize {
        self.mlp.bytes() + self.gate.as_ref().map_or(0, Projection::bytes)
    }
}

/// The norm that makes a router's input of the stream, its factor within the weight.
fn router_norm(
    i: usize,
    input: RouterInput,
    packer: &Packer<'_>,
) -> Result<Option<NormWeights>, LoadError> {
    let RouterInput::Stream { eps, scale } = input else { return Ok(None) };
    let mut weight = packer.vector(&layer(i, "ffn_gate_inp.scale"))?;
    weight.iter_mut().for_each(|w| *w *= scale);
    Ok(Some(NormWeights::of(&Norm::rms(eps), Some(weight))))
}

/// What a mixture writes on the way, shared by all of one shape.
pub(crate) struct Buffers {
    top_k: usize,
    /// What the router reads, where that is not what the experts do.
    input: Act,
    logits: Mat,
    choices: Vec<Choice>,
    scratch: ExpertsScratch,
    /// Of the shared expert, where it is gated.
    gate: Mat,
    shared: Mat,
}

impl Buffers {
    /// For batches of up to `rows` rows, on `threads` threads.
    pub fn new(m: &Moe, d_model: usize, rows: usize, threads: usize) -> Buffers {
        let (counts, widths) = ([m.experts, m.top_k], [d_model, m.expert.d_ff]);
        let of_stream = if m.router.input == RouterInput::Same { 0 } else { rows };
        let gated = if m.shared.as_ref().is_some_and(|s| s.sigmoid_gate) { rows } else { 0 };
        Buffers {
            top_k: m.top_k,
            input: Act::new(of_stream, d_model),
            logits: Mat::new(rows, m.experts),
            choices: vec![Choice::default(); rows * m.top_k],
            scratch: ExpertsScratch::new(rows, counts, widths, threads),
            gate: Mat::new(gated, 1),
            shared: Mat::new(gated, d_model),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let router = self.input.bytes() + self.logits.bytes() + size_of_val(&self.choices[..]);
        router + self.scratch.bytes() + self.gate.bytes() + self.shared.bytes()
    }
}

/// The distinct shapes of a model's mixtures.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<&Moe> {
    distinct(spec.ops().filter_map(|op| if let Op::Moe(m) = op { Some(m) } else { None }), same)
}

/// Whether two mixtures need the same buffers.
fn same(a: &&Moe, b: &&Moe) -> bool {
    let of = |m: &Moe| {
        let gated = m.shared.as_ref().is_some_and(|s| s.sigmoid_gate);
        (m.experts, m.top_k, m.expert.d_ff, m.router.input == RouterInput::Same, gated)
    };
    of(a) == of(b)
}
