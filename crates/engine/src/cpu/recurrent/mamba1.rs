//! Mamba: a selective scan of each channel.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::executor::Pass;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::profile::Kind;
use crate::spec::Mamba1;
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Gate, Glu, Selective, SelectiveInput};
use rinfer_kernels::{Act, Mat};

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
    fn run(
        &self,
        pass: &mut Pass<'_>,
        state: usize,
        buffers: &mut Buffers,
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let ctx = pass.ctx;
        let ([inner, z, raw, step, write, read, y], [conv, rank, gated]) = buffers.parts();
        let mut jobs = [self.x.job(inner, Store::Set), self.z.job(z, Store::Set)];
        pass.linear(Kind::Projections, x, &mut jobs);
        let how = self.conv.view();
        let cells = (pass.recurrent.state(state), 0);
        ops::conv(ctx, &how, pass.runs, inner, None, cells, conv.f32_mut());
        pass.clock.lap(Kind::State);
        let [to_rank, to_write, to_read] = &self.selects;
        let mut jobs = [
            to_rank.job(rank.f32_mut(), Store::Set),
            to_write.job(write, Store::Set),
            to_read.job(read, Store::Set),
        ];
        pass.linear(Kind::Projections, conv, &mut jobs);
        for (norm, x) in self.norms.iter().zip([rank.f32_mut(), &mut *write, &mut *read]) {
            if let Some(norm) = norm {
                let cols = x.cols();
                ops::norm_groups(ctx, &norm.view(), cols, x, 0..cols);
            }
        }
        pass.clock.lap(Kind::State);
        pass.linear(Kind::Projections, rank, &mut [self.step.job(raw, Store::Set)]);
        let softplus = Gate::Softplus { bias: None, least: 0.0, most: f32::INFINITY };
        ops::gate(ctx, softplus, raw, step);
        let how = Selective { state: self.shape.state, rates: &self.rates, skip: &self.skip };
        let input = SelectiveInput { x: conv.f32_mut(), step, write, read };
        let at = ops::Conv::floats(self.shape.conv, self.shape.inner);
        ops::selective(ctx, &how, pass.runs, &input, (pass.recurrent.state(state), at), y);
        ops::glu(ctx, Glu::Silu, z, Some(y), gated, self.out.reads_q8());
        pass.clock.lap(Kind::State);
        pass.linear(Kind::Projections, gated, &mut [self.out.job(out, store)]);
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
