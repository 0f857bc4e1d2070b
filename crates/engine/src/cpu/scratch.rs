//! Everything that a forward pass writes but state, allocated once.
use super::angles::Angles;
use super::order::Orders;
use super::{altup, attention, end, laurel, mla, mlp, moe, per_layer, recurrent};
use crate::backend::Limits;
use crate::spec::{ModelSpec, Part, Reads};
use rinfer_kernels::ops::Turned;
use rinfer_kernels::{Act, Mat};

/// The buffers of a pass.
pub(crate) struct Scratch {
    /// The residual stream, `[rows, d_model]`.
    pub stream: Mat,
    /// A branch's input.
    pub input: Act,
    /// A branch's output, where it does not join the stream as it is.
    pub branch: Mat,
    /// A part's output, where it does not join its branch's as it is.
    pub part: Mat,
    /// What a branch set aside.
    pub aside: Mat,
    /// The stream, and after it what the tokens entered it as.
    pub wide: Mat,
    /// The input of a branch that reads that.
    pub wide_input: Act,
    /// The rows of learned positions that a batch adds.
    pub places: Vec<u32>,
    /// By rotary table.
    pub angles: Vec<Angles>,
    /// By shape of attention.
    pub attention: Vec<attention::Buffers>,
    /// Of latent attentions.
    pub latent: mla::Latent,
    /// By shape of recurrent mixer.
    pub recurrent: Vec<recurrent::Buffers>,
    /// By width of MLP.
    pub mlp: Vec<mlp::Buffers>,
    /// By shape of mixture.
    pub moe: Vec<moe::Buffers>,
    /// By rank.
    pub laurel: Vec<laurel::Buffers>,
    /// What tokens give each layer besides.
    pub per_layer: Option<per_layer::Buffers>,
    /// Further streams.
    pub altup: Option<altup::Buffers>,
    /// Of what becomes of the stream.
    pub end: end::Buffers,
}

impl Scratch {
    /// For batches within `limits`, on `threads` threads.
    pub fn new(spec: &ModelSpec, orders: &Orders, limits: &Limits, threads: usize) -> Scratch {
        let (rows, d) = (limits.batch, spec.d_model);
        let attention = attention::shapes(spec);
        let bare = |part: &Part| part.post.is_none() && part.scale == 1.0;
        let branches = || spec.layers.iter().flatten();
        let mut parts = branches().flat_map(|branch| &branch.parts);
        let if_read = |what| if branches().any(|b| b.reads == what) { rows } else { 0 };
        let (aside, wide) = (if_read(Reads::Aside), if_read(Reads::StreamAndTokens));
        Scratch {
            stream: Mat::new(rows, d),
            input: Act::new(rows, d),
            branch: Mat::new(rows, d),
            part: Mat::new(if parts.all(bare) { 0 } else { rows }, d),
            aside: Mat::new(aside, d),
            wide: Mat::new(wide, 2 * d),
            wide_input: Act::new(wide, 2 * d),
            places: Vec::with_capacity(spec.embed.positions.map_or(0, |_| rows)),
            angles: spec.ropes.iter().map(|r| Angles::new(r, rows)).collect(),
            attention: attention
                .iter()
                .map(|a| attention::Buffers::new(a, limits, threads))
                .collect(),
            latent: mla::Latent::new(spec, limits, threads),
            recurrent: recurrent::shapes(spec)
                .iter()
                .map(|s| recurrent::Buffers::new(s, rows))
                .collect(),
            mlp: mlp::shapes(spec, orders)
                .iter()
                .map(|w| mlp::Buffers::new(*w, rows, threads))
                .collect(),
            moe: moe::shapes(spec).iter().map(|m| moe::Buffers::new(m, d, rows, threads)).collect(),
            laurel: laurel::ranks(spec).iter().map(|r| laurel::Buffers::new(*r, d, rows)).collect(),
            per_layer: per_layer::Buffers::new(spec, rows),
            altup: altup::Buffers::new(spec, rows),
            end: end::Buffers::new(spec, limits),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = [&self.stream, &self.branch, &self.part, &self.aside, &self.wide];
        let inputs = self.input.bytes() + self.wide_input.bytes();
        let ends = 4 * self.places.capacity() + self.end.bytes();
        let shared = mats.map(Mat::bytes).iter().sum::<usize>() + inputs + ends;
        let angles: usize = self.angles.iter().map(Angles::bytes).sum();
        let attention: usize = self.attention.iter().map(attention::Buffers::bytes).sum();
        let mlp: usize = self.mlp.iter().map(mlp::Buffers::bytes).sum();
        let moe: usize = self.moe.iter().map(moe::Buffers::bytes).sum();
        let recurrent: usize = self.recurrent.iter().map(recurrent::Buffers::bytes).sum();
        let laurel: usize = self.laurel.iter().map(laurel::Buffers::bytes).sum();
        let per_layer = self.per_layer.as_ref().map_or(0, per_layer::Buffers::bytes);
        let altup = self.altup.as_ref().map_or(0, altup::Buffers::bytes);
        let beside = laurel + per_layer + altup;
        shared + angles + attention + self.latent.bytes() + recurrent + mlp + moe + beside
    }
}

/// Inputs that are gathered, in batches within `limits`.
pub(crate) fn turned(orders: &Orders, limits: &Limits) -> Turned {
    Turned::new(orders.widths().iter().copied(), limits.batch)
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
