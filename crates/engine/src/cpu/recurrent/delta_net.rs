//! Linear attention with the gated delta rule.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::executor::Pass;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::profile::Kind;
use crate::spec::{self, Decay, DeltaNet};
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Delta, DeltaInput, Gate, Glu, Norm, NormKind};
use rinfer_kernels::{Act, Mat};

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
    fn run(&self, pass: &mut Pass<'_>, x: &mut Act, waist: &mut Act, out: &mut Mat) {
        let last = &mut [self.last.job(out, Store::Set)];
        match &self.first {
            None => pass.linear(Kind::Projections, x, last),
            Some(first) => {
                let job = first.job(waist.f32_mut(), Store::Set);
                pass.linear(Kind::Projections, x, &mut [job]);
                pass.linear(Kind::Projections, waist, last);
            }
        }
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
    /// Queries, keys and values through their convolutions, queries and keys then to a fixed length.
    fn convolve(&self, pass: &mut Pass<'_>, state: usize, raw: [&Mat; 3], out: [&mut Mat; 3]) {
        let mut at = 0;
        for (i, ((conv, raw), out)) in self.convs.iter().zip(raw).zip(out).enumerate() {
            let cells = (pass.recurrent.state(state), at);
            ops::conv(pass.ctx, &conv.view(), pass.runs, raw, None, cells, out);
            at += ops::Conv::floats(self.shape.conv, raw.cols());
            if let Some(weight) = self.lengths.get(i) {
                let eps = EPS / self.shape.k_dim as f32;
                let norm = Norm { kind: NormKind::Rms, eps, weight: Some(weight), bias: None };
                let cols = out.cols();
                ops::norm_groups(pass.ctx, &norm, self.shape.k_dim, out, 0..cols);
            }
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
    fn run(
        &self,
        pass: &mut Pass<'_>,
        state: usize,
        buffers: &mut Buffers,
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let (ctx, d) = (pass.ctx, &self.shape);
        let ([q0, k0, v0, q, k, v, f, decay, b, beta, z, y], [f_waist, z_waist, gated]) =
            buffers.parts();
        let [to_q, to_k, to_v] = &self.qkv;
        let mut jobs = [
            to_q.job(q0, Store::Set),
            to_k.job(k0, Store::Set),
            to_v.job(v0, Store::Set),
            self.beta.job(b, Store::Set),
        ];
        pass.linear(Kind::Projections, x, &mut jobs);
        self.decay.run(pass, x, f_waist, f);
        self.gate.run(pass, x, z_waist, z);
        self.convolve(pass, state, [q0, k0, v0], [q, k, v]);
        ops::gate(ctx, self.forget(), f, decay);
        ops::gate(ctx, Gate::Sigmoid { scale: d.beta }, b, beta);
        let input = DeltaInput { q: q.all(), k: k.all(), v: v.all(), decay, beta };
        let cells = (pass.recurrent.state(state), convs(d));
        ops::delta(ctx, &delta(d), pass.runs, &input, cells, y);
        let cols = y.cols();
        ops::norm_groups(ctx, &self.norm.view(), d.v_dim, y, 0..cols);
        let act = match d.gate {
            spec::Gate::Silu => Glu::Silu,
            spec::Gate::Sigmoid => Glu::Sigmoid,
        };
        ops::glu(ctx, act, z, Some(y), gated, self.out.reads_q8());
        pass.clock.lap(Kind::State);
        pass.linear(Kind::Projections, gated, &mut [self.out.job(out, store)]);
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
