//! InternLM 1 to 3: Llama's arithmetic, biases in places of its own, and in 2 fused projections.
//! Cai et al. 2024, arXiv:2403.17297.
use super::Rename::{self, *};
use super::common::names::{DECODER, QKV};
use super::llama_like::{halves, spec};
use super::{Cut, Family, Per};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static INTERNLM: Family = Family {
    name: "internlm",
    hf: &["internlm"],
    gguf: &[],
    spec: internlm,
    names: &[DECODER],
    gguf_names: &[],
};
pub static INTERNLM2: Family = Family {
    name: "internlm2",
    hf: &["internlm2"],
    gguf: &["internlm2"],
    spec: internlm2,
    names: &[INTERNLM2_NAMES],
    gguf_names: &[],
};
pub static INTERNLM3: Family =
    Family { name: "internlm3", hf: &["internlm3"], spec: internlm3, ..INTERNLM };

fn internlm(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let theta = cfg.positive_or("rotary.base", 1e4)?;
    if !matches!(cfg.text("rotary.type")?, None | Some("origin" | "dynamic")) {
        return Err(cfg.refuse("rotary.type", "origin or dynamic"));
    }
    let cfg = cfg.with_defaults(json!({"bias": true, "rope_theta": theta}));
    halves(&cfg.with_aliases(&[("bias", "attention_bias")]))
}

fn internlm2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = cfg.with_defaults(json!({"bias": true}));
    // GGUF's converter permutes q and k rows for this architecture.
    let layout = cfg.laid(RopeLayout::Halves, RopeLayout::Pairs);
    spec(&cfg.with_aliases(&[("bias", "attention_bias")]), layout)
}

fn internlm3(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = cfg.with_defaults(json!({"qkv_bias": false, "bias": false}));
    let (of_qkv, of_out) = (("qkv_bias", "attention_bias"), ("bias", "attention_out_bias"));
    halves(&cfg.with_aliases(&[of_qkv, of_out, ("bias", "mlp_bias")]))
}

const INTERNLM2_NAMES: &[Rename] = &[
    To("model.tok_embeddings", "token_embd"),
    To("model.norm", "output_norm"),
    To("output", "output"),
    To("model.layers.{}.attention_norm", "blk.{}.attn_norm"),
    Cut("model.layers.{}.attention.wqkv", Cut::Heads(Per::KvHead), QKV),
    To("model.layers.{}.attention.wo", "blk.{}.attn_output"),
    To("model.layers.{}.ffn_norm", "blk.{}.ffn_norm"),
    To("model.layers.{}.feed_forward.w1", "blk.{}.ffn_gate"),
    To("model.layers.{}.feed_forward.w3", "blk.{}.ffn_up"),
    To("model.layers.{}.feed_forward.w2", "blk.{}.ffn_down"),
];
