//! The feed-forward network.
use super::adapter::Own;
use super::branch::Line;
use super::order::Orders;
use super::pack::Packer;
use super::plan::Projection;
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Act as Function, Mlp, ModelSpec, Op};
use crate::weights::{Owner, layer};
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Seen, Slot, Store};
use rinfer_kernels::ops::{FEW_ROWS, Gated, GatedScratch, Glu, Stage};
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
            buffers: {
                let orders = packer.orders();
                place(&shapes(spec, orders), &shape(m, i, suffix, orders), PartialEq::eq)
            },
        })
    }

    /// Adds `out (+)= mlp(x)`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        own: Option<&'a Own>,
        buffers: &'a mut [Buffers],
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let (ctx, n) = (line.chain.ctx(), line.rows.len());
        let b = &mut buffers[self.buffers];
        let first = self.gate.as_ref().unwrap_or(&self.up);
        let second = self.gate.is_some().then_some(&self.up);
        let mut hidden = b.hidden.lend(ctx, n, self.down.reads_q8_as_is());
        if n > FEW_ROWS && !b.whole {
            let up = second.map(Projection::weights);
            let how = Gated { act: self.act, gate: first.weights(), up };
            line.clock.products(Kind::Projections, n, how.weights().map(|(weights, _)| weights));
            hidden = line.chain.gated(how, x, &mut b.columns, hidden);
        } else {
            let (gate, up) = (b.gate.lend(n), b.up.lend(n));
            let up = second.map(|second| (second, up));
            let jobs = [Some(first.to(gate, Store::Set)), up.map(|(w, up)| w.to(up, Store::Set))];
            line.products(Stage::Products, x, &jobs);
            let up = up.map(|(_, up)| up);
            if let (Some(adapter), Some(low)) =
                (own.and_then(|own| own.adapters.first()), b.low.as_mut())
            {
                adapter.add(line, x, low.lend(ctx, n, false), [gate].into_iter().chain(up));
            }
            if let Some(deviations) = self.sparsity {
                line.chain.sparsify(deviations, gate);
            }
            line.chain.glu(Stage::Unit, self.act, gate, up.map(Seen::from), hidden);
        }
        line.product(&mut hidden, &self.down, out, store);
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
    /// Whether products are made whole, of however many rows.
    whole: bool,
    /// Of few rows, or whole.
    gate: Mat,
    /// The same.
    up: Mat,
    /// Of many rows, unless whole.
    columns: GatedScratch,
    hidden: Act,
    /// Of adapters.
    low: Option<Act>,
}

impl Buffers {
    /// For batches of up to `rows` rows, on `threads` threads.
    pub fn new(shape: Shape, rows: usize, threads: usize) -> Buffers {
        let Shape { d_ff, whole, rank } = shape;
        let whole = whole || rank.is_some();
        let few = if whole { rows } else { rows.min(FEW_ROWS) };
        Buffers {
            whole,
            gate: Mat::new(few, d_ff),
            up: Mat::new(few, d_ff),
            columns: GatedScratch::new(if rows > few { rows } else { 0 }, threads),
            hidden: Act::new(rows, d_ff),
            low: rank.map(|rank| Act::new(rows, rank)),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let products = self.gate.bytes() + self.up.bytes() + self.columns.bytes();
        products + self.hidden.bytes() + self.low.as_ref().map_or(0, Act::bytes)
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
