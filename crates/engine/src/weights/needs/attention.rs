//! The tensors of softmax attentions.
use super::{List, Owner, layer};
use crate::spec::{Attention, Keys, Mla, NormOver, OutGate};

impl List {
    /// From rows of `width` to rows of `d`.
    pub(super) fn attention(&mut self, i: Owner, a: &Attention, [width, d]: [usize; 2]) {
        let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        let writes = a.kv_from.is_none();
        self.matrix(&layer(i, "attn_q"), q, width, a.qkv_bias);
        if writes {
            self.matrix(&layer(i, "attn_k"), kv, width, a.qkv_bias);
        }
        if writes && !a.v_from_k {
            self.matrix(&layer(i, "attn_v"), kv, width, a.qkv_bias);
        }
        if let Some(adapter) = a.adapter {
            for (part, rows) in [("q", q), ("k", kv), ("v", kv)] {
                let [first, second] = ["a", "b"].map(|m| format!("attn_{part}_lora_{m}"));
                self.adapter(i, adapter, &first, width, &[(&second, rows)]);
            }
        }
        if let Some(qk) = &a.qk_norm {
            let shape = |heads| match qk.over {
                NormOver::Head => vec![a.head_dim],
                NormOver::EachHead => vec![heads, a.head_dim],
                NormOver::Whole => vec![heads * a.head_dim],
            };
            self.norms(&layer(i, "attn_q_norm"), Some(&qk.norm), &shape(a.heads));
            if writes {
                self.norms(&layer(i, "attn_k_norm"), Some(&qk.norm), &shape(a.kv_heads));
            }
        }
        if let Some(gate) = a.out_gate {
            let rows = if gate == OutGate::PerHead { a.heads } else { q };
            self.matrix(&layer(i, "attn_gate"), rows, width, false);
        }
        if a.sinks {
            self.add(layer(i, "attn_sinks.weight"), vec![a.heads]);
        }
        self.matrix(&layer(i, "attn_output"), d, q, a.out_bias);
    }

    pub(super) fn mla(&mut self, i: usize, m: &Mla, d: usize) {
        let (q, norm) = (m.heads * (m.nope_dim + m.rope_dim), Some(&m.norm));
        if m.q_rank > 0 {
            self.matrix(&layer(i, "attn_q_a"), m.q_rank, d, m.bias);
            self.norm(&layer(i, "attn_q_a_norm"), norm, m.q_rank);
            self.matrix(&layer(i, "attn_q_b"), q, m.q_rank, false);
        } else {
            self.matrix(&layer(i, "attn_q"), q, d, false);
        }
        self.matrix(&layer(i, "attn_kv_a_mqa"), m.kv_rank + m.rope_dim, d, m.bias);
        self.norm(&layer(i, "attn_kv_a_norm"), norm, m.kv_rank);
        self.add(layer(i, "attn_k_b.weight"), vec![m.heads, m.kv_rank, m.nope_dim]);
        self.add(layer(i, "attn_v_b.weight"), vec![m.heads, m.v_dim, m.kv_rank]);
        if let Keys::Chosen(index) = &m.keys {
            let width = index.heads * index.head_dim;
            self.matrix(&layer(i, "indexer.attn_q_b"), width, m.q_rank, false);
            self.matrix(&layer(i, "indexer.attn_k"), index.head_dim, d, false);
            self.norm(&layer(i, "indexer.k_norm"), Some(&index.norm), index.head_dim);
            self.matrix(&layer(i, "indexer.proj"), index.heads, d, false);
        }
        if m.out_gate.is_some() {
            self.matrix(&layer(i, "attn_gate"), m.heads, d, false);
        }
        self.matrix(&layer(i, "attn_output"), d, m.heads * m.v_dim, m.bias);
    }
}
