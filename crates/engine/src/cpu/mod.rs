//! The CPU backend: a spec becomes a plan of fused steps, which an executor walks.
//!
//! `pack` turns tensors to what kernels read, `plan` resolves a spec and its weights to steps,
//! `scratch` holds everything that a pass writes but state, `executor` runs a batch, `clock` says
//! where its time went, and each end and each kind of operation has a file.
mod adapter;
mod altup;
mod angles;
mod attention;
mod branch;
mod clock;
mod embed;
mod end;
mod executor;
pub(crate) mod flow;
mod head;
mod laurel;
pub(crate) mod lie;
mod mla;
mod mlp;
mod moe;
pub(crate) mod order;
pub(crate) mod pack;
mod per_layer;
mod plan;
mod pool;
mod recurrent;
mod router;
pub(crate) mod scratch;
pub(crate) mod stored;
pub(crate) mod types;

pub use executor::CpuExecutor;
pub(crate) use pool::to_unit;
pub(crate) use recurrent::floats;

use crate::backend::{Backend, Executor, Kv, Limits, LoadError};
use crate::spec::{Act, Attention, Branch, Head, Mlp, ModelSpec, Moe, Op, OutGate, Reads, Skip};
use crate::weights;
use rinfer_formats::Weights;
use rinfer_kernels::Kernels;
use rinfer_kernels::kv::{KvKind, KvShape};
use router::{MOST_BEST, MOST_GROUPS};

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
        let places = spec.embed.positions.map_or(usize::MAX, |p| p.rows.saturating_sub(p.offset));
        if limits.context > places {
            let problem =
                format!("a context of {}, of which {places} have vectors", limits.context);
            return Err(LoadError::Unsupported(problem));
        }
        CpuExecutor::load(spec, weights, limits, self.threads, self.kernels)
    }
}

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn check(&self, spec: &ModelSpec) -> Result<(), String> {
        let ends = || {
            refuse(!fits_streams(spec), "layers that do not end in a branch of the other streams")?;
            let both_ways = spec.attentions().any(|a| !a.causal);
            let writes = matches!(spec.head, Head::Lm { .. });
            refuse(both_ways && writes, "attention that is not causal for logits")?;
            check_asides(spec)?;
            check_tensors(spec)
        };
        let ropes = spec.ropes.iter().map(|r| refuse(!r.sections.is_empty(), "M-RoPE sections"));
        let branches = spec.layers.iter().flatten().map(check_branch);
        let shared = spec.attentions().enumerate().map(|(i, a)| check_shared(spec, i, a));
        let ops = spec.ops().map(|op| match op {
            Op::Attention(a) => check_attention(a),
            Op::Mlp(m) => check_mlp(m),
            Op::Mla(m) => refuse(m.out_gate == Some(OutGate::PerChannel), "gates of channels"),
            Op::DeltaNet(_)
            | Op::Lightning(_)
            | Op::Mamba1(_)
            | Op::Mamba2(_)
            | Op::RgLru(_)
            | Op::ShortConv(_)
            | Op::Linear => Ok(()),
            Op::Moe(m) => check_moe(m),
            Op::Laurel(_) => Ok(()),
            Op::InputGate(_) => refuse(spec.embed.per_layer.is_none(), "gates of no inputs"),
        });
        ends().and_then(|()| ropes.chain(branches).chain(ops).chain(shared).collect())
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

/// How the kernels spell it. Keys without values choose positions, which 8 bits would change.
pub(crate) fn kv_kind(kv: Kv, kept: KvShape) -> KvKind {
    match kv {
        Kv::F16 => KvKind::F16,
        Kv::F32 => KvKind::F32,
        Kv::Q8 if kept.v_dim == 0 => KvKind::F16,
        Kv::Q8 => KvKind::Q8,
    }
}

fn refuse(has: bool, what: &str) -> Result<(), String> {
    if has { Err(format!("the cpu backend does not run {what} yet")) } else { Ok(()) }
}

fn check_attention(a: &Attention) -> Result<(), String> {
    let partial = a.kv_from.is_some() || a.v_from_k;
    refuse(partial && a.adapter.is_some(), "adapters of attention without keys or values")
}

/// An attention that reads another's keys and values reads what is there.
fn check_shared(spec: &ModelSpec, i: usize, a: &Attention) -> Result<(), String> {
    let Some(from) = a.kv_from else { return Ok(()) };
    let of = |x: &Attention| (x.kv_heads, x.head_dim, x.reach);
    let writer = spec.attentions().take(i).nth(from).filter(|w| w.kv_from.is_none());
    let fits = writer.is_some_and(|writer| of(writer) == of(a));
    refuse(!fits, "keys and values shared with an attention of another shape")
}

fn check_moe(m: &Moe) -> Result<(), String> {
    let groups = m.router.groups;
    refuse(groups.is_some_and(|g| g.count > MOST_GROUPS), "more than 64 groups of experts")?;
    refuse(groups.is_some_and(|g| g.best > MOST_BEST), "groups of so many best experts")?;
    let (scale, sparsity) = (m.expert.gate_scale, m.expert.sparsity);
    refuse(scale != 1.0 || sparsity.is_some(), "scaled or sparse gates of experts")?;
    let mut all = m.shared.iter().map(|s| &s.mlp).chain([&m.expert]);
    refuse(all.any(|mlp| mlp.adapter.is_some()), "adapters of experts")?;
    m.shared.iter().map(|s| &s.mlp).chain([&m.expert]).try_for_each(check_mlp)
}

fn check_mlp(m: &Mlp) -> Result<(), String> {
    refuse(m.gate_scale != 1.0 && m.act != Act::Silu, "scaled gates of others than SiLU")?;
    refuse(m.sparsity.is_some() && !m.gated, "sparse gates of no gate")
}

/// Whether the last branch of each layer, and no other, is of the other streams, if there are any.
fn fits_streams(spec: &ModelSpec) -> bool {
    spec.layers.iter().all(|layer| {
        let mut skips = layer.iter().rev().map(|b| b.skip == Skip::Others);
        skips.next().unwrap_or(false) == spec.altup.is_some() && !skips.any(|others| others)
    })
}

fn check_branch(b: &Branch) -> Result<(), String> {
    let own = b.parts.iter().any(|part| part.pre.is_some());
    let input = b.pre.is_some() || b.skip != Skip::Stream;
    refuse(own && input, "norms of single parts of a branch's normed input")?;
    let wide = b.reads == Reads::StreamAndTokens;
    let attends = b.parts.iter().all(|part| matches!(part.op, Op::Attention(_)));
    let narrow = !attends || matches!(b.skip, Skip::Input(_));
    refuse(wide && narrow, "others than attention on tokens beside the stream")
}

/// What is read was set aside before.
fn check_asides(spec: &ModelSpec) -> Result<(), String> {
    let mut branches = spec.layers.iter().flatten();
    let first = branches.find(|b| b.reads == Reads::Aside || matches!(b.skip, Skip::Aside { .. }));
    let reads = first.is_some_and(|b| b.reads == Reads::Aside);
    refuse(reads, "branches of what nothing set aside")
}

/// Branches that have tensors in common are of one shape, each in the same place of its layer.
fn check_tensors(spec: &ModelSpec) -> Result<(), String> {
    let all = || spec.layers.iter().flat_map(|layer| layer.iter().enumerate());
    let plain = |b: &Branch| {
        let ops = b.parts.iter().map(|part| match &part.op {
            Op::Attention(a) => Some(Op::Attention(Attention { adapter: None, ..a.clone() })),
            Op::Mlp(m) => Some(Op::Mlp(Mlp { adapter: None, ..m.clone() })),
            _ => None,
        });
        ops.collect::<Option<Vec<Op>>>().map(|ops| (ops, b.pre, b.post, b.reads))
    };
    let norms = |b: &Branch| weights::branch_norms(b);
    let mut shared = all().filter(|(_, b)| b.shared.is_some());
    let fits = shared.all(|(at, b)| {
        let mut like =
            all().filter(|(_, other)| other.shared == b.shared && norms(other) == norms(b));
        plain(b).is_some() && like.all(|(i, other)| i == at && plain(other) == plain(b))
    });
    refuse(!fits, "tensors shared by branches of other shapes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::common::Common;
    use crate::spec::*;

    fn check(change: impl Fn(&mut ModelSpec), expect: &str) {
        let json = serde_json::json!({
            "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 9,
            "intermediate_size": 80,
        });
        let config = crate::config::Config::new(json, crate::config::Source::HuggingFace);
        let c = Common::read(&config).unwrap();
        let layer = vec![
            Branch::pre(c.rms(), Op::Attention(c.attention())),
            Branch::pre(c.rms(), Op::Mlp(c.gated(Act::Silu))),
        ];
        let mut spec = c.model([layer].into_iter());
        change(&mut spec);
        let error = Cpu::new(1, Kernels::best()).check(&spec).err();
        let expect =
            (!expect.is_empty()).then(|| format!("the cpu backend does not run {expect} yet"));
        assert_eq!(error, expect);
    }

    fn attention(s: &mut ModelSpec) -> &mut Attention {
        let Op::Attention(a) = &mut s.layers[0][0].parts[0].op else { unreachable!() };
        a
    }

    #[test]
    fn what_it_can_not_run_is_named() {
        check(|_| {}, "");
        check(|s| attention(s).causal = false, "attention that is not causal for logits");
        let shared = "keys and values shared with an attention of another shape";
        check(|s| attention(s).kv_from = Some(0), shared);
        let norm = Some(Norm::rms(1e-6));
        let twice = "norms of single parts of a branch's normed input";
        check(|s| s.layers[0][1].parts[0].pre = norm, twice);
        let altup = Some(AltUp { streams: 2, norm: Norm::rms(1e-6), scale: 1.0 });
        let ends = "layers that do not end in a branch of the other streams";
        check(|s| s.altup = altup, ends);
        check(|s| s.layers[0][1].skip = Skip::Others, ends);
        let both = |s: &mut ModelSpec| (s.altup, s.layers[0][1].skip) = (altup, Skip::Others);
        check(both, "");
        let asides = "branches of what nothing set aside";
        check(|s| s.layers[0][0].reads = Reads::Aside, asides);
        let wide = "others than attention on tokens beside the stream";
        check(|s| s.layers[0][0].reads = Reads::StreamAndTokens, "");
        check(|s| s.layers[0][1].reads = Reads::StreamAndTokens, wide);
        let share = |s: &mut ModelSpec| {
            s.layers.push(s.layers[0].clone());
            s.layers.iter_mut().flatten().for_each(|b| b.shared = Some(0));
        };
        check(share, "");
        let shapes = "tensors shared by branches of other shapes";
        check(|s| (share(s), s.layers[1][0].pre = None).1, shapes);
        check(|s| (share(s), s.layers[1].swap(0, 1)).1, shapes);
        let partial = "adapters of attention without keys or values";
        let adapter = Some(Adapter { rank: 4, nth: 0 });
        check(|s| (attention(s).v_from_k, attention(s).adapter) = (true, adapter), partial);
        check(|s| s.ropes[0].sections = vec![4, 4], "M-RoPE sections");
        let pool =
            || Head::Pool { how: Pool::Mean, dense: Vec::new(), normalise: true, scores: false };
        check(|s| (s.head = pool(), attention(s).causal = false).0, "");
    }
}
