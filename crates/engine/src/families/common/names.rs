//! Names that many families share.
use crate::families::Rename::{self, *};

/// What names begin with, and do not in a checkpoint of a model without its head.
pub const OUTER: [&str; 5] = ["model.", "transformer.", "backbone.", "bert.", "roberta."];

/// Of sentence-transformers' modules after the model.
pub const MODULES: &[Rename] = &[To("modules.{}.linear", "dense_{}")];

/// What a fused projection of queries, keys and values is cut into.
pub const QKV: &[&str] = &["blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v"];

/// Of GGUF files whose converter leaves queries, keys and values in one.
pub const FUSED: &[Rename] = &[Split("blk.{}.attn_qkv", QKV)];

/// Of GGUF files whose converter leaves an MLP's gate before what it multiplies.
pub const GATE_UP: &[Rename] = &[Split("blk.{}.ffn_up", &["blk.{}.ffn_gate", "blk.{}.ffn_up"])];

/// Layers that predict further tokens, which are not run.
pub const PREDICTING: &[Rename] = &[Ignore("model.layers.{past}.*")];

/// The same in GGUF.
pub const GGUF_PREDICTING: &[Rename] = &[Ignore("blk.{past}.*")];

/// Of nearly every Hugging Face decoder.
pub const DECODER: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    To("model.norm", "output_norm"),
    To("lm_head", "output"),
    To("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"),
    To("model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"),
    To("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    To("model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"),
    To("model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"),
    Ignore("model.layers.{}.self_attn.rotary_emb.inv_freq"),
    Ignore("model.rotary_emb.inv_freq"),
];

/// Of decoders whose branches are normed after them alone: before [`DECODER`].
pub const POST_NORMS: &[Rename] = &[
    To("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"),
    To("model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"),
];
