//! Mixtral, Llama with experts, and MiniMax-M2, whose router is DeepSeek-V3's without a scale.
//! Jiang et al. 2024, arXiv:2401.04088.
use super::Family;
use super::Rename::{self, *};
use super::common::experts::{by_sigmoid, by_softmax};
use super::common::names::DECODER;
use super::common::{Common, rotated};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static MIXTRAL: Family = Family {
    name: "mixtral",
    hf: &["mixtral"],
    gguf: &[],
    spec: mixtral,
    names: &[EXPERTS, DECODER],
    gguf_names: &[],
};
pub static MINIMAX_M2: Family = Family {
    name: "minimax_m2",
    hf: &["minimax_m2"],
    gguf: &["minimax-m2"],
    spec: minimax_m2,
    ..MIXTRAL
};

fn mixtral(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "num_local_experts": 8, "num_experts_per_tok": 2, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5, "rope_theta": 1e6,
    }));
    let c = Common::read(cfg)?.permuted(cfg);
    let moe = c.moe(cfg, cfg.act("hidden_act", Act::Silu)?, by_softmax(true))?;
    let reaches = cfg.reaches(c.layers, |_| true)?;
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..c.attention() });
    Ok(c.sparse_decoder(attentions, &moe.expert, &moe, &vec![true; c.layers]))
}

fn minimax_m2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "head_dim": 128, "rope_theta": 5e6, "num_key_value_heads": 8, "num_local_experts": 256,
        "num_experts_per_tok": 8,
    }));
    let mut c = Common::read(cfg)?;
    c.rope.dim = rotated(cfg, c.rope.dim, c.head_dim)?;
    let moe = c.moe(cfg, cfg.act("hidden_act", Act::Silu)?, by_sigmoid(cfg)?)?;
    let qk_norm = Some(QkNorm { norm: c.rms(), over: NormOver::Whole, after_rope: false });
    let attentions = (0..c.layers).map(|_| Attention { qk_norm, ..c.attention() });
    Ok(c.sparse_decoder(attentions, &moe.expert, &moe, &vec![true; c.layers]))
}

/// Of experts as Mixtral calls them.
pub const EXPERTS: &[Rename] = &[
    To("model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.block_sparse_moe.e_score_correction_bias", "blk.{}.exp_probs_b.bias"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w1", "blk.{}.ffn_gate_exps"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w2", "blk.{}.ffn_down_exps"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w3", "blk.{}.ffn_up_exps"),
];
