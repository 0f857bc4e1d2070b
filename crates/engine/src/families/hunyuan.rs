//! Hunyuan, dense. Tencent 2024, arXiv:2411.02265. Llama with norms of query and key heads after
//! their rotation, whose base grows with a scaling's `alpha` once and for all.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;

pub static HUNYUAN: Family = Family {
    name: "hunyuan",
    hf: &["hunyuan_v1_dense"],
    gguf: &["hunyuan-dense"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = read(cfg)?;
    let attention = attention(cfg, &c)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    Ok(c.decoder(std::iter::repeat_n(attention, c.layers), &mlp))
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    let mut c = Common::read(&cfg.with_defaults(serde_json::json!({"rms_norm_eps": 1e-5})))?;
    if let Some(alpha) = cfg.optional_positive("rope_scaling.alpha")? {
        let dim = c.rope.dim as f64;
        let grown = libm::pow(alpha.into(), dim / (dim - 2.0));
        c.rope.theta = (f64::from(c.rope.theta) * grown) as f32;
    }
    Ok(c)
}

fn attention(cfg: &Config, c: &Common) -> Result<Attention, ConfigError> {
    let normed = cfg.flag("use_qk_norm", true)?;
    let qk_norm = c.qk_norm().filter(|_| normed).map(|n| QkNorm { after_rope: true, ..n });
    Ok(Attention { qk_norm, ..c.biased(cfg)? })
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm"),
];
