//! Phi 3, 3.5 and 4: Llama with fused projections, a window or LongRoPE.
//! Abdin et al. 2024, arXiv:2404.14219, arXiv:2412.08905.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::{DECODER, FUSED, GATE_UP, QKV};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static PHI3: Family = Family {
    name: "phi3",
    hf: &["phi3"],
    gguf: &["phi3"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[FUSED, GATE_UP],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "rms_norm_eps": 1e-5, "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
    }));
    let cfg = &renamed(cfg)?;
    let c = Common::read(cfg)?;
    let attention = c.biased(cfg)?;
    let reaches = cfg.reaches(c.layers, |_| true)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    Ok(c.decoder(attentions, &mlp))
}

/// LongRoPE was called `yarn` once, which means another scaling elsewhere.
fn renamed(cfg: &Config) -> Result<Config, ConfigError> {
    let keys = ["rope_scaling.rope_type", "rope_scaling.type"];
    let kind = keys.into_iter().find(|key| cfg.get(key).is_some());
    let yarn = kind.map(|key| cfg.text(key)).transpose()?.flatten() == Some("yarn");
    match cfg.get("rope_scaling").filter(|_| cfg.pick(yarn, false)).cloned() {
        Some(mut scaling) => {
            scaling["rope_type"] = json!("longrope");
            Ok(cfg.with(json!({"rope_scaling": scaling})))
        }
        None => Ok(cfg.clone()),
    }
}

const NAMES: &[Rename] = &[
    Split("model.layers.{}.self_attn.qkv_proj", QKV),
    Split("model.layers.{}.mlp.gate_up_proj", &["blk.{}.ffn_gate", "blk.{}.ffn_up"]),
];
