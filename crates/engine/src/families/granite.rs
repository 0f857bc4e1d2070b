//! Llama with multiplied embeddings, residuals and logits: Granite 3 and MiniCPM 1 and 2.
//! Yang et al. 2022, arXiv:2203.03466; Hu et al. 2024, arXiv:2404.06395.
use super::Family;
use super::common::Common;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GRANITE: Family = Family {
    name: "granite",
    hf: &["granite"],
    gguf: &["granite"],
    spec: granite,
    names: &[DECODER],
    gguf_names: &[],
};
pub static MINICPM: Family =
    Family { name: "minicpm", hf: &["minicpm"], gguf: &["minicpm"], spec: minicpm, ..GRANITE };

fn granite(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = Common::read(cfg)?;
    let factor = |key| cfg.positive_or(key, 1.0);
    let scales = Scales {
        embedding: factor("embedding_multiplier")?,
        residual: factor("residual_multiplier")?,
        attention: cfg.positive_or("attention_multiplier", cfg.pick(1.0, c.attention().scale))?,
        logits: 1.0 / factor("logits_scaling")?,
    };
    scaled(cfg, c, &scales)
}

fn minicpm(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"tie_word_embeddings": true, "rms_norm_eps": 1e-6}));
    let c = Common::read(cfg)?;
    let depth = cfg.positive_or("scale_depth", 1.0)? / (c.layers as f32).sqrt();
    let base = cfg.positive_or("dim_model_base", 1.0)? / c.d_model as f32;
    let scales = Scales {
        embedding: cfg.positive_or(cfg.pick("scale_emb", "embedding_multiplier"), 1.0)?,
        residual: cfg.pick(depth, cfg.positive_or("residual_multiplier", 1.0)?),
        attention: c.attention().scale,
        logits: cfg.pick(base, 1.0 / cfg.positive_or("logits_scaling", 1.0)?),
    };
    scaled(cfg, c, &scales)
}

struct Scales {
    embedding: f32,
    residual: f32,
    attention: f32,
    logits: f32,
}

fn scaled(cfg: &Config, c: Common, by: &Scales) -> Result<ModelSpec, ConfigError> {
    let c = c.permuted(cfg);
    let attention = Attention { scale: by.attention, ..c.biased(cfg)? };
    let bias = cfg.flag("mlp_bias", false)?;
    let mlp = Mlp { bias, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    let ops = || [Op::Attention(attention.clone()), Op::Mlp(mlp.clone())];
    let branch = |op| Branch::pre(c.norm, op).scaled(by.residual);
    let mut spec = c.model((0..c.layers).map(|_| ops().map(branch).into()));
    spec.embed.scale = by.embedding;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale: by.logits, softcap: None };
    Ok(spec)
}
