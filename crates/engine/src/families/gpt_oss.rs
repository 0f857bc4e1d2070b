//! gpt-oss: alternating local layers, attention sinks, biases everywhere, clamped experts.
//! OpenAI 2025, arXiv:2508.10925.
use super::Cut;
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::by_softmax;
use super::common::names::DECODER;
use super::common::ropes::class_rope;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::{Value, json};

pub static GPT_OSS: Family = Family {
    name: "gpt_oss",
    hf: &["gpt_oss"],
    gguf: &["gpt-oss"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[&[To("blk.{}.post_attention_norm", "blk.{}.ffn_norm")]],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "head_dim": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 15e4,
        "attention_bias": true, "num_local_experts": 128, "num_experts_per_tok": 4,
        "sliding_window": 128,
    }));
    cfg.only(&[("hidden_act", json!("silu"))])?;
    // A base that is stated goes with the class's scaling.
    let theta = cfg.get("rope_theta").and_then(Value::as_f64).unwrap_or(15e4);
    let cfg = &class_rope(
        cfg,
        theta,
        &json!({
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": false, "original_max_position_embeddings": 4096,
        }),
    )?;
    let c = Common::read(cfg)?;
    let attention = Attention { sinks: true, ..c.biased(cfg)? };
    let router = Router { score: Score::SoftmaxOfTopK, bias: true, ..by_softmax(false) };
    let limit = cfg.positive_or("swiglu_limit", 7.0)?;
    if cfg.float_or("swiglu_alpha", 1.702)? != 1.702 {
        return Err(cfg.refuse("swiglu_alpha", "1.702"));
    }
    let mut moe = c.moe(cfg, Act::SiluClamped { limit }, router)?;
    moe.expert.bias = true;
    let reaches = cfg.reaches(c.layers, |i| i % 2 == 0)?;
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    Ok(c.sparse_decoder(attentions, &moe.expert, &moe, &vec![true; c.layers]))
}

/// Experts are stored as columns, a gate's and an up's in turn; as rows where they are quantised.
const NAMES: &[Rename] = &[
    To("model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"),
    To("model.layers.{}.mlp.router", "blk.{}.ffn_gate_inp"),
    Cut(
        "model.layers.{}.mlp.experts.gate_up_proj",
        Cut::AlternateColumns,
        &["blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"],
    ),
    Cut(
        "model.layers.{}.mlp.experts.gate_up_proj_blocks",
        Cut::Alternate,
        &["blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"],
    ),
    To("model.layers.{}.mlp.experts.down_proj_blocks", "blk.{}.ffn_down_exps.weight"),
    Cut(
        "model.layers.{}.mlp.experts.gate_up_proj_bias",
        Cut::Alternate,
        &["blk.{}.ffn_gate_exps.bias", "blk.{}.ffn_up_exps.bias"],
    ),
    Cut("model.layers.{}.mlp.experts.down_proj", Cut::Columns, &["blk.{}.ffn_down_exps.weight"]),
    To("model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias"),
];
