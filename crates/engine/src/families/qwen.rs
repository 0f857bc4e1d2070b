//! Qwen 2, 2.5 and 3, dense. Yang et al. 2024, arXiv:2407.10671; 2025, arXiv:2505.09388.
//! Qwen 2 is Llama with biases on q, k and v; Qwen 3 norms each query and key head instead.
use super::Family;
use super::common::Common;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static QWEN2: Family = Family {
    name: "qwen2",
    hf: &["qwen2"],
    gguf: &["qwen2"],
    spec: qwen2,
    names: &[DECODER],
    gguf_names: &[],
};
pub static QWEN3: Family =
    Family { name: "qwen3", hf: &["qwen3"], gguf: &["qwen3"], spec: qwen3, ..QWEN2 };

fn qwen2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = Common::read(cfg)?;
    model(cfg, &c, Attention { qkv_bias: true, ..c.attention() })
}

fn qwen3(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"head_dim": 128}));
    let c = Common::read(cfg)?;
    model(cfg, &c, Attention { qk_norm: c.qk_norm(), ..c.biased(cfg)? })
}

fn model(cfg: &Config, c: &Common, attention: Attention) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"sliding_window": 4096}));
    let slides = cfg.flag("use_sliding_window", false)?;
    let first = cfg.count_or("max_window_layers", 28)?;
    let reaches = cfg.reaches(c.layers, |i| slides && i >= first)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    Ok(c.decoder(attentions, &mlp))
}
