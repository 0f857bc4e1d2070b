//! The tensors of softmax attention.
use super::{List, layer};
use crate::spec::{Attention, NormOver, OutGate};

impl List {
    pub(super) fn attention(&mut self, i: usize, a: &Attention, d: usize) {
        let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        let writes = a.kv_from.is_none();
        self.matrix(&layer(i, "attn_q"), q, d, a.qkv_bias);
        if writes {
            self.matrix(&layer(i, "attn_k"), kv, d, a.qkv_bias);
            self.matrix(&layer(i, "attn_v"), kv, d, a.qkv_bias);
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
            self.matrix(&layer(i, "attn_gate"), rows, d, false);
        }
        if a.sinks {
            self.add(layer(i, "attn_sinks.weight"), vec![a.heads]);
        }
        self.matrix(&layer(i, "attn_output"), d, q, a.out_bias);
    }
}
