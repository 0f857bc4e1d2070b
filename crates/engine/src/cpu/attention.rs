//! Softmax attention: projections, norms and rotation of heads, pages, output.
use super::adapter::Own;
use super::angles::Angles;
use super::branch::Line;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::{distinct, place};
use crate::backend::{Limits, LoadError};
use crate::cpu::kv_kind;
use crate::spec::{Attention, ModelSpec, NormOver, OutGate, Reach};
use crate::state::Cache;
use crate::weights::{Owner, layer};
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{
    self, Attend, AttendRow, AttentionScratch, HeadNorm, Heads, Places, Rotate, Stage,
};
use rinfer_kernels::{Act, Mat, kv};

/// One attention, resolved.
pub(crate) struct AttentionStep {
    spec: Attention,
    q: Projection,
    /// None where it reads another's.
    k: Option<Projection>,
    /// None there, and where keys are the values, too.
    v: Option<Projection>,
    o: Projection,
    gate: Option<Projection>,
    q_norm: Option<NormWeights>,
    k_norm: Option<NormWeights>,
    sinks: Option<Vec<f32>>,
    buffers: usize,
}

impl AttentionStep {
    /// Layer `i`'s attention, or a shared one.
    pub fn new(
        spec: &ModelSpec,
        i: Owner,
        a: &Attention,
        packer: &Packer<'_>,
    ) -> Result<AttentionStep, LoadError> {
        let project = |part, bias| Projection::new(&layer(i, part), bias, packer);
        let norm =
            |part| NormWeights::new(a.qk_norm.as_ref().map(|qk| &qk.norm), &layer(i, part), packer);
        let writes = a.kv_from.is_none();
        Ok(AttentionStep {
            q: project("attn_q", a.qkv_bias)?,
            k: writes.then(|| project("attn_k", a.qkv_bias)).transpose()?,
            v: (writes && !a.v_from_k).then(|| project("attn_v", a.qkv_bias)).transpose()?,
            o: project("attn_output", a.out_bias)?,
            gate: a.out_gate.map(|_| project("attn_gate", false)).transpose()?,
            q_norm: norm("attn_q_norm")?,
            k_norm: if writes { norm("attn_k_norm")? } else { None },
            sinks: a.sinks.then(|| packer.vector(&layer(i, "attn_sinks.weight"))).transpose()?,
            buffers: place(&shapes(spec), &a, same),
            spec: a.clone(),
        })
    }

    /// Adds `out (+)= attention(x)`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        own: &'a Own,
        (buffers, cache): (&'a mut [Buffers], &'a mut Cache),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let (ctx, n) = (line.chain.ctx(), line.rows.len());
        let b = &mut buffers[self.buffers];
        let (q, k, v) = (b.q.lend(n), b.k.lend(n), b.v.lend(n));
        let gates = b
            .gated
            .as_mut()
            .map(|(gates, passed)| (gates.lend(n), passed.lend(ctx, n, self.o.reads_q8_as_is())));
        let to = |projection: &'a Projection, out| projection.to(out, Store::Set);
        let gate = self.gate.as_ref().zip(gates);
        let jobs = [
            Some(to(&self.q, q)),
            self.k.as_ref().map(|k_| to(k_, k)),
            self.v.as_ref().map(|v_| to(v_, v)),
            gate.map(|(gate, (gates, _))| to(gate, gates)),
        ];
        line.products(Stage::Products, x, &jobs);
        if let Some(low) = b.low.as_mut().filter(|_| !own.adapters.is_empty()) {
            let low = low.lend(ctx, n, false);
            let outs = [(true, q), (self.k.is_some(), k), (self.v.is_some(), v)];
            for (adapter, (_, out)) in own.adapters.iter().zip(outs).filter(|(_, out)| out.0) {
                adapter.add(line, x, low, [out]);
            }
        }
        let (group, pool) = cache.layer(own.pool);
        let (rows, tables) = (line.rows, line.groups[group].tables());
        let places = Places { rows, tables, chosen: None, pool };
        let heads = self.heads(line.angles, self.temperatures(rows, &mut b.scales));
        let mut made = b.out.lend(ctx, n, gate.is_none() && self.o.reads_q8_as_is());
        let kv = self.k.is_some().then_some((k, v));
        line.chain.attention((heads, self.attend()), places, q, kv, &mut b.partial, made);
        if let Some((_, (gates, passed))) = gate {
            line.chain.gate_heads(gates, made.f32(), passed);
            made = passed;
        }
        line.product(&mut made, &self.o, out, store);
    }

    /// Its products with the input.
    fn inputs(&self) -> impl Iterator<Item = &Projection> {
        [Some(&self.q), self.k.as_ref(), self.v.as_ref(), self.gate.as_ref()].into_iter().flatten()
    }

    /// What queries, keys and values go through before they meet.
    fn heads<'a>(&'a self, angles: &'a [Angles], scales: Option<&'a [f32]>) -> Heads<'a> {
        let Attention { head_dim, clip, rope, v_norm, v_from_k, .. } = self.spec;
        let plain = Rotate { head_dim, clip, ..Rotate::default() };
        let rotated = Rotate { rope: rope.map(|r| angles[usize::from(r.0)].view()), ..plain };
        let norm = v_norm.map(|eps| {
            let kind = ops::NormKind::Rms;
            HeadNorm::PerHead(ops::Norm { kind, eps, weight: None, bias: None })
        });
        Heads {
            q: Rotate { scales, ..self.normed(rotated, self.q_norm.as_ref()) },
            k: self.normed(rotated, self.k_norm.as_ref()),
            v: Rotate { norm, ..plain },
            v_from_k,
        }
    }

    fn normed<'a>(&self, how: Rotate<'a>, norm: Option<&'a NormWeights>) -> Rotate<'a> {
        let Some((qk, norm)) = self.spec.qk_norm.zip(norm) else { return how };
        let norm = Some(match qk.over {
            NormOver::Head => HeadNorm::PerHead(norm.view()),
            NormOver::EachHead => HeadNorm::EachHead(norm.view()),
            NormOver::Whole => HeadNorm::Whole(norm.view()),
        });
        if qk.after_rope { Rotate { then: norm, ..how } } else { Rotate { norm, ..how } }
    }

    /// What the rows' queries are multiplied by, if that depends on their positions.
    fn temperatures<'a>(&self, rows: &[AttendRow], out: &'a mut Vec<f32>) -> Option<&'a [f32]> {
        let t = self.spec.temperature?;
        out.clear();
        out.extend(rows.iter().map(|row| t.at(row.pos)));
        Some(out)
    }

    fn attend(&self) -> Attend<'_> {
        let slopes = self.spec.alibi.as_ref().map(|alibi| &alibi.slopes[..]);
        Attend { slopes, sinks: self.sinks.as_deref(), ..attend(&self.spec) }
    }

    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.inputs().any(Projection::reads_q8)
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let norms = [&self.q_norm, &self.k_norm].into_iter().flatten().map(NormWeights::bytes);
        let projections = [&self.q, &self.o].into_iter().chain(&self.k).chain(&self.v);
        let projections = projections.chain(&self.gate);
        let sinks = self.sinks.as_ref().map_or(0, |sinks| 4 * sinks.len());
        sinks + norms.chain(projections.map(Projection::bytes)).sum::<usize>()
    }
}

