//! Linear attention with a fixed decay a head.
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::executor::Pass;
use crate::cpu::mlp::glu;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::profile::Kind;
use crate::spec::Lightning;
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Glu, LinearState, LinearStateInput};
use rinfer_kernels::{Act, Mat};

/// One lightning attention, resolved.
pub(super) struct LightningStep {
    shape: Lightning,
    /// To queries, keys and values.
    qkv: [Projection; 3],
    act: Glu,
    /// By head.
    decays: Vec<f32>,
    norm: Option<NormWeights>,
    gate: Projection,
    out: Projection,
}

/// Its widths: queries, keys and values before their activation, the gate, the state's output;
/// queries, keys and values after, the gated output.
pub(super) fn shape(l: &Lightning) -> Shape {
    let n = l.heads * l.head_dim;
    let floats = LinearState::floats(l.heads, l.head_dim, l.head_dim);
    Shape { floats, mats: vec![n; 5], acts: vec![n; 4] }
}

impl LightningStep {
    pub fn new(i: usize, l: &Lightning, packer: &Packer<'_>) -> Result<LightningStep, LoadError> {
        let project = |part| Projection::new(&layer(i, part), false, packer);
        Ok(LightningStep {
            qkv: [project("attn_q")?, project("attn_k")?, project("attn_v")?],
            act: glu(l.act),
            decays: l.slopes.iter().map(|slope| libm::expf(-slope)).collect(),
            norm: NormWeights::new(Some(&l.norm), &layer(i, "attn_sub_norm"), packer)?,
            gate: project("attn_gate")?,
            out: project("attn_output")?,
            shape: l.clone(),
        })
    }
}

impl Mixer for LightningStep {
    fn run(
        &self,
        pass: &mut Pass<'_>,
        state: usize,
        buffers: &mut Buffers,
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let (ctx, heads, dim) = (pass.ctx, self.shape.heads, self.shape.head_dim);
        let ([q0, k0, v0, z, y], [q, k, v, gated]) = buffers.parts();
        let [to_q, to_k, to_v] = &self.qkv;
        let mut jobs = [
            to_q.job(q0, Store::Set),
            to_k.job(k0, Store::Set),
            to_v.job(v0, Store::Set),
            self.gate.job(z, Store::Set),
        ];
        pass.linear(Kind::Projections, x, &mut jobs);
        for (raw, out) in [(q0, &mut *q), (k0, &mut *k), (v0, &mut *v)] {
            ops::glu(ctx, self.act, raw, None, out, false);
        }
        let skip = None;
        let how = LinearState { heads, values: dim, keys: dim, groups: heads, skip };
        let input = LinearStateInput {
            values: v.f32_mut().all(),
            write: k.f32_mut().all(),
            read: q.f32_mut().all(),
            step: None,
            decay: Err(&self.decays),
        };
        ops::linear_state(ctx, &how, pass.runs, &input, (pass.recurrent.state(state), 0), y);
        if let Some(norm) = &self.norm {
            ops::norm_groups(ctx, &norm.view(), heads * dim, y, 0..heads * dim);
        }
        ops::glu(ctx, Glu::Sigmoid, z, Some(y), gated, self.out.reads_q8());
        pass.clock.lap(Kind::State);
        pass.linear(Kind::Projections, gated, &mut [self.out.job(out, store)]);
    }
    fn reads_q8(&self) -> bool {
        self.qkv.iter().chain([&self.gate]).any(Projection::reads_q8)
    }
    fn bytes(&self) -> usize {
        let projections = self.qkv.iter().chain([&self.gate, &self.out]).map(Projection::bytes);
        projections.chain(self.norm.iter().map(NormWeights::bytes)).sum()
    }
}
