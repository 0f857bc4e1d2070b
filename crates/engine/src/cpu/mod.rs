//! The CPU backend: a spec becomes a plan of fused steps, which an executor walks.
//!
//! `pack` turns tensors to what kernels read, `plan` resolves a spec and its weights to steps,
//! `scratch` holds everything that a pass writes but state, `executor` runs a batch, and each kind
//! of operation has a file.
mod angles;
mod attention;
mod executor;
mod head;
mod mlp;
pub(crate) mod pack;
mod plan;
pub(crate) mod scratch;

pub use executor::CpuExecutor;

use crate::backend::{Backend, Executor, Kv, Limits, LoadError};
use crate::spec::{Act, Attention, Head, Mlp, ModelSpec, Op, QkNorm, Scaling};
use crate::weights;
use rinfer_formats::Weights;
use rinfer_kernels::Kernels;
use rinfer_kernels::kv::KvKind;

/// The CPU, with some of its threads and one of its instruction tiers.
pub struct Cpu {
    threads: usize,
    kernels: &'static Kernels,
}

impl Cpu {
    /// `threads` with the instructions of `kernels`.
    pub fn new(threads: usize, kernels: &'static Kernels) -> Cpu {
        Cpu { threads, kernels }
    }
    /// As [`Backend::load`].
    ///
    /// # Errors
    /// What the backend can't run, and tensors that do not fit the spec.
    pub fn executor(
        &self,
        spec: &ModelSpec,
        weights: &dyn Weights,
        limits: &Limits,
    ) -> Result<CpuExecutor, LoadError> {
        self.check(spec).map_err(LoadError::Unsupported)?;
        weights::check(spec, weights)?;
        CpuExecutor::load(spec, weights, limits, self.threads, self.kernels)
    }
}

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn check(&self, spec: &ModelSpec) -> Result<(), String> {
        let ends = || {
            refuse(spec.embed.norm.is_some(), "a norm of embeddings")?;
            refuse(spec.embed.learned_positions, "learned positions")?;
            refuse(spec.embed.per_layer > 0, "per-layer embeddings")?;
            refuse(matches!(spec.head, Head::Pool { .. }), "pooled embeddings")
        };
        let ropes = spec.ropes.iter().map(|r| {
            refuse(matches!(r.scaling, Scaling::LongRope { .. }), "LongRoPE")?;
            refuse(!r.sections.is_empty(), "M-RoPE sections")
        });
        let ops = spec.layers.iter().flatten().flat_map(|b| &b.ops).map(|op| match op {
            Op::Attention(a) => check_attention(a),
            Op::Mlp(m) => check_mlp(m),
            Op::Mla(_) => refuse(true, "latent attention (MLA)"),
            Op::DeltaNet(_) => refuse(true, "the gated delta rule"),
            Op::Mamba2(_) => refuse(true, "Mamba-2"),
            Op::ShortConv(_) => refuse(true, "short convolutions"),
            Op::Moe(_) => refuse(true, "mixtures of experts"),
        });
        ends().and_then(|()| ropes.chain(ops).collect())
    }

    fn load(
        &self,
        spec: &ModelSpec,
        weights: &dyn Weights,
        limits: &Limits,
    ) -> Result<Box<dyn Executor>, LoadError> {
        Ok(Box::new(self.executor(spec, weights, limits)?))
    }
}

/// How the kernels spell it.
pub(crate) fn kv_kind(kv: Kv) -> KvKind {
    match kv {
        Kv::F16 => KvKind::F16,
        Kv::F32 => KvKind::F32,
    }
}

fn refuse(has: bool, what: &str) -> Result<(), String> {
    if has { Err(format!("the cpu backend does not run {what} yet")) } else { Ok(()) }
}

fn check_attention(a: &Attention) -> Result<(), String> {
    refuse(!a.causal, "attention that is not causal")?;
    refuse(a.out_gate, "gated attention outputs")?;
    refuse(a.sinks, "attention sinks")?;
    refuse(a.kv_from.is_some(), "shared keys and values")?;
    refuse(matches!(a.qk_norm, Some(QkNorm::L2 { .. })), "weightless norms of queries and keys")
}

fn check_mlp(m: &Mlp) -> Result<(), String> {
    refuse(matches!(m.act, Act::SiluClamped { .. }), "clamped SiLU")
}
