//! The learned residual of low rank.
use super::executor::Pass;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Laurel, ModelSpec, Op};
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Residual};
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
    /// `out (+)= x + norm(right(left(x)))`.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        buffers: &mut [Buffers],
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let Buffers { low, product } = &mut buffers[self.buffers];
        low.resize(x.rows());
        pass.linear(Kind::Projections, x, &mut [self.left.job(low.f32_mut(), Store::Set)]);
        pass.linear(Kind::Projections, low, &mut [self.right.job(product, Store::Set)]);
        if store == Store::Set {
            out.resize(x.rows());
            out.data_mut().fill(0.0);
        }
        out.data_mut().iter_mut().zip(x.view().data()).for_each(|(y, x)| *y += x);
        let post = self.norm.as_ref().map(NormWeights::view);
        let how = Residual { post, scale: 1.0, skip: None, then: 1.0 };
        ops::residual(pass.ctx, &how, product, out);
        pass.clock.lap(Kind::Norm);
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
