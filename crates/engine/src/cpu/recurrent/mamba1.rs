//! Mamba: a selective scan of each channel.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::branch::Line;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::spec::Mamba1;
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Seen, Slot, Store};
use rinfer_kernels::ops::{self, Gate, Glu, Selective, SelectiveInput, Stage};

/// One Mamba, resolved.
pub(super) struct Mamba1Step {
    shape: Mamba1,
    x: Projection,
    z: Projection,
    conv: Conv,
    /// To the compressed step, what is written and what is read.
    selects: [Projection; 3],
    norms: [Option<NormWeights>; 3],
    step: Projection,
    /// `[state, inner]`
    rates: Vec<f32>,
    skip: Vec<f32>,
    out: Projection,
}

/// Its widths: x, z, the step before and after its softplus, what is written, what is read, the
/// scan's output; the convolved x, the compressed step, the gated output.
pub(super) fn shape(m: &Mamba1) -> Shape {
    let (n, s) = (m.inner, m.state);
    Shape {
        floats: ops::Conv::floats(m.conv, n) + n * s,
        mats: vec![n, n, n, n, s, s, n],
        acts: vec![n, m.dt_rank, n],
    }
}

impl Mamba1Step {
    pub fn new(i: usize, m: &Mamba1, packer: &Packer<'_>) -> Result<Mamba1Step, LoadError> {
        let project = |part, bias| Projection::new(&layer(i, part), bias, packer);
        let norm = |part| NormWeights::new(m.norm.as_ref(), &layer(i, part), packer);
        let by_channel = packer.vector(&layer(i, "ssm_a"))?;
        let turned = |at: usize| by_channel[at % m.inner * m.state + at / m.inner];
        Ok(Mamba1Step {
            x: project("ssm_in_x", m.bias)?,
            z: project("ssm_in_z", m.bias)?,
            conv: Conv::new(&layer(i, "ssm_conv1d"), m.conv, m.conv_bias, true, packer)?,
            selects: [
                project("ssm_x_dt", false)?,
                project("ssm_x_b", false)?,
                project("ssm_x_c", false)?,
            ],
            norms: [norm("ssm_dt_norm")?, norm("ssm_b_norm")?, norm("ssm_c_norm")?],
            step: project("ssm_dt", true)?,
            rates: (0..by_channel.len()).map(turned).collect(),
            skip: packer.vector(&layer(i, "ssm_d"))?,
            out: project("ssm_out", m.bias)?,
            shape: m.clone(),
        })
    }
}

impl Mixer for Mamba1Step {
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (state, buffers): (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let ([inner, z, raw, step, write, read, y], [mut conv, mut rank, gated]) =
            buffers.lend(line.chain.ctx(), line.rows.len());
        let jobs = [self.x.to(inner, Store::Set), self.z.to(z, Store::Set)];
        line.products(Stage::Products, x, &jobs.map(Some));
        line.chain.conv(self.conv.view(), line.runs, inner, None, (state, 0), conv.f32());
        let [to_rank, to_write, to_read] = &self.selects;
        let jobs = [
            to_rank.to(rank.f32(), Store::Set),
            to_write.to(write, Store::Set),
            to_read.to(read, Store::Set),
        ];
        line.products(Stage::Products, &mut conv, &jobs.map(Some));
        for (norm, x) in self.norms.iter().zip([rank.f32(), write, read]) {
            if let Some(norm) = norm {
                line.chain.norm_groups(norm.view(), x.cols(), x);
            }
        }
        line.product(&mut rank, &self.step, raw, Store::Set);
        let softplus = Gate::Softplus { bias: None, least: 0.0, most: f32::INFINITY };
        line.chain.gate(Stage::State, softplus, raw, step);
        let how = Selective { state: self.shape.state, rates: &self.rates, skip: &self.skip };
        let [x, step, write, read] = [conv.f32(), step, write, read].map(Seen::from);
        let input = SelectiveInput { x, step, write, read };
        let at = ops::Conv::floats(self.shape.conv, self.shape.inner);
        line.chain.selective(how, line.runs, input, (state, at), y);
        let mut gated = gated.in_forms(self.out.reads_q8_as_is());
        line.chain.glu(Stage::State, Glu::Silu, z, Some(y.into()), gated);
        line.product(&mut gated, &self.out, out, store);
    }
    fn reads_q8(&self) -> bool {
        self.x.reads_q8() || self.z.reads_q8()
    }
    fn bytes(&self) -> usize {
        let projections = [&self.x, &self.z, &self.step, &self.out].into_iter();
        let projections = projections.chain(&self.selects).map(Projection::bytes);
        let norms = self.norms.iter().flatten().map(NormWeights::bytes);
        let vectors = 4 * (self.rates.len() + self.skip.len());
        projections.chain(norms).sum::<usize>() + self.conv.bytes() + vectors
    }
}
