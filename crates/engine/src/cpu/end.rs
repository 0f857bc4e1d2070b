//! What becomes of the stream: logits of rows, or a vector a sequence.
use super::executor::Pass;
use super::head::{self, HeadStep};
use super::pack::Packer;
use super::pool::{self, PoolStep};
use crate::backend::{Limits, LoadError};
use crate::spec::{Head, ModelSpec};
use rinfer_kernels::{Mat, Packed};

/// The end of a pass, resolved.
pub(crate) enum End {
    Logits(HeadStep),
    Vectors(PoolStep),
}

impl End {
    /// Of a model.
    pub fn new(spec: &ModelSpec, packer: &Packer<'_>) -> Result<End, LoadError> {
        Ok(match &spec.head {
            Head::Lm { .. } => End::Logits(HeadStep::new(spec, packer)?),
            Head::Pool { .. } => End::Vectors(PoolStep::new(spec, packer)?),
        })
    }

    /// Appends what rows `wanted` of the stream give: their logits, or the vectors of the sequences that
    /// end in them.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        embed: &Packed,
        stream: &mut Mat,
        wanted: &[usize],
        buffers: &mut Buffers,
        out: &mut Vec<f32>,
    ) {
        match (self, buffers) {
            (End::Logits(head), Buffers::Logits(b)) => {
                head.run(pass, embed, stream, wanted, b, out);
            }
            (End::Vectors(pool), Buffers::Vectors(b)) => pool.run(pass, stream, wanted, b, out),
            _ => unreachable!("buffers of the same spec"),
        }
    }

    /// Bytes of weights held, the embedding's not among them.
    pub fn bytes(&self) -> usize {
        match self {
            End::Logits(head) => head.bytes(),
            End::Vectors(pool) => pool.bytes(),
        }
    }
}

/// What it writes on the way.
pub(crate) enum Buffers {
    Logits(head::Buffers),
    Vectors(pool::Buffers),
}

impl Buffers {
    /// For batches within `limits`.
    pub fn new(spec: &ModelSpec, limits: &Limits) -> Buffers {
        match &spec.head {
            Head::Lm { .. } => Buffers::Logits(head::Buffers::new(spec, limits.batch)),
            Head::Pool { .. } => Buffers::Vectors(pool::Buffers::new(spec)),
        }
    }
    /// Elements to a row of what is given.
    pub fn width(&self) -> usize {
        match self {
            Buffers::Logits(b) => b.vocab(),
            Buffers::Vectors(b) => b.width(),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Buffers::Logits(b) => b.bytes(),
            Buffers::Vectors(b) => b.bytes(),
        }
    }
}
