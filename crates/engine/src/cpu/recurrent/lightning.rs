//! Linear attention with a fixed decay a head.
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::branch::Line;
use crate::cpu::mlp::glu;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::spec::Lightning;
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{Glu, LinearState, LinearStateInput, Stage};

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
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (state, buffers): (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let (heads, dim) = (self.shape.heads, self.shape.head_dim);
        let ([q0, k0, v0, z, y], [q, k, v, gated]) =
            buffers.lend(line.chain.ctx(), line.rows.len());
        let [to_q, to_k, to_v] = &self.qkv;
        let jobs = [
            to_q.to(q0, Store::Set),
            to_k.to(k0, Store::Set),
            to_v.to(v0, Store::Set),
            self.gate.to(z, Store::Set),
        ];
        line.products(Stage::Products, x, &jobs.map(Some));
        for (raw, out) in [(q0, q), (k0, k), (v0, v)] {
            line.chain.glu(Stage::State, self.act, raw, None, out);
        }
        let skip = None;
        let how = LinearState { heads, values: dim, keys: dim, groups: heads, skip };
        let input = LinearStateInput {
            values: v.f32().into(),
            write: k.f32().into(),
            read: q.f32().into(),
            step: None,
            decay: Err(&self.decays),
        };
        line.chain.linear_state(how, line.runs, input, (state, 0), y);
        if let Some(norm) = &self.norm {
            line.chain.norm_groups(norm.view(), heads * dim, y);
        }
        let mut gated = gated.in_forms(self.out.reads_q8_as_is());
        line.chain.glu(Stage::State, Glu::Sigmoid, z, Some(y.into()), gated);
        line.product(&mut gated, &self.out, out, store);
    }
    fn reads_q8(&self) -> bool {
        self.qkv.iter().chain([&self.gate]).any(Projection::reads_q8)
    }
    fn bytes(&self) -> usize {
        let projections = self.qkv.iter().chain([&self.gate, &self.out]).map(Projection::bytes);
        projections.chain(self.norm.iter().map(NormWeights::bytes)).sum()
    }
}
