//! The feed-forward network.
use super::adapter::Own;
use super::executor::Pass;
use super::order::Orders;
use super::pack::Packer;
use super::plan::Projection;
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Act as Function, Mlp, ModelSpec, Op};
use crate::weights::{Owner, layer};
use rinfer_kernels::Act;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Ends, Gated, Glu, MlpBranch, MlpBuffers};

/// One MLP, resolved.
pub(crate) struct MlpStep {
    act: Glu,
    sparsity: Option<f32>,
    gate: Option<Projection>,
    up: Projection,
    down: Projection,
    buffers: usize,
}

impl MlpStep {
    /// Layer `i`'s MLP, or a shared one, whose tensors' names end with `suffix`.
    pub fn new(
        spec: &ModelSpec,
        i: Owner,
        suffix: &str,
        m: &Mlp,
        packer: &Packer<'_>,
    ) -> Result<MlpStep, LoadError> {
        let name = |part| layer(i, &format!("{part}{suffix}"));
        let project = |part| Projection::new(&name(part), m.bias, packer);
        Ok(MlpStep {
            act: function(m),
            sparsity: m.sparsity,
            gate: m.gated.then(|| project("ffn_gate")).transpose()?,
            up: project("ffn_up")?,
            down: project("ffn_down")?,
            buffers: {
                let orders = packer.orders();
                place(&shapes(spec, orders), &shape(m, i, suffix, orders), PartialEq::eq)
            },
        })
    }

    /// From the stream or an input through the MLP.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        own: Option<&Own>,
        buffers: &mut [Buffers],
        mut ends: Ends<'_>,
    ) {
        let Buffers { products, low } = &mut buffers[self.buffers];
        let first = self.gate.as_ref().unwrap_or(&self.up);
        let second = self.gate.is_some().then_some(&self.up);
        let adapter = own.and_then(|own| own.adapters.first());
        let made = adapter.is_some() || first.gathers() || second.is_some_and(Projection::gathers);
        if made {
            pass.input(&mut ends);
            let [gate, up] = products.products();
            pass.linear(Kind::Projections, ends.input, &mut [first.job(gate, Store::Set)]);
            if let Some(second) = second {
                pass.linear(Kind::Projections, ends.input, &mut [second.job(up, Store::Set)]);
            }
            match (adapter, low, second) {
                (Some(adapter), Some(low), Some(_)) => {
                    adapter.run(pass, ends.input, low, [gate, up]);
                }
                (Some(adapter), Some(low), None) => adapter.run(pass, ends.input, low, [gate]),
                _ => {}
            }
        }
        let up = second.map(Projection::weights);
        let how = MlpBranch {
            made,
            unit: Gated { act: self.act, gate: first.weights(), up },
            sparsity: self.sparsity,
            down: self.down.weights(),
        };
        pass.clock.products(Kind::Projections, pass.rows.len(), how.weights().map(|(w, _)| w));
        pass.clock.watched(|watch| ops::mlp_branch(pass.ctx, &how, products, ends, watch));
    }

    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.up.reads_q8() || self.gate.as_ref().is_some_and(Projection::reads_q8)
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let gate = self.gate.as_ref().map_or(0, Projection::bytes);
        gate + self.up.bytes() + self.down.bytes()
    }
}

/// How the kernels spell an MLP's activation.
pub(crate) fn function(m: &Mlp) -> Glu {
    match m.act {
        Function::Silu if m.gate_scale != 1.0 => Glu::SiluScaled(m.gate_scale),
        act => glu(act),
    }
}

/// How the kernels spell it.
pub(super) fn glu(act: Function) -> Glu {
    match act {
        Function::Silu => Glu::Silu,
        Function::GeluTanh => Glu::GeluTanh,
        Function::Gelu => Glu::Gelu,
        Function::Relu => Glu::Relu,
        Function::Relu2 => Glu::Relu2,
        Function::SiluClamped { limit } => Glu::ClampedGelu { limit },
        Function::XIelu { positive, negative, beta, bound } => {
            Glu::Xielu { p: positive, n: negative, beta, eps: bound }
        }
    }
}

/// What an MLP writes on the way, shared by all of one shape.
pub(crate) struct Buffers {
    products: MlpBuffers,
    /// Of adapters.
    low: Option<Act>,
}

impl Buffers {
    /// For batches of up to `rows` rows, on `threads` threads.
    pub fn new(shape: Shape, rows: usize, threads: usize) -> Buffers {
        let Shape { d_ff, whole, rank } = shape;
        Buffers {
            products: MlpBuffers::new(d_ff, whole || rank.is_some(), rows, threads),
            low: rank.map(|rank| Act::new(rows, rank)),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.products.bytes() + self.low.as_ref().map_or(0, Act::bytes)
    }
}

/// What MLPs that share buffers have in common.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    d_ff: usize,
    /// Whether gates are looked at whole, or made each by itself.
    whole: bool,
    /// Of an adapter.
    rank: Option<usize>,
}

/// The distinct shapes of a model's MLPs, shared experts among them.
pub(crate) fn shapes(spec: &ModelSpec, orders: &Orders) -> Vec<Shape> {
    let branches = spec.layers.iter().enumerate();
    let branches = branches.flat_map(|(i, all)| all.iter().map(move |b| (Owner::of(i, b), b)));
    let parts = branches.flat_map(|(owner, b)| b.parts.iter().map(move |part| (owner, &part.op)));
    let of = |(owner, op): (Owner, &Op)| match op {
        Op::Mlp(m) => Some(shape(m, owner, "", orders)),
        Op::Moe(m) => m.shared.as_ref().map(|s| shape(&s.mlp, owner, "_shexp", orders)),
        _ => None,
    };
    distinct(parts.filter_map(of), PartialEq::eq)
}

fn shape(m: &Mlp, owner: Owner, suffix: &str, orders: &Orders) -> Shape {
    let rank = m.adapter.map(|adapter| adapter.rank);
    let name = |part: &str| layer(owner, &format!("{part}{suffix}"));
    let gathers = inputs(m).any(|part| orders.made(&name(part)).is_some());
    Shape { d_ff: m.d_ff, whole: m.sparsity.is_some() || gathers, rank }
}

/// What multiplies an MLP's input.
pub(super) fn inputs(m: &Mlp) -> impl Iterator<Item = &'static str> {
    m.gated.then_some("ffn_gate").into_iter().chain(["ffn_up"])
}
