//! Everything that a forward pass writes but state, allocated once.
use super::angles::Angles;
use super::{attention, head, mlp, moe};
use crate::backend::Limits;
use crate::spec::ModelSpec;
use rinfer_kernels::{Act, Mat};

/// The buffers of a pass.
pub(crate) struct Scratch {
    /// The residual stream, `[rows, d_model]`.
    pub stream: Mat,
    /// A branch's input.
    pub input: Act,
    /// A branch's output, where it does not join the stream as it is.
    pub branch: Mat,
    /// By rotary table.
    pub angles: Vec<Angles>,
    /// By shape of attention.
    pub attention: Vec<attention::Buffers>,
    /// By width of MLP.
    pub mlp: Vec<mlp::Buffers>,
    /// By shape of mixture.
    pub moe: Vec<moe::Buffers>,
    /// Of the head.
    pub head: head::Buffers,
}

impl Scratch {
    /// For batches within `limits`, on `threads` threads.
    pub fn new(spec: &ModelSpec, limits: &Limits, threads: usize) -> Scratch {
        let (rows, d) = (limits.batch, spec.d_model);
        let attention = attention::shapes(spec);
        Scratch {
            stream: Mat::new(rows, d),
            input: Act::new(rows, d),
            branch: Mat::new(rows, d),
            angles: spec.ropes.iter().map(|r| Angles::new(r, rows)).collect(),
            attention: attention
                .iter()
                .map(|a| attention::Buffers::new(a, rows, limits.context, threads))
                .collect(),
            mlp: mlp::widths(spec).iter().map(|w| mlp::Buffers::new(*w, rows, threads)).collect(),
            moe: moe::shapes(spec).iter().map(|m| moe::Buffers::new(m, d, rows, threads)).collect(),
            head: head::Buffers::new(spec, rows),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let ends = self.stream.bytes() + self.branch.bytes() + self.head.bytes();
        let shared = self.input.bytes() + ends;
        let angles: usize = self.angles.iter().map(Angles::bytes).sum();
        let attention: usize = self.attention.iter().map(attention::Buffers::bytes).sum();
        let mlp: usize = self.mlp.iter().map(mlp::Buffers::bytes).sum();
        let moe: usize = self.moe.iter().map(moe::Buffers::bytes).sum();
        shared + angles + attention + mlp + moe
    }
}

/// The first of each kind, in order.
pub(crate) fn distinct<T>(all: impl Iterator<Item = T>, same: fn(&T, &T) -> bool) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for one in all {
        if !seen.iter().any(|s| same(s, &one)) {
            seen.push(one);
        }
    }
    seen
}

/// Where `one`'s kind is in what [`distinct`] gave.
pub(crate) fn place<T>(seen: &[T], one: &T, same: fn(&T, &T) -> bool) -> usize {
    seen.iter().position(|s| same(s, one)).unwrap_or_default()
}
