//! The real-gated linear recurrence, with a second branch that gates its output.
use super::conv::Conv;
use super::{Buffers, Mixer, Shape};
use crate::backend::LoadError;
use crate::cpu::branch::Line;
use crate::cpu::mlp::glu;
use crate::cpu::pack::Packer;
use crate::cpu::plan::Projection;
use crate::spec::RgLru;
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{self, Glu, Stage};

/// What the sigmoid of the forget gate is multiplied by, beside the learned number.
const SHARPNESS: f32 = -8.0;

/// One recurrence, resolved.
pub(super) struct RgLruStep {
    shape: RgLru,
    x: Projection,
    y: Projection,
    conv: Conv,
    forget: Blocks,
    take: Blocks,
    bound: Vec<f32>,
    act: Glu,
    out: Projection,
}

/// A block-diagonal projection.
struct Blocks {
    /// `[blocks, in, out]`
    weights: Vec<f32>,
    bias: Vec<f32>,
}

/// Its widths: both branches, the convolved x, its gates, the state's output; the gated output.
pub(super) fn shape(r: &RgLru) -> Shape {
    let floats = ops::Conv::floats(r.conv, r.width) + r.width;
    Shape { floats, mats: vec![r.width; 6], acts: vec![r.width] }
}

impl Blocks {
    fn new(name: &str, packer: &Packer<'_>) -> Result<Blocks, LoadError> {
        Ok(Blocks {
            weights: packer.vector(&format!("{name}.weight"))?,
            bias: packer.vector(&format!("{name}.bias"))?,
        })
    }
    fn add<'a>(&'a self, line: &mut Line<'a>, blocks: usize, x: Slot<'a>, out: Slot<'a>) {
        line.chain.block_diagonal(blocks, (&self.weights, &self.bias), x, out);
    }
    fn bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.len())
    }
}

impl RgLruStep {
    pub fn new(i: usize, r: &RgLru, packer: &Packer<'_>) -> Result<RgLruStep, LoadError> {
        let project = |part| Projection::new(&layer(i, part), true, packer);
        let softplus = |x: &f32| x.max(0.0) + libm::log1pf(libm::expf(-x.abs()));
        let learned = packer.vector(&layer(i, "rec_a"))?;
        Ok(RgLruStep {
            x: project("rec_x")?,
            y: project("rec_y")?,
            conv: Conv::new(&layer(i, "rec_conv1d"), r.conv, true, false, packer)?,
            forget: Blocks::new(&layer(i, "rec_forget"), packer)?,
            take: Blocks::new(&layer(i, "rec_take"), packer)?,
            bound: learned.iter().map(|a| SHARPNESS * softplus(a)).collect(),
            act: glu(r.act),
            out: project("rec_out")?,
            shape: r.clone(),
        })
    }
}

impl Mixer for RgLruStep {
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (state, buffers): (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let r = &self.shape;
        let ([raw, side, x1, forget, take, y], [gated]) =
            buffers.lend(line.chain.ctx(), line.rows.len());
        let jobs = [self.x.to(raw, Store::Set), self.y.to(side, Store::Set)];
        line.products(Stage::Products, x, &jobs.map(Some));
        line.chain.conv(self.conv.view(), line.runs, raw, None, (state, 0), x1);
        self.forget.add(line, r.heads, x1, forget);
        self.take.add(line, r.heads, x1, take);
        let (forget, take) = (forget.into(), take.into());
        let input = ops::RgLru { x: x1.into(), forget, take, bound: &self.bound };
        let at = ops::Conv::floats(r.conv, r.width);
        line.chain.rg_lru(input, line.runs, (state, at), y);
        let mut gated = gated.in_forms(self.out.reads_q8_as_is());
        line.chain.glu(Stage::State, self.act, side, Some(y.into()), gated);
        line.product(&mut gated, &self.out, out, store);
    }
    fn reads_q8(&self) -> bool {
        self.x.reads_q8() || self.y.reads_q8()
    }
    fn bytes(&self) -> usize {
        let projections = [&self.x, &self.y, &self.out].map(Projection::bytes);
        let gates = self.forget.bytes() + self.take.bytes() + 4 * self.bound.len();
        projections.iter().sum::<usize>() + self.conv.bytes() + gates
    }
}
