//! The tensors of softmax attention.
use super::{List, layer};
use crate::spec::{Attention, NormOver};

impl List {
    pub(super) fn attention(&mut self, i: usize, a: &Attention, d: usize) {
        let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        self.matrix(&layer(i, "attn_q"), q, d, a.qkv_bias);
        self.matrix(&layer(i, "attn_k"), kv, d, a.qkv_bias);
        self.matrix(&layer(i, "attn_v"), kv, d, a.qkv_bias);
        if let Some(qk) = &a.qk_norm {
            let (q, k) = match qk.over {
                NormOver::Head => (a.head_dim, a.head_dim),
                NormOver::EachHead | NormOver::Whole => (q, kv),
            };
            self.norm(&layer(i, "attn_q_norm"), Some(&qk.norm), q);
            self.norm(&layer(i, "attn_k_norm"), Some(&qk.norm), k);
        }
        self.matrix(&layer(i, "attn_output"), d, q, a.out_bias);
    }
}
