//! The feed-forward network.
use super::executor::Pass;
use super::pack::Packer;
use super::plan::Projection;
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Act as Function, Mlp, ModelSpec, Op};
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Glu};
use rinfer_kernels::{Act, Mat};

/// One MLP, resolved.
pub(crate) struct MlpStep {
    act: Glu,
    gate: Option<Projection>,
    up: Projection,
    down: Projection,
    buffers: usize,
}

impl MlpStep {
    /// Layer `i`'s MLP.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        m: &Mlp,
        packer: &Packer<'_>,
    ) -> Result<MlpStep, LoadError> {
        let project = |part| Projection::new(&layer(i, part), m.bias, packer);
        Ok(MlpStep {
            act: match m.act {
                Function::Silu => Glu::Silu,
                Function::GeluTanh => Glu::GeluTanh,
                Function::Gelu => Glu::Gelu,
                Function::Relu2 => Glu::Relu2,
                Function::SiluClamped { .. } => {
                    return Err(LoadError::Unsupported("clamped SiLU".into()));
                }
            },
            gate: m.gated.then(|| project("ffn_gate")).transpose()?,
            up: project("ffn_up")?,
            down: project("ffn_down")?,
            buffers: place(&widths(spec), &m.d_ff, usize::eq),
        })
    }

    /// `out (+)= mlp(x)`.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        buffers: &mut [Buffers],
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let (ctx, q8) = (pass.ctx, self.down.reads_q8());
        let b = &mut buffers[self.buffers];
        if let Some(gate) = &self.gate {
            let mut jobs = [gate.job(&mut b.gate, Store::Set), self.up.job(&mut b.up, Store::Set)];
            pass.linear(Kind::Projections, x, &mut jobs);
            ops::glu(ctx, self.act, &b.gate, Some(&b.up), &mut b.hidden, q8);
        } else {
            pass.linear(Kind::Projections, x, &mut [self.up.job(&mut b.up, Store::Set)]);
            ops::glu(ctx, self.act, &b.up, None, &mut b.hidden, q8);
        }
        pass.clock.lap(Kind::Glu);
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

/// What an MLP writes on the way, shared by all of one width.
pub(crate) struct Buffers {
    gate: Mat,
    up: Mat,
    hidden: Act,
}

impl Buffers {
    /// For batches of up to `rows` rows.
    pub fn new(d_ff: usize, rows: usize) -> Buffers {
        Buffers {
            gate: Mat::new(rows, d_ff),
            up: Mat::new(rows, d_ff),
            hidden: Act::new(rows, d_ff),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.gate.bytes() + self.up.bytes() + self.hidden.bytes()
    }
}

/// The distinct widths of a model's MLPs.
pub(crate) fn widths(spec: &ModelSpec) -> Vec<usize> {
    let width = |op: &Op| if let Op::Mlp(m) = op { Some(m.d_ff) } else { None };
    let ops = spec.layers.iter().flatten().flat_map(|b| &b.ops);
    distinct(ops.filter_map(width), usize::eq)
}
