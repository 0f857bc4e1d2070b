//! SmolLM 3. Bakouch et al. 2025, huggingface.co/blog/smollm3. Llama, but that every few layers one
//! does not rotate (Yang et al. 2025, arXiv:2501.18795).
use super::Family;
use super::common::names::DECODER;
use super::common::{Common, rotating};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static SMOLLM3: Family = Family {
    name: "smollm3",
    hf: &["smollm3"],
    gguf: &["smollm3"],
    spec,
    names: &[DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "tie_word_embeddings": true, "rope_theta": 2e6, "num_key_value_heads": 4,
        "max_position_embeddings": 32_768,
    }));
    let c = Common::read(cfg)?.permuted(cfg);
    let rotates = rotating(cfg, c.layers, 4)?;
    let slides = cfg.flag("use_sliding_window", false)?;
    let reaches = cfg.reaches(c.layers, |i| slides && !rotates[i])?;
    let attention = c.biased(cfg)?;
    let mlp =
        Mlp { bias: cfg.flag("mlp_bias", false)?, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    let attentions = reaches.into_iter().zip(rotates).map(|(reach, rotates)| {
        let rope = attention.rope.filter(|_| rotates);
        Attention { reach, rope, ..attention.clone() }
    });
    Ok(c.decoder(attentions, &mlp))
}
