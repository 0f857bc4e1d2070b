//! Softmax attention: projections, norms and rotation of heads, pages, output.
use super::adapter::Own;
use super::angles::Angles;
use super::executor::Pass;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::{distinct, place};
use crate::backend::{Limits, LoadError};
use crate::cpu::kv_kind;
use crate::profile::Kind;
use crate::spec::{Attention, ModelSpec, NormOver, OutGate, Reach};
use crate::weights::{Owner, layer};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{
    self, Attend, AttendRow, AttentionBranch, AttentionBuffers, AttentionScratch, Cached, Ends,
    HeadNorm, Heads, Rotate,
};
use rinfer_kernels::{Act, kv};

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

    /// From the stream or an input through the attention.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        own: &Own,
        (angles, buffers): (&[Angles], &mut [Buffers]),
        mut ends: Ends<'_>,
    ) {
        let Buffers { scales, products, low } = &mut buffers[self.buffers];
        let made = !own.adapters.is_empty() || self.inputs().any(|(_, p)| p.gathers());
        if made {
            pass.input(&mut ends);
            self.make(pass, own, ends.input, products, low.as_mut());
        }
        let turned = self.o.gathers().then(|| pass.turned.of(self.o.weights().0.cols()));
        let ends = Ends { turned, ..ends };
        let how = AttentionBranch {
            made,
            q: self.q.weights(),
            k: self.k.as_ref().map(Projection::weights),
            v: self.v.as_ref().map(Projection::weights),
            gate: self.gate.as_ref().map(Projection::weights),
            heads: self.heads(angles, self.temperatures(pass.rows, scales)),
            attend: self.attend(),
            o: self.o.weights(),
        };
        let (group, pool) = pass.cache.layer(own.pool);
        let cached = Cached { rows: pass.rows, tables: pass.groups[group].tables(), pool };
        pass.clock.products(Kind::Projections, pass.rows.len(), how.weights().map(|(w, _)| w));
        pass.clock.watched(|watch| {
            ops::attention_branch(pass.ctx, &how, cached, products, ends, watch);
        });
    }

    /// Its products with the input, by their places in [`AttentionBuffers::products`].
    fn inputs(&self) -> impl Iterator<Item = (usize, &Projection)> {
        let all = [Some(&self.q), self.k.as_ref(), self.v.as_ref(), self.gate.as_ref()];
        all.into_iter().enumerate().filter_map(|(i, projection)| Some((i, projection?)))
    }

    /// Makes queries, keys, values and gates, each by itself, with what `own` adds to it.
    fn make(
        &self,
        pass: &mut Pass<'_>,
        own: &Own,
        x: &mut Act,
        products: &mut AttentionBuffers,
        mut low: Option<&mut Act>,
    ) {
        let mut outs = products.products();
        for (i, projection) in self.inputs() {
            let out = outs[i].take().expect("a buffer for each product");
            pass.linear(Kind::Projections, x, &mut [projection.job(out, Store::Set)]);
            if let (Some(adapter), Some(low)) = (own.adapters.get(i), low.as_deref_mut()) {
                adapter.run(pass, x, low, [out]);
            }
        }
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
        self.inputs().any(|(_, projection)| projection.reads_q8())
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
    /// By row.
    scales: Vec<f32>,
    products: AttentionBuffers,
    /// Of adapters.
    low: Option<Act>,
}

impl Buffers {
    /// For batches within `limits`.
    pub fn new(a: &Attention, limits: &Limits, threads: usize) -> Buffers {
        let (rows, shape) = (limits.batch, attend(a));
        let of = |gate| if gate == OutGate::PerHead { a.heads } else { a.heads * a.head_dim };
        let scales = if a.temperature.is_some() { rows } else { 0 };
        let gates = a.out_gate.map(of);
        Buffers {
            scales: Vec::with_capacity(scales),
            products: AttentionBuffers::new(scratch(&shape, limits, threads), &shape, gates, rows),
            low: a.adapter.map(|adapter| Act::new(rows, adapter.rank)),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let low = self.low.as_ref().map_or(0, Act::bytes);
        4 * self.scales.capacity() + self.products.bytes() + low
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
    Attend { reach, softcap: a.softcap, ..plain }
}