/// What multiplies an attention's input.
pub(super) fn inputs(a: &Attention) -> impl Iterator<Item = &'static str> {
    let keys = a.kv_from.is_none();
    let all = [
        ("attn_q", true),
        ("attn_k", keys),
        ("attn_v", keys && !a.v_from_k),
        ("attn_gate", a.out_gate.is_some()),
    ];
    all.into_iter().filter_map(|(part, there)| there.then_some(part))
}

/// What an attention writes on the way, shared by all of one shape.
pub(crate) struct Buffers {
    q: Mat,
    k: Mat,
    v: Mat,
    /// By row.
    scales: Vec<f32>,
    partial: AttentionScratch,
    out: Act,
    /// Gates and what passes them.
    gated: Option<(Mat, Act)>,
    /// Of adapters.
    low: Option<Act>,
}

impl Buffers {
    /// For batches within `limits`.
    pub fn new(a: &Attention, limits: &Limits, threads: usize) -> Buffers {
        let (rows, shape) = (limits.batch, attend(a));
        let of = |gate| if gate == OutGate::PerHead { a.heads } else { a.heads * a.head_dim };
        let out = || Act::new(rows, a.heads * a.head_dim);
        Buffers {
            q: Mat::new(rows, a.heads * a.head_dim),
            k: Mat::new(rows, a.kv_heads * a.head_dim),
            v: Mat::new(rows, a.kv_heads * a.head_dim),
            scales: Vec::with_capacity(if a.temperature.is_some() { rows } else { 0 }),
            partial: scratch(&shape, limits, threads),
            out: out(),
            gated: a.out_gate.map(|gate| (Mat::new(rows, of(gate)), out())),
            low: a.adapter.map(|adapter| Act::new(rows, adapter.rank)),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let low = self.low.as_ref().map_or(0, Act::bytes);
        let mats = [&self.q, &self.k, &self.v].map(Mat::bytes).iter().sum::<usize>();
        let gated = self.gated.as_ref().map_or(0, |(gates, out)| gates.bytes() + out.bytes());
        let scales = 4 * self.scales.capacity();
        mats + scales + self.partial.bytes() + self.out.bytes() + gated + low
    }
}

/// What an attention of `shape` writes on the way.
pub(super) fn scratch(shape: &Attend<'_>, limits: &Limits, threads: usize) -> AttentionScratch {
    let kind = kv_kind(limits.kv, shape.keeps());
    AttentionScratch::new(shape, kind, limits.batch, limits.context, threads)
}

/// One of each shape of a model's attentions.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<&Attention> {
    distinct(spec.attentions(), same)
}

/// Whether what two write on the way is of one shape.
fn same(a: &&Attention, b: &&Attention) -> bool {
    let rank = |x: &Attention| x.adapter.map(|adapter| adapter.rank);
    let heads = |x: &Attention| (x.heads, x.kv_heads, x.head_dim, x.out_gate);
    let of = |x: &Attention| (heads(x), x.temperature.is_some(), rank(x));
    of(a) == of(b)
}

fn attend(a: &Attention) -> Attend<'_> {
    let reach = match a.reach {
        Reach::All => kv::Reach::All,
        Reach::Window(n) => kv::Reach::Window(n),
        Reach::Chunk(n) => kv::Reach::Chunk(n),
    };
    let plain = Attend::plain(a.heads, a.kv_heads, a.head_dim, a.scale);
    Attend { reach, causal: a.causal, softcap: a.softcap, ..plain }
}
