//! Latent attention in its absorbed form: pages hold one compressed vector a position, which is key
//! and value of every head. A head's queries are multiplied with what would have made its keys of
//! that vector, and its result with what would have made its values.
mod buffers;
mod index;

pub(crate) use buffers::Latent;

use super::angles::Angles;
use super::executor::Pass;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::place;
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Keys, Mla, ModelSpec};
use crate::state;
use crate::weights::layer;
use buffers::{Buffers, shapes};
use index::IndexStep;
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Attend, PerHead, Rotate};
use rinfer_kernels::{Act, Mat, Packed};

/// One latent attention, resolved.
pub(crate) struct MlaStep {
    spec: Mla,
    /// What compresses queries, if anything does.
    q_a: Option<(Projection, NormWeights)>,
    q: Projection,
    kv_a: Projection,
    kv_norm: NormWeights,
    /// What keys are made by, `[kv_rank, nope_dim]` a head.
    k_b: Vec<Packed>,
    /// What values are made by, `[v_dim, kv_rank]` a head.
    v_b: Vec<Packed>,
    gate: Option<Projection>,
    o: Projection,
    index: Option<IndexStep>,
    pool: usize,
    buffers: usize,
}

impl MlaStep {
    /// Layer `i`'s, the `nth` of all operations.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        m: &Mla,
        nth: usize,
        packer: &Packer<'_>,
    ) -> Result<MlaStep, LoadError> {
        let project = |part, bias| Projection::new(&layer(i, part), bias, packer);
        let norm = |part| NormWeights::new(Some(&m.norm), &layer(i, part), packer);
        let compresses = m.q_rank > 0;
        let pool = state::pool(spec, nth);
        let index = match &m.keys {
            Keys::Chosen(indexer) => Some(IndexStep::new(spec, i, indexer, pool + 1, packer)?),
            Keys::All | Keys::AsBefore => None,
        };
        let q_a = if compresses {
            norm("attn_q_a_norm")?.zip(Some(project("attn_q_a", m.bias)?)).map(|(n, p)| (p, n))
        } else {
            None
        };
        Ok(MlaStep {
            spec: m.clone(),
            q_a,
            q: project(if compresses { "attn_q_b" } else { "attn_q" }, false)?,
            kv_a: project("attn_kv_a_mqa", m.bias)?,
            kv_norm: norm("attn_kv_a_norm")?.expect("a norm"),
            k_b: packer.stack(&layer(i, "attn_k_b.weight"))?,
            v_b: packer.stack(&layer(i, "attn_v_b.weight"))?,
            gate: m.out_gate.map(|_| project("attn_gate", false)).transpose()?,
            o: project("attn_output", m.bias)?,
            index,
            pool,
            buffers: place(&shapes(spec), m, buffers::same),
        })
    }

    /// `out (+)= attention(x)`.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        angles: &[Angles],
        s: &mut Latent,
        x: &mut Act,
        out: &mut Mat,
        store: Store,
    ) {
        let b = &mut s.buffers[self.buffers];
        self.project(pass, angles, b, x);
        if let Some(index) = &self.index {
            index.run(pass, angles, &mut s.index, x, &mut b.q_latent, &mut s.chosen);
        }
        let shape = attend(&self.spec);
        let (group, pool) = pass.cache.layer(self.pool);
        let chosen = (self.spec.keys != Keys::All).then_some(&s.chosen);
        ops::attention(
            pass.ctx,
            &shape,
            pass.rows,
            pass.groups[group].tables(),
            chosen,
            &b.absorbed,
            Some((&b.k, &b.v)),
            pool,
            &mut b.partial,
            &mut b.latent,
            false,
        );
        pass.clock.lap(Kind::Attention);
        let expand = PerHead { weights: &self.v_b, kept: 0 };
        pass.per_head(&expand, b.latent.view(), &mut b.latent_parts, b.out.f32_mut());
        let mut heads = &mut b.out;
        if let Some((gate, (gates, gated))) = self.gate.as_ref().zip(b.gated.as_mut()) {
            pass.linear(Kind::Projections, x, &mut [gate.job(gates, Store::Set)]);
            ops::gate_heads(pass.ctx, gates, heads, gated, self.o.reads_q8());
            pass.clock.lap(Kind::Attention);
            heads = gated;
        }
        pass.linear(Kind::Projections, heads, &mut [self.o.job(out, store)]);
    }

    /// Queries, as they meet compressed vectors, and what the rows add to the pages.
    fn project(&self, pass: &mut Pass<'_>, angles: &[Angles], b: &mut Buffers, x: &mut Act) {
        let ctx = pass.ctx;
        let kv = self.kv_a.job(&mut b.kv, Store::Set);
        if let Some((down, norm)) = &self.q_a {
            pass.linear(Kind::Projections, x, &mut [down.job(&mut b.q_a, Store::Set), kv]);
            let q8 = self.q.reads_q8() || self.index.as_ref().is_some_and(IndexStep::query_q8);
            ops::norm(ctx, Some(&norm.view()), &b.q_a, &mut b.q_latent, q8);
            pass.clock.lap(Kind::Norm);
            pass.linear(
                Kind::Projections,
                &mut b.q_latent,
                &mut [self.q.job(&mut b.q, Store::Set)],
            );
        } else {
            pass.linear(Kind::Projections, x, &mut [self.q.job(&mut b.q, Store::Set), kv]);
        }
        ops::latent(ctx, &self.kv_norm.view(), &b.kv, &mut b.k, &mut b.v);
        pass.clock.lap(Kind::Norm);
        let absorb = PerHead { weights: &self.k_b, kept: self.spec.rope_dim };
        pass.per_head(&absorb, b.q.view(), &mut b.q_parts, &mut b.absorbed);
        let head_dim = self.spec.kv_rank + self.spec.rope_dim;
        let rope = self.spec.rope.map(|rope| angles[usize::from(rope.0)].view());
        let scales = self.spec.temperature.map(|t| {
            b.scales.clear();
            b.scales.extend(pass.rows.iter().map(|row| t.at(row.pos)));
            &b.scales[..]
        });
        let k = Rotate { head_dim, rope, ..Rotate::default() };
        for (how, x) in [(Rotate { scales, ..k }, &mut b.absorbed), (k, &mut b.k)] {
            if how.does_something() {
                ops::rotate(ctx, &how, x);
            }
        }
        pass.clock.lap(Kind::Rotate);
    }

    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        let first = self.q_a.as_ref().map_or(&self.q, |(down, _)| down);
        let index = self.index.as_ref().is_some_and(IndexStep::reads_q8);
        let gate = self.gate.as_ref().is_some_and(Projection::reads_q8);
        index || gate || first.reads_q8() || self.kv_a.reads_q8()
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let q_a = self.q_a.as_ref().map_or(0, |(down, norm)| down.bytes() + norm.bytes());
        let projections = [&self.q, &self.kv_a, &self.o].into_iter().chain(&self.gate);
        let projections = projections.map(Projection::bytes).sum::<usize>();
        let heads = self.k_b.iter().chain(&self.v_b).map(|w| w.bytes().len()).sum::<usize>();
        let index = self.index.as_ref().map_or(0, IndexStep::bytes);
        q_a + projections + heads + self.kv_norm.bytes() + index
    }
}

/// The attention over compressed vectors.
pub(crate) fn attend(m: &Mla) -> Attend<'static> {
    let plain = Attend::plain(m.heads, 1, m.kv_rank + m.rope_dim, m.scale);
    Attend { v_dim: m.kv_rank, ..plain }
}
