//! Ling, by inclusionAI: Llama with experts; from 2.0 on with norms of queries and keys and
//! DeepSeek-V3's router. Ling Team 2025, arXiv:2503.05139, arXiv:2510.22115.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::{EXPERTS, after_dense, by_sigmoid, by_softmax};
use super::common::names::{DECODER, PREDICTING, QKV};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

/// Both versions call themselves so; the second says that its scores are sigmoids.
pub static BAILING_MOE: Family = Family {
    name: "bailing_moe",
    hf: &["bailing_moe", "bailing_moe_v2"],
    gguf: &["bailingmoe"],
    spec,
    names: &[PREDICTING, NAMES, EXPERTS, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    cfg.only(&[
        ("norm_head", json!(false)),
        ("norm_softmax", json!(false)),
        ("multi_gate", json!(false)),
        ("use_rmsnorm", json!(true)),
    ])?;
    let c = Common::read(cfg)?.permuted(cfg);
    let normed = cfg.flag("use_qk_norm", false)?;
    let attention = Attention {
        qk_norm: c.qk_norm().filter(|_| normed),
        qkv_bias: cfg.flag("use_qkv_bias", false)?,
        out_bias: cfg.flag("use_bias", false)?,
        ..c.attention()
    };
    let router = match cfg.text("score_function")? {
        Some("sigmoid") => {
            let select_bias = cfg.flag("moe_router_enable_expert_bias", true)?;
            Router { select_bias, ..by_sigmoid(cfg)? }
        }
        None | Some("softmax") => by_softmax(cfg.flag("norm_topk_prob", true)?),
        Some(_) => return Err(cfg.refuse("score_function", "softmax or sigmoid")),
    };
    let act = cfg.act("hidden_act", Act::Silu)?;
    let moe = c.moe(cfg, act, router)?.and_shared_by(cfg, "num_shared_experts")?;
    let attentions = (0..c.layers).map(|_| attention.clone());
    Ok(c.sparse_decoder(attentions, &c.gated(act), &moe, &after_dense(cfg, c.layers)?))
}

const NAMES: &[Rename] = &[
    To("model.word_embeddings", "token_embd"),
    Split("model.layers.{}.attention.query_key_value", QKV),
    To("model.layers.{}.attention.dense", "blk.{}.attn_output"),
    To("model.layers.{}.attention.query_layernorm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.attention.key_layernorm", "blk.{}.attn_k_norm"),
    To("model.layers.{}.mlp.gate.expert_bias", "blk.{}.exp_probs_b.bias"),
];
