//! Llama 2 and 3, and Mistral, which is Llama with a window or with queries that grow with their
//! positions.
//! Touvron et al. 2023, arXiv:2307.09288; Grattafiori et al. 2024, arXiv:2407.21783;
//! Jiang et al. 2023, arXiv:2310.06825.
use super::Family;
use super::common::Common;
use super::common::names::DECODER;
use super::common::ropes::{class_rope, mistral_yarn};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static LLAMA: Family = Family {
    name: "llama",
    hf: &["llama"],
    gguf: &["llama"],
    spec,
    names: &[DECODER],
    gguf_names: &[],
};
pub static MISTRAL: Family = Family {
    name: "mistral",
    hf: &["mistral", "ministral", "ministral3"],
    gguf: &[],
    spec: mistral,
    ..LLAMA
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = Common::read(cfg)?.permuted(cfg);
    let attention = Attention { temperature: temperature(cfg)?, ..c.biased(cfg)? };
    let reaches = cfg.reaches(c.layers, |_| true)?;
    let mlp =
        Mlp { bias: cfg.flag("mlp_bias", false)?, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    Ok(c.decoder(attentions, &mlp))
}

fn mistral(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    if cfg.text("model_type")? == Some("ministral3") {
        let defaults = json!({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5});
        let yarn = mistral_yarn(16.0, 16_384);
        return spec(&class_rope(&cfg.with_defaults(defaults), 1e6, &yarn)?);
    }
    spec(&cfg.with_defaults(json!({"num_key_value_heads": 8, "sliding_window": 4096})))
}

fn temperature(cfg: &Config) -> Result<Option<Temperature>, ConfigError> {
    let Some(beta) = cfg.optional_positive("rope_scaling.llama_4_scaling_beta")? else {
        return Ok(None);
    };
    let period = cfg.size("rope_scaling.original_max_position_embeddings")? as f32;
    Ok(Some(Temperature { beta, period, offset: 0.0 }))
}
