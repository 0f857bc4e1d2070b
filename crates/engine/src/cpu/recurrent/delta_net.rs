//! Linear attention with the gated delta rule.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::branch::Line;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::spec::{self, Decay, DeltaNet};
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Seen, Slot, Store};
use rinfer_kernels::ops::{self, Delta, DeltaInput, Gate, Glu, Norm, NormKind, Stage};

/// Added to a query's or key's sum of squares.
const EPS: f32 = 1e-6;

/// One delta net, resolved.
pub(super) struct DeltaNetStep {
    shape: DeltaNet,
    /// To queries, keys and values.
    qkv: [Projection; 3],
    convs: [Conv; 3],
    decay: LowRank,
    beta: Projection,
    gate: LowRank,
    /// `exp(A)`, negated but for a bounded decay; as wide as the decay.
    rate: Vec<f32>,
    dt: Vec<f32>,
    /// What a query's or key's elements are multiplied by, after the division by the root of their
    /// mean square: a length of one, and for queries the scale of their products.
    lengths: [Vec<f32>; 2],
    norm: NormWeights,
    out: Projection,
}

/// One projection, or two through a narrow waist.
struct LowRank {
    first: Option<Projection>,
    last: Projection,
}

/// Its widths: queries, keys and values before and after their convolutions; the decay before and
/// after its function, the same of beta; the gate; the state's output; then the waists of the decay
/// and the gate, and the gated output.
pub(super) fn shape(d: &DeltaNet) -> Shape {
    let (k, v) = (d.k_heads * d.k_dim, d.v_heads * d.v_dim);
    let (decays, h) = (decays(d), d.v_heads);
    Shape {
        floats: convs(d) + delta(d).floats(),
        mats: vec![k, k, v, k, k, v, decays, decays, h, h, v, v],
        acts: vec![d.decay_rank, d.gate_rank, v],
    }
}

/// Floats of the convolutions' state.
fn convs(d: &DeltaNet) -> usize {
    ops::Conv::floats(d.conv, 2 * d.k_heads * d.k_dim + d.v_heads * d.v_dim)
}

fn decays(d: &DeltaNet) -> usize {
    if d.decay == Decay::PerHead { d.v_heads } else { d.v_heads * d.k_dim }
}

fn delta(d: &DeltaNet) -> Delta {
    let DeltaNet { k_heads, v_heads, k_dim, v_dim, interleaved, .. } = *d;
    let per_channel = d.decay != Decay::PerHead;
    Delta { k_heads, v_heads, k_dim, v_dim, interleaved, per_channel }
}

impl LowRank {
    fn new(
        direct: String,
        waist: (String, String),
        rank: usize,
        packer: &Packer<'_>,
    ) -> Result<LowRank, LoadError> {
        let project = |name: &str| Projection::new(name, false, packer);
        Ok(match rank {
            0 => LowRank { first: None, last: project(&direct)? },
            _ => LowRank { first: Some(project(&waist.0)?), last: project(&waist.1)? },
        })
    }
    fn all(&self) -> impl Iterator<Item = &Projection> {
        self.first.iter().chain([&self.last])
    }
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        x: &mut ActSlot<'a>,
        mut waist: ActSlot<'a>,
        out: Slot<'a>,
    ) {
        let Some(first) = &self.first else {
            return line.product(x, &self.last, out, Store::Set);
        };
        line.product(x, first, waist.f32(), Store::Set);
        line.product(&mut waist, &self.last, out, Store::Set);
    }
}

