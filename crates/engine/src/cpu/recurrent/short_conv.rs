//! The gated short convolution.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::branch::Line;
use crate::cpu::pack::Packer;
use crate::cpu::plan::Projection;
use crate::spec::ShortConv;
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{self, Stage};

/// One short convolution, resolved.
pub(super) struct ShortConvStep {
    /// What gates the convolution's input, its output, and the input itself.
    inputs: [Projection; 3],
    conv: Conv,
    out: Projection,
}

/// Its widths: three inputs; the gated output.
pub(super) fn shape(s: &ShortConv, d_model: usize) -> Shape {
    let floats = ops::Conv::floats(s.width, d_model);
    Shape { floats, mats: vec![d_model; 3], acts: vec![d_model] }
}

impl ShortConvStep {
    pub fn new(i: usize, s: &ShortConv, packer: &Packer<'_>) -> Result<ShortConvStep, LoadError> {
        let project = |part| Projection::new(&layer(i, part), s.bias, packer);
        Ok(ShortConvStep {
            inputs: [
                project("shortconv.in_b")?,
                project("shortconv.in_c")?,
                project("shortconv.in_x")?,
            ],
            conv: Conv::new(&layer(i, "shortconv.conv"), s.width, s.bias, false, packer)?,
            out: project("shortconv.out_proj")?,
        })
    }
}

impl Mixer for ShortConvStep {
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (state, buffers): (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let ([before, after, input], [mut gated]) = buffers.lend(line.chain.ctx(), line.rows.len());
        let [b, c, i] = &self.inputs;
        let jobs = [b.to(before, Store::Set), c.to(after, Store::Set), i.to(input, Store::Set)];
        line.products(Stage::Products, x, &jobs.map(Some));
        let gates = Some((before, after));
        line.chain.conv(self.conv.view(), line.runs, input, gates, (state, 0), gated.f32());
        line.product(&mut gated, &self.out, out, store);
    }
    fn reads_q8(&self) -> bool {
        self.inputs.iter().any(Projection::reads_q8)
    }
    fn bytes(&self) -> usize {
        let projections = self.inputs.iter().chain([&self.out]).map(Projection::bytes);
        projections.sum::<usize>() + self.conv.bytes()
    }
}
