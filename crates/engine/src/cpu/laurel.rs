//! The learned residual of low rank.
use super::branch::Line;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::spec::{Laurel, ModelSpec, Op};
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{Plain, Residual, Stage};
use rinfer_kernels::{Act, Mat};

/// One of them, resolved.
pub(crate) struct LaurelStep {
    left: Projection,
    right: Projection,
    norm: Option<NormWeights>,
    buffers: usize,
}

impl LaurelStep {
    /// Layer `i`'s.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        l: &Laurel,
        packer: &Packer<'_>,
    ) -> Result<LaurelStep, LoadError> {
        Ok(LaurelStep {
            left: Projection::new(&layer(i, "laurel_l"), false, packer)?,
            right: Projection::new(&layer(i, "laurel_r"), false, packer)?,
            norm: NormWeights::new(Some(&l.norm), &layer(i, "laurel_post_norm"), packer)?,
            buffers: place(&ranks(spec), &l.rank, usize::eq),
        })
    }
    /// Adds `out (+)= x + norm(right(left(x)))`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        buffers: &'a mut [Buffers],
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let (ctx, n) = (line.chain.ctx(), line.rows.len());
        let Buffers { low, product } = &mut buffers[self.buffers];
        let (mut low, product) = (low.lend(ctx, n, false), product.lend(n));
        line.product(x, &self.left, low.f32(), Store::Set);
        line.product(&mut low, &self.right, product, Store::Set);
        if store == Store::Set {
            line.chain.plain(Stage::Norm, Plain::Zero, out);
        }
        line.chain.plain(Stage::Norm, Plain::Add(x.f32().into()), out);
        let post = self.norm.as_ref().map(NormWeights::view);
        let how = Residual { post, scale: 1.0, skip: None, then: 1.0 };
        line.chain.residual(how, product, out);
    }
    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.left.reads_q8()
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.left.bytes() + self.right.bytes() + self.norm.as_ref().map_or(0, NormWeights::bytes)
    }
}

/// What one writes on the way, shared by all of one rank.
pub(crate) struct Buffers {
    low: Act,
    product: Mat,
}

impl Buffers {
    /// For batches of up to `rows` rows of `d_model`.
    pub fn new(rank: usize, d_model: usize, rows: usize) -> Buffers {
        Buffers { low: Act::new(rows, rank), product: Mat::new(rows, d_model) }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.low.bytes() + self.product.bytes()
    }
}

/// The distinct ranks of a model.
pub(crate) fn ranks(spec: &ModelSpec) -> Vec<usize> {
    let rank = |op: &Op| if let Op::Laurel(l) = op { Some(l.rank) } else { None };
    distinct(spec.ops().filter_map(rank), usize::eq)
}
