//! Mamba-2: a linear state a head.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::branch::Line;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::spec::Mamba2;
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Seen, Slot, Store};
use rinfer_kernels::ops::{self, Gate, Glu, LinearState, LinearStateInput, Plain, Stage};

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
    /// Adds the norm of groups of the state's output, if it is to be normed `now`.
    fn norm<'a>(&'a self, line: &mut Line<'a>, now: bool, x: Slot<'a>) {
        if let Some(norm) = self.norm.as_ref().filter(|_| now) {
            line.chain.norm_groups(norm.view(), self.shape.inner() / self.shape.groups, x);
        }
    }
}

impl Mixer for Mamba2Step {
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (state, buffers): (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let m = &self.shape;
        let ([z, raw, conv, dt, step, decay, y], [gated]) =
            buffers.lend(line.chain.ctx(), line.rows.len());
        let jobs =
            [self.z.to(z, Store::Set), self.x.to(raw, Store::Set), self.dt.to(dt, Store::Set)];
        line.products(Stage::Products, x, &jobs.map(Some));
        for (x, by) in
            [(z, m.scales[0]), (dt, m.scales[4])].into_iter().filter(|(_, by)| *by != 1.0)
        {
            line.chain.plain(Stage::State, Plain::Scale(by), x);
        }
        line.chain.conv(self.conv.view(), line.runs, raw, None, (state, 0), conv);
        let (least, most) = m.dt_limit;
        let softplus = Gate::Softplus { bias: Some(&self.dt_bias), least, most };
        line.chain.gate(Stage::State, softplus, dt, step);
        line.chain.gate(Stage::State, Gate::Exp { rate: &self.rates }, step, decay);
        let (inner, keys, conv) = (m.inner(), m.groups * m.state, Seen::from(conv));
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
            step: Some(step.into()),
            decay: Ok(decay.into()),
        };
        let at = ops::Conv::floats(m.conv, m.channels());
        line.chain.linear_state(how, line.runs, input, (state, at), y);
        self.norm(line, m.norm_before_gate, y);
        let last = m.norm_before_gate || self.norm.is_none();
        let mut gated = gated.in_forms(last && self.out.reads_q8_as_is());
        line.chain.glu(Stage::State, Glu::Silu, z, Some(y.into()), gated);
        self.norm(line, !m.norm_before_gate, gated.f32());
        line.product(&mut gated, &self.out, out, store);
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
