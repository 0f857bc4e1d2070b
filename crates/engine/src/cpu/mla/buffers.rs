//! What latent attentions write on the way, shared by all of one shape.
use super::attend;
use super::index::{self, IndexBuffers};
use crate::backend::Limits;
use crate::cpu::attention::scratch;
use crate::cpu::scratch::distinct;
use crate::spec::{Mla, ModelSpec, Op};
use rinfer_kernels::ops::{AttentionScratch, Chosen};
use rinfer_kernels::{Act, Mat};

/// Of all latent attentions of a model.
pub(crate) struct Latent {
    /// By shape.
    pub buffers: Vec<Buffers>,
    /// By shape of indexer.
    pub index: Vec<IndexBuffers>,
    /// The keys that were chosen last.
    pub chosen: Chosen,
}

impl Latent {
    /// For batches within `limits`, on `threads` threads.
    pub fn new(spec: &ModelSpec, limits: &Limits, threads: usize) -> Latent {
        let (shapes, indexers) = (shapes(spec), index::shapes(spec));
        let rows = if indexers.is_empty() { 0 } else { limits.batch };
        Latent {
            buffers: shapes.iter().map(|m| Buffers::new(m, limits, threads)).collect(),
            index: indexers.iter().map(|i| IndexBuffers::new(i, limits, threads)).collect(),
            chosen: Chosen::new(rows, limits.context),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(Buffers::bytes).sum();
        buffers + self.index.iter().map(IndexBuffers::bytes).sum::<usize>() + self.chosen.bytes()
    }
}

/// What one writes on the way.
pub(crate) struct Buffers {
    /// Compressed queries.
    pub q_a: Mat,
    /// The same, normed.
    pub q_latent: Act,
    pub q: Mat,
    /// Compressed keys and values, and the keys' rotating part.
    pub kv: Mat,
    pub k: Mat,
    pub v: Mat,
    /// The queries' parts that do not rotate, head by head.
    pub q_parts: Act,
    /// Queries that meet compressed keys.
    pub absorbed: Mat,
    pub partial: AttentionScratch,
    /// Sums of compressed values.
    pub latent: Act,
    pub latent_parts: Act,
    pub out: Act,
    /// A gate's logits, and what it lets through.
    pub gated: Option<(Mat, Act)>,
    /// What each row's queries are multiplied by.
    pub scales: Vec<f32>,
}

impl Buffers {
    fn new(m: &Mla, limits: &Limits, threads: usize) -> Buffers {
        let rows = limits.batch;
        let key = m.kv_rank + m.rope_dim;
        let shape = attend(m);
        Buffers {
            q_a: Mat::new(rows, m.q_rank),
            q_latent: Act::new(rows, m.q_rank),
            q: Mat::new(rows, m.heads * (m.nope_dim + m.rope_dim)),
            kv: Mat::new(rows, key),
            k: Mat::new(rows, key),
            v: Mat::new(rows, m.kv_rank),
            q_parts: Act::new(m.heads * rows, m.nope_dim),
            absorbed: Mat::new(rows, m.heads * key),
            partial: scratch(&shape, limits, threads),
            latent: Act::new(rows, m.heads * m.kv_rank),
            latent_parts: Act::new(m.heads * rows, m.kv_rank),
            out: Act::new(rows, m.heads * m.v_dim),
            gated: m.out_gate.map(|_| (Mat::new(rows, m.heads), Act::new(rows, m.heads * m.v_dim))),
            scales: Vec::with_capacity(if m.temperature.is_some() { rows } else { 0 }),
        }
    }
    fn bytes(&self) -> usize {
        let mats = [&self.q_a, &self.q, &self.kv, &self.k, &self.v, &self.absorbed];
        let acts = [&self.q_latent, &self.q_parts, &self.latent, &self.latent_parts, &self.out];
        let mats = mats.map(Mat::bytes).iter().sum::<usize>();
        let gated = self.gated.as_ref().map_or(0, |(gate, out)| gate.bytes() + out.bytes());
        let scales = 4 * self.scales.capacity() + gated;
        mats + acts.map(Act::bytes).iter().sum::<usize>() + scales + self.partial.bytes()
    }
}

/// The distinct shapes of a model's latent attentions.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<Mla> {
    let latent = |op: &Op| if let Op::Mla(m) = op { Some(m.clone()) } else { None };
    distinct(spec.ops().filter_map(latent), same)
}

/// Whether they can share buffers.
pub(crate) fn same(a: &Mla, b: &Mla) -> bool {
    let of = |m: &Mla| {
        let dims = [m.heads, m.q_rank, m.kv_rank, m.nope_dim, m.rope_dim, m.v_dim];
        (dims, m.out_gate, m.temperature.is_some())
    };
    of(a) == of(b)
}
