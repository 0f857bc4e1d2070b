//! The head: from the stream's wanted rows to logits.
//!
//! A head of integers reads a row as the sum of two of 8 bits, the second being what the first lost
//! by rounding. Nothing after the head evens an error out, and weights are read once for both.
use super::executor::Pass;
use super::order::Order;
use super::pack::Packer;
use super::plan::{NormWeights, q8};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Head, ModelSpec};
use rinfer_kernels::act::BLOCK;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Linear};
use rinfer_kernels::{Act, Mat, Packed};

/// Rows computed at a time, so that a vocabulary's width times a whole batch is never held.
const ROWS: usize = 16;

/// The head, resolved.
pub(crate) struct HeadStep {
    norm: Option<NormWeights>,
    /// In which the norm makes its output, if that is not the stream's.
    order: Option<Order>,
    /// None if the token embedding is the projection.
    output: Option<Packed>,
    bias: Option<Vec<f32>>,
    scale: f32,
    softcap: Option<f32>,
}

impl HeadStep {
    /// Of a model that gives logits.
    pub fn new(spec: &ModelSpec, packer: &Packer<'_>) -> Result<HeadStep, LoadError> {
        let Head::Lm { tied, bias, scale, softcap } = spec.head else {
            return Err(LoadError::Unsupported("a model without logits".into()));
        };
        Ok(HeadStep {
            norm: NormWeights::new(spec.final_norm.as_ref(), "output_norm", packer)?,
            order: packer.order("output_norm"),
            output: (!tied).then(|| packer.matrix("output.weight")).transpose()?,
            bias: bias.then(|| packer.vector("output.bias")).transpose()?,
            scale,
            softcap,
        })
    }

    /// Appends the logits of the stream's rows `wanted`.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        embed: &Packed,
        stream: &Mat,
        wanted: &[usize],
        b: &mut Buffers,
        out: &mut Vec<f32>,
    ) {
        let ctx = pass.ctx;
        let weights = self.output.as_ref().unwrap_or(embed);
        for wanted in wanted.chunks(ROWS) {
            b.rows.resize(wanted.len());
            for (i, row) in wanted.iter().enumerate() {
                b.rows.row_mut(i).copy_from_slice(stream.row(*row));
            }
            let norm = self.norm.as_ref().map(NormWeights::view);
            let (norm, q8) = (norm.as_ref(), q8(weights));
            match &self.order {
                Some(order) => ops::norm_in_order(ctx, norm, order, &b.rows, &mut b.normed, q8),
                None => ops::norm(ctx, norm, &b.rows, &mut b.normed, q8),
            }
            self.project(pass, weights, b);
            if let Some(cap) = self.softcap {
                ops::softcap(ctx, cap, &mut b.logits);
            }
            out.extend_from_slice(b.logits.data());
        }
        pass.clock.lap(Kind::Head);
    }

    fn project(&self, pass: &mut Pass<'_>, weights: &Packed, b: &mut Buffers) {
        let Buffers { normed, halves, logits, .. } = b;
        let (rows, vocab) = (normed.rows(), weights.rows());
        if q8(weights) {
            split(normed, halves);
            pass.linear(Kind::Head, halves, &mut [job(weights, logits)]);
            let (coarse, rest) = logits.data_mut().split_at_mut(rows * vocab);
            coarse.iter_mut().zip(rest).for_each(|(x, y)| *x += *y);
            logits.resize(rows);
        } else {
            pass.linear(Kind::Head, normed, &mut [job(weights, logits)]);
        }
        for row in logits.data_mut().chunks_mut(vocab) {
            if let Some(bias) = &self.bias {
                row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
            }
            if self.scale != 1.0 {
                row.iter_mut().for_each(|x| *x *= self.scale);
            }
        }
    }

    /// Bytes of weights held, the embedding's not among them.
    pub fn bytes(&self) -> usize {
        let norm = self.norm.as_ref().map_or(0, NormWeights::bytes);
        let bias = self.bias.as_ref().map_or(0, |b| 4 * b.len());
        let order = self.order.as_ref().map_or(0, |order| size_of_val(&order[..]));
        norm + order + bias + self.output.as_ref().map_or(0, |p| p.bytes().len())
    }
}

/// What a head writes on the way.
pub(crate) struct Buffers {
    rows: Mat,
    normed: Act,
    halves: Act,
    logits: Mat,
}

impl Buffers {
    /// For batches of up to `batch` rows.
    pub fn new(spec: &ModelSpec, batch: usize) -> Buffers {
        let (rows, d) = (batch.min(ROWS), spec.d_model);
        Buffers {
            rows: Mat::new(rows, d),
            normed: Act::new(rows, d),
            halves: Act::new(2 * rows, d),
            logits: Mat::new(2 * rows, spec.vocab),
        }
    }
    /// Elements to a row of logits.
    pub fn vocab(&self) -> usize {
        self.logits.cols()
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = self.rows.bytes() + self.logits.bytes();
        mats + self.normed.bytes() + self.halves.bytes()
    }
}

fn job<'a>(weights: &'a Packed, out: &'a mut Mat) -> Linear<'a> {
    Linear { weights, bias: None, store: Store::Set, out }
}

/// All rows, then what their 8-bit forms lost.
fn split(x: &Act, halves: &mut Act) {
    let rows = x.rows();
    halves.resize(2 * rows);
    let halves = halves.f32_mut();
    for i in 0..rows {
        let exact = x.view().row(i);
        halves.row_mut(i).copy_from_slice(exact);
        let rest = halves.row_mut(rows + i).chunks_mut(BLOCK).zip(exact.chunks(BLOCK));
        for ((rest, exact), block) in rest.zip(x.quantised(i)) {
            for ((rest, exact), code) in rest.iter_mut().zip(exact).zip(block.q) {
                *rest = exact - block.scale * f32::from(code);
            }
        }
    }
}
