//! The gated short convolution.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::executor::Pass;
use crate::cpu::pack::Packer;
use crate::cpu::plan::Projection;
use crate::profile::Kind;
use crate::spec::ShortConv;
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::{Act, Mat, ops};

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
    fn run(
        &self,
        pass: &mut Pass<'_>,
        state: usize,
        buffers: &mut Buffers,
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let ([before, after, input], [gated]) = buffers.parts();
        let [b, c, i] = &self.inputs;
        let mut jobs =
            [b.job(before, Store::Set), c.job(after, Store::Set), i.job(input, Store::Set)];
        pass.linear(Kind::Projections, x, &mut jobs);
        let cells = (pass.recurrent.state(state), 0);
        let gates = Some((&*before, &*after));
        let gated_rows = gated.f32_mut();
        ops::conv(pass.ctx, &self.conv.view(), pass.runs, input, gates, cells, gated_rows);
        pass.clock.lap(Kind::State);
        pass.linear(Kind::Projections, gated, &mut [self.out.job(out, store)]);
    }
    fn reads_q8(&self) -> bool {
        self.inputs.iter().any(Projection::reads_q8)
    }
    fn bytes(&self) -> usize {
        let projections = self.inputs.iter().chain([&self.out]).map(Projection::bytes);
        projections.sum::<usize>() + self.conv.bytes()
    }
}
