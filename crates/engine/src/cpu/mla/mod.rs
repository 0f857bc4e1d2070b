//! Latent attention in its absorbed form: pages hold one compressed vector a position, which is key
//! and value of every head. A head's queries are multiplied with what would have made its keys of
//! that vector, and its result with what would have made its values.
mod buffers;
mod index;

pub(crate) use buffers::Latent;

use super::angles::Angles;
use super::branch::Line;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use super::scratch::place;
use crate::backend::LoadError;
use crate::spec::{Keys, Mla, ModelSpec};
use crate::state::{self, Cache};
use crate::weights::layer;
use buffers::shapes;
use index::IndexStep;
use rinfer_kernels::Packed;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{Attend, AttendRow, Heads, PerHead, Places, Rotate, Stage};

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
    /// Whether these lie with rows and columns swapped.
    across: bool,
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
            Keys::Chosen(indexer) => Some(IndexStep::new(spec, i, indexer, packer)?),
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
            across: packer.lies_across(&layer(i, "attn_k_b.weight")),
            v_b: packer.stack(&layer(i, "attn_v_b.weight"))?,
            gate: m.out_gate.map(|_| project("attn_gate", false)).transpose()?,
            o: project("attn_output", m.bias)?,
            index,
            pool,
            buffers: place(&shapes(spec), m, buffers::same),
        })
    }

    /// Adds `out (+)= attention(x)`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (s, cache): (&'a mut Latent, &'a mut Cache),
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let (ctx, n) = (line.chain.ctx(), line.rows.len());
        let Latent { buffers, index: indexers, chosen } = s;
        let b = &mut buffers[self.buffers];
        let (q, kv, mut latent) = (b.q.lend(n), b.kv.lend(n), b.q_latent.lend(ctx, n, false));
        self.project(line, x, (b.q_a.lend(n), &mut latent), q, kv);
        let chosen = (self.spec.keys != Keys::All).then(|| chosen.slot());
        let [own, next] = cache.layers(self.pool);
        let (group, pool) = own.expect("pages of its own");
        if let Some((index, chosen)) = self.index.as_ref().zip(chosen) {
            index.add(line, (indexers, next), x, &mut latent, chosen);
        }
        let (k, v, absorbed) = (b.k.lend(n), b.v.lend(n), b.absorbed.lend(n));
        line.chain.latent(self.kv_norm.view(), kv, k, v);
        let absorb = PerHead { weights: &self.k_b, across: self.across, kept: self.spec.rope_dim };
        line.per_head(absorb, q, &mut b.q_parts, absorbed);
        let rows = line.rows;
        let places = Places { rows, tables: line.groups[group].tables(), chosen, pool };
        let met = b.latent.lend(ctx, n, false);
        let heads = self.heads(line.angles, self.temperatures(rows, &mut b.scales));
        let how = (heads, attend(&self.spec));
        line.chain.attention(how, places, absorbed, Some((k, v)), &mut b.partial, met);
        let mut made = b.out.lend(ctx, n, false);
        let expand = PerHead { weights: &self.v_b, across: false, kept: 0 };
        line.per_head(expand, met.f32(), &mut b.latent_parts, made.f32());
        if let Some((gate, (gates, passed))) = self.gate.as_ref().zip(b.gated.as_mut()) {
            let (gates, passed) = (gates.lend(n), passed.lend(ctx, n, self.o.reads_q8_as_is()));
            line.product(x, gate, gates, Store::Set);
            line.chain.gate_heads(gates, made.f32(), passed);
            made = passed;
        }
        line.product(&mut made, &self.o, out, store);
    }

    /// Adds queries, through their compressed form if they have one, and compressed keys and values.
    fn project<'a>(
        &'a self,
        line: &mut Line<'a>,
        x: &mut ActSlot<'a>,
        (q_a, latent): (Slot<'a>, &mut ActSlot<'a>),
        q: Slot<'a>,
        kv: Slot<'a>,
    ) {
        let (to_q, to_kv) = (self.q.to(q, Store::Set), Some(self.kv_a.to(kv, Store::Set)));
        let Some((down, norm)) = &self.q_a else {
            return line.products(Stage::Products, x, &[Some(to_q), to_kv]);
        };
        let to_q_a = Some(down.to(q_a, Store::Set));
        line.products(Stage::Products, x, &[to_q_a, to_kv]);
        let index = self.index.as_ref().is_some_and(IndexStep::query_q8);
        *latent = latent.in_forms(self.q.reads_q8_as_is() || index);
        line.chain.norm(Some(norm.view()), None, q_a, *latent);
        line.products(Stage::Products, latent, &[Some(to_q)]);
    }

    /// What absorbed queries and compressed keys go through before they meet.
    fn heads<'a>(&self, angles: &'a [Angles], scales: Option<&'a [f32]>) -> Heads<'a> {
        let Mla { kv_rank, rope_dim, rope, .. } = self.spec;
        let rope = rope.map(|rope| angles[usize::from(rope.0)].view());
        let k = Rotate { head_dim: kv_rank + rope_dim, rope, ..Rotate::default() };
        let v = Rotate { head_dim: kv_rank, ..Rotate::default() };
        Heads { q: Rotate { scales, ..k }, k, v, v_from_k: false }
    }

    /// What the rows' queries are multiplied by, if that depends on their positions.
    fn temperatures<'a>(&self, rows: &[AttendRow], out: &'a mut Vec<f32>) -> Option<&'a [f32]> {
        let t = self.spec.temperature?;
        out.clear();
        out.extend(rows.iter().map(|row| t.at(row.pos)));
        Some(out)
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
