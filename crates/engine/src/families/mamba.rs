//! Mamba, Falcon Mamba and Mamba-2: layers of one mixer each.
//! Gu & Dao 2023, arXiv:2312.00752; Zuo et al. 2024, arXiv:2410.05355; Dao & Gu 2024,
//! arXiv:2405.21060. Falcon Mamba norms what selects, without weights.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::mixers::{MAMBA1_GGUF, MAMBA2_GGUF, PURE, mamba1, mamba2};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static MAMBA: Family = Family {
    name: "mamba",
    hf: &["mamba", "falcon_mamba"],
    gguf: &["mamba"],
    spec: mamba,
    names: &[ENDS, mamba1!("backbone.layers.{}.mixer.")],
    gguf_names: &[MAMBA1_GGUF],
};
pub static MAMBA2: Family = Family {
    name: "mamba2",
    hf: &["mamba2"],
    gguf: &["mamba2"],
    spec: spec_2,
    names: &[ENDS, mamba2!("backbone.layers.{}.mixer.")],
    gguf_names: &[MAMBA2_GGUF],
};

fn mamba(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let falcon =
        cfg.text("model_type")? == Some("falcon_mamba") || cfg.flag("ssm_dt_b_c_rms", false)?;
    let norm = Norm { weight: false, ..Norm::rms(cfg.positive_or("mixer_rms_eps", 1e-6)?) };
    let mixer = PURE.mamba1(cfg, falcon.then_some(norm))?;
    model(&cfg.with_defaults(json!({"tie_word_embeddings": true})), Op::Mamba1(mixer))
}

fn spec_2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let norm = Norm::rms(cfg.positive_or(cfg.pick("layer_norm_epsilon", "rms_norm_eps"), 1e-5)?);
    model(cfg, Op::Mamba2(PURE.mamba2(cfg, Some(norm))?))
}

/// Layers of one mixer, without attention or MLP, for which positions have no end.
fn model(cfg: &Config, mixer: Op) -> Result<ModelSpec, ConfigError> {
    let none = json!({"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2,
        "intermediate_size": 1});
    let defaults = json!({"layer_norm_epsilon": 1e-5, "max_position_embeddings": 1 << 20});
    let cfg = cfg.with(none).with_defaults(defaults);
    let c = Common::read(&cfg.with_aliases(&[("layer_norm_epsilon", "rms_norm_eps")]))?;
    let layer = vec![Branch::pre(c.rms(), mixer)];
    Ok(ModelSpec { ropes: Vec::new(), ..c.model((0..c.layers).map(|_| layer.clone())) })
}

const ENDS: &[Rename] = &[
    To("backbone.embeddings", "token_embd"),
    To("backbone.norm_f", "output_norm"),
    To("lm_head", "output"),
    To("backbone.layers.{}.norm", "blk.{}.attn_norm"),
];
