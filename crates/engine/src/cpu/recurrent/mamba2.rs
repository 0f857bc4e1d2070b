//! Mamba-2: a linear state a head.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape, scale};
use crate::backend::LoadError;
use crate::cpu::executor::Pass;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::profile::Kind;
use crate::spec::Mamba2;
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Gate, Glu, LinearState, LinearStateInput};
use rinfer_kernels::{Act, Mat};

/// One Mamba-2, resolved.
pub(super) struct Mamba2Step {
    shape: Mamba2,
    z: Projection,
    /// To x, B and C.
    x: Projection,
    dt: Projection,
    conv: Conv,
    dt_bias: Vec<f32>,
    rates: Vec<f32>,
    skip: Vec<f32>,
    norm: Option<NormWeights>,
    out: Projection,
}

/// Its widths: z; x, B and C before and after the convolution; the step before and after its
/// softplus, the decay; the state's output; the gated output.
pub(super) fn shape(m: &Mamba2) -> Shape {
    let (inner, conv, h) = (m.inner(), m.channels(), m.heads);
    Shape {
        floats: ops::Conv::floats(m.conv, conv) + LinearState::floats(m.heads, m.state, m.head_dim),
        mats: vec![inner, conv, conv, h, h, h, inner],
        acts: vec![inner],
    }
}

impl Mamba2Step {
    pub fn new(i: usize, m: &Mamba2, packer: &Packer<'_>) -> Result<Mamba2Step, LoadError> {
        let project = |part| Projection::new(&layer(i, part), m.bias, packer);
        let conv = Conv::new(&layer(i, "ssm_conv1d"), m.conv, m.conv_bias, true, packer)?;
        let [_, x, b, c, _] = m.scales;
        let (inner, keys) = (m.inner(), m.groups * m.state);
        Ok(Mamba2Step {
            z: project("ssm_in_z")?,
            x: project("ssm_in_x")?,
            dt: project("ssm_in_dt")?,
            conv: conv.of_scaled(|channel| match channel {
                _ if channel < inner => x,
                _ if channel < inner + keys => b,
                _ => c,
            }),
            dt_bias: packer.vector(&layer(i, "ssm_dt.bias"))?,
            rates: packer.vector(&layer(i, "ssm_a"))?,
            skip: packer.vector(&layer(i, "ssm_d"))?,
            norm: NormWeights::new(m.norm.as_ref(), &layer(i, "ssm_norm"), packer)?,
            out: project("ssm_out")?,
            shape: m.clone(),
        })
    }
    /// Norms the groups of the state's output, if it is to be normed `now`.
    fn norm(&self, pass: &Pass<'_>, now: bool, x: &mut Mat) {
        if let Some(norm) = self.norm.as_ref().filter(|_| now) {
            let inner = self.shape.inner();
            ops::norm_groups(pass.ctx, &norm.view(), inner / self.shape.groups, x, 0..inner);
        }
    }
}

impl Mixer for Mamba2Step {
    fn run(
        &self,
        pass: &mut Pass<'_>,
        state: usize,
        buffers: &mut Buffers,
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let (ctx, m) = (pass.ctx, &self.shape);
        let ([z, raw, conv, dt, step, decay, y], [gated]) = buffers.parts();
        let mut jobs =
            [self.z.job(z, Store::Set), self.x.job(raw, Store::Set), self.dt.job(dt, Store::Set)];
        pass.linear(Kind::Projections, x, &mut jobs);
        scale(z, m.scales[0]);
        scale(dt, m.scales[4]);
        let cells = (pass.recurrent.state(state), 0);
        ops::conv(ctx, &self.conv.view(), pass.runs, raw, None, cells, conv);
        let (least, most) = m.dt_limit;
        ops::gate(ctx, Gate::Softplus { bias: Some(&self.dt_bias), least, most }, dt, step);
        ops::gate(ctx, Gate::Exp { rate: &self.rates }, step, decay);
        let (inner, keys) = (m.inner(), m.groups * m.state);
        let how = LinearState {
            heads: m.heads,
            values: m.head_dim,
            keys: m.state,
            groups: m.groups,
            skip: Some(&self.skip),
        };
        let input = LinearStateInput {
            values: conv.columns(0..inner),
            write: conv.columns(inner..inner + keys),
            read: conv.columns(inner + keys..inner + 2 * keys),
            step: Some(step),
            decay: Ok(decay),
        };
        let at = ops::Conv::floats(m.conv, m.channels());
        ops::linear_state(ctx, &how, pass.runs, &input, (pass.recurrent.state(state), at), y);
        self.norm(pass, m.norm_before_gate, y);
        let last = m.norm_before_gate || self.norm.is_none();
        ops::glu(ctx, Glu::Silu, z, Some(y), gated, last && self.out.reads_q8());
        if !last {
            self.norm(pass, true, gated.f32_mut());
        }
        pass.clock.lap(Kind::State);
        pass.linear(Kind::Projections, gated, &mut [self.out.job(out, store)]);
    }
    fn reads_q8(&self) -> bool {
        [&self.z, &self.x, &self.dt].into_iter().any(Projection::reads_q8)
    }
    fn bytes(&self) -> usize {
        let projections = [&self.z, &self.x, &self.dt, &self.out].map(Projection::bytes);
        let vectors = [&self.dt_bias, &self.rates, &self.skip].map(|v| 4 * v.len());
        let norm = self.norm.as_ref().map_or(0, NormWeights::bytes);
        projections.into_iter().chain(vectors).sum::<usize>() + self.conv.bytes() + norm
    }
}
