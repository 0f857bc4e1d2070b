//! The feed-forward network.
use super::adapter::Own;
use super::executor::Pass;
use super::pack::Packer;
use super::plan::Projection;
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Act as Function, Mlp, ModelSpec, Op};
use crate::weights::{Owner, layer};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Gated, GatedScratch, Glu};
use rinfer_kernels::{Act, Mat};

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
            buffers: place(&shapes(spec), &shape(m), PartialEq::eq),
        })
    }

    /// `out (+)= mlp(x)`.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        own: Option<&Own>,
        buffers: &mut [Buffers],
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let (ctx, q8) = (pass.ctx, self.down.reads_q8());
        let b = &mut buffers[self.buffers];
        let first = self.gate.as_ref().unwrap_or(&self.up);
        let second = self.gate.is_some().then_some(&self.up);
        let adapter = own.and_then(|own| own.adapters.first());
        if x.rows() > FEW && self.sparsity.is_none() && adapter.is_none() {
            let up = second.map(Projection::weights);
            let how = Gated { act: self.act, gate: first.weights(), up };
            pass.gated(Kind::Projections, &how, x, &mut b.products, &mut b.hidden, q8);
        } else {
            let one = first.job(&mut b.gate, Store::Set);
            if let Some(second) = second {
                let mut jobs = [one, second.job(&mut b.up, Store::Set)];
                pass.linear(Kind::Projections, x, &mut jobs);
            } else {
                pass.linear(Kind::Projections, x, &mut [one]);
            }
            if let (Some(adapter), Some(low)) = (adapter, &mut b.low) {
                match second {
                    Some(_) => adapter.run(pass, x, low, [&mut b.gate, &mut b.up]),
                    None => adapter.run(pass, x, low, [&mut b.gate]),
                }
            }
            if let Some(deviations) = self.sparsity {
                ops::sparsify(ctx, deviations, &mut b.gate);
            }
            ops::glu(ctx, self.act, &b.gate, second.map(|_| &b.up), &mut b.hidden, q8);
            pass.clock.lap(Kind::Glu);
        }
        pass.linear(Kind::Projections, &mut b.hidden, &mut [self.down.job(out, store)]);
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

/// Rows up to which weights are read in one run of memory each; more are computed a few columns at
/// a time, whose products stay in a cache.
const FEW: usize = 16;

/// What an MLP writes on the way, shared by all of one width that have their gates whole or don't.
pub(crate) struct Buffers {
    /// Of few rows, or whole.
    gate: Mat,
    /// The same.
    up: Mat,
    /// Of many rows, unless whole.
    products: GatedScratch,
    hidden: Act,
    /// Of adapters.
    low: Option<Act>,
}

impl Buffers {
    /// For batches of up to `rows` rows, on `threads` threads.
    pub fn new(shape: Shape, rows: usize, threads: usize) -> Buffers {
        let Shape { d_ff, whole, rank } = shape;
        let few = if whole || rank.is_some() { rows } else { rows.min(FEW) };
        Buffers {
            gate: Mat::new(few, d_ff),
            up: Mat::new(few, d_ff),
            products: GatedScratch::new(if rows > few { rows } else { 0 }, threads),
            hidden: Act::new(rows, d_ff),
            low: rank.map(|rank| Act::new(rows, rank)),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let low = self.low.as_ref().map_or(0, Act::bytes);
        self.gate.bytes() + self.up.bytes() + self.products.bytes() + self.hidden.bytes() + low
    }
}

/// What MLPs that share buffers have in common.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    d_ff: usize,
    /// Whether gates are looked at whole.
    whole: bool,
    /// Of an adapter.
    rank: Option<usize>,
}

/// The distinct shapes of a model's MLPs, shared experts among them.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<Shape> {
    let of = |op: &Op| match op {
        Op::Mlp(m) => Some(shape(m)),
        Op::Moe(m) => m.shared.as_ref().map(|s| shape(&s.mlp)),
        _ => None,
    };
    distinct(spec.ops().filter_map(of), PartialEq::eq)
}

fn shape(m: &Mlp) -> Shape {
    let rank = m.adapter.map(|adapter| adapter.rank);
    Shape { d_ff: m.d_ff, whole: m.sparsity.is_some(), rank }
}
