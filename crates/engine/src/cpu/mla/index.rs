//! The indexer of a sparse attention: keys of its own, and each query's choice.
use crate::backend::{Limits, LoadError};
use crate::cpu::branch::Line;
use crate::cpu::pack::Packer;
use crate::cpu::plan::{NormWeights, Projection};
use crate::cpu::scratch::{distinct, place};
use crate::spec::{Indexer, Keys, Mla, ModelSpec, Op};
use crate::weights::layer;
use rinfer_kernels::Mat;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::kv::Pool;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{Choose, ChooseScratch, ChosenSlot, HeadNorm, Places, Rotate, Stage};

/// One indexer, resolved.
pub(crate) struct IndexStep {
    choose: Choose,
    /// Of the compressed query.
    q: Projection,
    /// Of the input.
    k: Projection,
    k_norm: Option<NormWeights>,
    /// The weights of heads, of the input.
    weights: Projection,
    rope: usize,
    buffers: usize,
}

impl IndexStep {
    /// Layer `i`'s, whose keys lie after its attention's.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        indexer: &Indexer,
        packer: &Packer<'_>,
    ) -> Result<IndexStep, LoadError> {
        let project = |part| Projection::new(&layer(i, part), false, packer);
        Ok(IndexStep {
            choose: choose(indexer),
            q: project("indexer.attn_q_b")?,
            k: project("indexer.attn_k")?,
            k_norm: NormWeights::new(Some(&indexer.norm), &layer(i, "indexer.k_norm"), packer)?,
            weights: project("indexer.proj")?,
            rope: usize::from(indexer.rope.0),
            buffers: place(&shapes(spec), indexer, same),
        })
    }

    /// Adds the choice of keys of each row, whose input is `x` and whose compressed query `q`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (buffers, layer): (&'a mut [IndexBuffers], Option<(usize, &'a mut Pool)>),
        x: &mut ActSlot<'a>,
        latent: &mut ActSlot<'a>,
        chosen: ChosenSlot<'a>,
    ) {
        let n = line.rows.len();
        let b = &mut buffers[self.buffers];
        let (q, weights, k) = (b.q.lend(n), b.weights.lend(n), b.k.lend(n));
        let (group, pool) = layer.expect("pages of an indexer's keys after those of its attention");
        let jobs = [self.k.to(k, Store::Set), self.weights.to(weights, Store::Set)].map(Some);
        line.products(Stage::Products, x, &jobs);
        line.product(latent, &self.q, q, Store::Set);
        let (head_dim, rope) = (self.choose.head_dim, Some(line.angles[self.rope].view()));
        let norm = self.k_norm.as_ref().map(NormWeights::view).map(HeadNorm::PerHead);
        line.chain.rotate(Rotate { head_dim, norm, rope, ..Rotate::default() }, k);
        line.chain.rotate(Rotate { head_dim, rope, ..Rotate::default() }, q);
        let (rows, tables) = (line.rows, line.groups[group].tables());
        let places = Places { rows, tables, chosen: None, pool };
        line.chain.choose(self.choose, places, [q, weights, k], &mut b.scratch, chosen);
    }

    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.k.reads_q8() || self.weights.reads_q8()
    }
    /// Whether the compressed query's is.
    pub fn query_q8(&self) -> bool {
        self.q.reads_q8()
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let projections = [&self.q, &self.k, &self.weights].map(Projection::bytes);
        let norm = self.k_norm.as_ref().map_or(0, NormWeights::bytes);
        projections.iter().sum::<usize>() + norm
    }
}

/// What an indexer writes on the way, shared by all of one shape.
pub(crate) struct IndexBuffers {
    q: Mat,
    weights: Mat,
    k: Mat,
    scratch: ChooseScratch,
}

impl IndexBuffers {
    /// For batches within `limits`, on `threads` threads.
    pub fn new(i: &Indexer, limits: &Limits, threads: usize) -> IndexBuffers {
        let rows = limits.batch;
        IndexBuffers {
            q: Mat::new(rows, i.heads * i.head_dim),
            weights: Mat::new(rows, i.heads),
            k: Mat::new(rows, i.head_dim),
            scratch: ChooseScratch::new(&choose(i), rows, limits.context, threads),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = [&self.q, &self.weights, &self.k].map(Mat::bytes);
        mats.iter().sum::<usize>() + self.scratch.bytes()
    }
}

/// The distinct shapes of a model's indexers.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<Indexer> {
    let indexer = |op: &Op| match op {
        Op::Mla(Mla { keys: Keys::Chosen(indexer), .. }) => Some(indexer.clone()),
        _ => None,
    };
    distinct(spec.ops().filter_map(indexer), same)
}

fn same(a: &Indexer, b: &Indexer) -> bool {
    (a.heads, a.head_dim) == (b.heads, b.head_dim)
}

fn choose(i: &Indexer) -> Choose {
    let root = |n: usize| 1.0 / (n as f32).sqrt();
    let (scale, weight_scale) = (root(i.head_dim), root(i.heads));
    Choose { heads: i.heads, head_dim: i.head_dim, top_k: i.top_k, scale, weight_scale }
}