impl DeltaNetStep {
    pub fn new(i: usize, d: &DeltaNet, packer: &Packer<'_>) -> Result<DeltaNetStep, LoadError> {
        let name = |part| layer(i, part);
        let project = |part| Projection::new(&name(part), false, packer);
        let conv = |part| Conv::new(&name(part), d.conv, false, true, packer);
        let direct = name(if d.decay == Decay::PerHead { "ssm_alpha" } else { "ssm_f" });
        let waist = (name("ssm_f_a"), name("ssm_f_b"));
        let each = decays(d) / d.v_heads;
        let sign = if matches!(d.decay, Decay::PerChannelBounded { .. }) { -1.0 } else { 1.0 };
        let heads = packer.vector(&name("ssm_a"))?;
        let length = 1.0 / (d.k_dim as f32).sqrt();
        let norm = NormWeights::new(Some(&d.norm), &name("ssm_norm"), packer)?;
        Ok(DeltaNetStep {
            qkv: [project("attn_q")?, project("attn_k")?, project("attn_v")?],
            convs: [conv("ssm_conv1d_q")?, conv("ssm_conv1d_k")?, conv("ssm_conv1d_v")?],
            decay: LowRank::new(direct, waist, d.decay_rank, packer)?,
            beta: project("ssm_beta")?,
            gate: LowRank::new(
                name("attn_gate"),
                (name("ssm_g_a"), name("ssm_g_b")),
                d.gate_rank,
                packer,
            )?,
            rate: heads.iter().flat_map(|a| std::iter::repeat_n(sign * a, each)).collect(),
            dt: packer.vector(&name("ssm_dt.bias"))?,
            lengths: [vec![length * length; d.k_dim], vec![length; d.k_dim]],
            norm: norm.ok_or_else(|| LoadError::Unsupported("a delta net without norm".into()))?,
            out: project("ssm_out")?,
            shape: d.clone(),
        })
    }
    /// Adds convolutions of queries, keys and values, and what brings queries and keys to a fixed length.
    fn convolve<'a>(
        &'a self,
        line: &mut Line<'a>,
        state: Slot<'a>,
        raw: [Slot<'a>; 3],
        out: [Slot<'a>; 3],
    ) {
        let mut at = 0;
        for ((conv, raw), out) in self.convs.iter().zip(raw).zip(out) {
            line.chain.conv(conv.view(), line.runs, raw, None, (state, at), out);
            at += ops::Conv::floats(self.shape.conv, raw.cols());
        }
        for (weight, out) in self.lengths.iter().zip(out) {
            let eps = EPS / self.shape.k_dim as f32;
            let norm = Norm { kind: NormKind::Rms, eps, weight: Some(weight), bias: None };
            line.chain.norm_groups(norm, self.shape.k_dim, out);
        }
    }
    fn forget(&self) -> Gate<'_> {
        let (rate, bias) = (&self.rate, &self.dt);
        match self.shape.decay {
            Decay::PerHead | Decay::PerChannel => Gate::Decay { rate, bias },
            Decay::PerChannelBounded { bound } => Gate::BoundedDecay { rate, bias, bound },
        }
    }
}

impl Mixer for DeltaNetStep {
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (state, buffers): (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let d = &self.shape;
        let ([q0, k0, v0, q, k, v, f, decay, b, beta, z, y], [f_waist, z_waist, gated]) =
            buffers.lend(line.chain.ctx(), line.rows.len());
        let [to_q, to_k, to_v] = &self.qkv;
        let jobs = [
            to_q.to(q0, Store::Set),
            to_k.to(k0, Store::Set),
            to_v.to(v0, Store::Set),
            self.beta.to(b, Store::Set),
        ];
        line.products(Stage::Products, x, &jobs.map(Some));
        self.decay.add(line, x, f_waist, f);
        self.gate.add(line, x, z_waist, z);
        self.convolve(line, state, [q0, k0, v0], [q, k, v]);
        line.chain.gate(Stage::State, self.forget(), f, decay);
        line.chain.gate(Stage::State, Gate::Sigmoid { scale: d.beta }, b, beta);
        let [q, k, v, decay, beta] = [q, k, v, decay, beta].map(Seen::from);
        let input = DeltaInput { q, k, v, decay, beta };
        line.chain.delta(delta(d), line.runs, input, (state, convs(d)), y);
        line.chain.norm_groups(self.norm.view(), d.v_dim, y);
        let act = match d.gate {
            spec::Gate::Silu => Glu::Silu,
            spec::Gate::Sigmoid => Glu::Sigmoid,
        };
        let mut gated = gated.in_forms(self.out.reads_q8_as_is());
        line.chain.glu(Stage::State, act, z, Some(y.into()), gated);
        line.product(&mut gated, &self.out, out, store);
    }
    fn reads_q8(&self) -> bool {
        let gates = self.decay.all().chain(self.gate.all());
        self.qkv.iter().chain([&self.beta]).chain(gates).any(Projection::reads_q8)
    }
    fn bytes(&self) -> usize {
        let gates = self.decay.all().chain(self.gate.all());
        let projections = self.qkv.iter().chain([&self.beta, &self.out]).chain(gates);
        let convs = self.convs.iter().map(Conv::bytes);
        let vectors = 4 * (self.shape.v_heads + self.dt.len());
        projections.map(Projection::bytes).chain(convs).sum::<usize>() + self.norm.bytes() + vectors
    }
}
