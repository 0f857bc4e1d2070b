//! Softmax attention: projections, norms and rotation of heads, pages, output.
use super::angles::Angles;
use super::executor::Pass;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::place;
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Attention, ModelSpec, NormOver};
use crate::weights::layer;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Attend, AttentionScratch, Ctx, HeadNorm, Rotate};
use rinfer_kernels::{Act, Mat};

/// One attention, resolved.
pub(crate) struct AttentionStep {
    shape: Attend,
    q: Projection,
    k: Projection,
    v: Projection,
    o: Projection,
    q_norm: Option<NormWeights>,
    k_norm: Option<NormWeights>,
    /// Whether the norms are over each head, or over all together.
    per_head: bool,
    rope: Option<usize>,
    pool: usize,
    buffers: usize,
}

impl AttentionStep {
    /// Layer `i`'s attention, whose keys and values lie in `pool`.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        a: &Attention,
        pool: usize,
        packer: &Packer<'_>,
    ) -> Result<AttentionStep, LoadError> {
        let project = |part, bias| Projection::new(&layer(i, part), bias, packer);
        let norm = a.qk_norm.as_ref().map(|qk| &qk.norm);
        Ok(AttentionStep {
            shape: attend(a),
            q: project("attn_q", a.qkv_bias)?,
            k: project("attn_k", a.qkv_bias)?,
            v: project("attn_v", a.qkv_bias)?,
            o: project("attn_output", a.out_bias)?,
            q_norm: NormWeights::new(norm, &layer(i, "attn_q_norm"), packer)?,
            k_norm: NormWeights::new(norm, &layer(i, "attn_k_norm"), packer)?,
            per_head: a.qk_norm.is_none_or(|qk| qk.over == NormOver::Head),
            rope: a.rope.map(|r| usize::from(r.0)),
            pool,
            buffers: place(&shapes(spec), &attend(a), same),
        })
    }

    /// `out (+)= attention(x)`.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        angles: &[Angles],
        buffers: &mut [Buffers],
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let ctx = pass.ctx;
        let b = &mut buffers[self.buffers];
        let mut jobs = [
            self.q.job(&mut b.q, Store::Set),
            self.k.job(&mut b.k, Store::Set),
            self.v.job(&mut b.v, Store::Set),
        ];
        pass.linear(Kind::Projections, x, &mut jobs);
        self.rotate(ctx, angles, self.q_norm.as_ref(), &mut b.q);
        self.rotate(ctx, angles, self.k_norm.as_ref(), &mut b.k);
        pass.clock.lap(Kind::Rotate);
        let (group, pool) = pass.cache.layer(self.pool);
        ops::attention(
            ctx,
            &self.shape,
            pass.rows,
            pass.groups[group].tables(),
            &b.q,
            Some((&b.k, &b.v)),
            pool,
            &mut b.partial,
            &mut b.out,
            self.o.reads_q8(),
        );
        pass.clock.lap(Kind::Attention);
        pass.linear(Kind::Projections, &mut b.out, &mut [self.o.job(out, store)]);
    }

    fn rotate(&self, ctx: &Ctx, angles: &[Angles], norm: Option<&NormWeights>, x: &mut Mat) {
        let norm = norm.map(NormWeights::view);
        let norm = norm.map(if self.per_head { HeadNorm::PerHead } else { HeadNorm::Whole });
        let rope = self.rope.map(|r| angles[r].view());
        if norm.is_some() || rope.is_some() {
            ops::rotate(ctx, &Rotate { head_dim: self.shape.head_dim, norm, rope }, x);
        }
    }

    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        [&self.q, &self.k, &self.v].iter().any(|p| p.reads_q8())
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let norms = [&self.q_norm, &self.k_norm].into_iter().flatten().map(NormWeights::bytes);
        let projections = [&self.q, &self.k, &self.v, &self.o].map(Projection::bytes);
        norms.chain(projections).sum()
    }
}

/// What an attention writes on the way, shared by all of one shape.
pub(crate) struct Buffers {
    q: Mat,
    k: Mat,
    v: Mat,
    partial: AttentionScratch,
    out: Act,
}

impl Buffers {
    /// For batches of up to `rows` rows over up to `context` positions.
    pub fn new(shape: &Attend, rows: usize, context: usize, threads: usize) -> Buffers {
        let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        Buffers {
            q: Mat::new(rows, q),
            k: Mat::new(rows, kv),
            v: Mat::new(rows, kv),
            partial: AttentionScratch::new(shape, rows, context, threads),
            out: Act::new(rows, q),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = [&self.q, &self.k, &self.v].map(Mat::bytes).iter().sum::<usize>();
        mats + self.partial.bytes() + self.out.bytes()
    }
}

/// The distinct shapes of a model's attentions.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<Attend> {
    super::scratch::distinct(spec.attentions().map(attend), same)
}

fn same(a: &Attend, b: &Attend) -> bool {
    let of = |x: &Attend| (x.heads, x.kv_heads, x.head_dim);
    of(a) == of(b)
}

fn attend(a: &Attention) -> Attend {
    Attend {
        heads: a.heads,
        kv_heads: a.kv_heads,
        head_dim: a.head_dim,
        scale: a.scale,
        window: a.reach.most(),
        softcap: a.softcap,
    }
}
