//! SmolLM 3. Bakouch et al. 2025, huggingface.co/blog/smollm3. Llama, but that every few layers one
//! does not rotate (Yang et al. 2025, arXiv:2501.18795).
use super::Family;
use super::common::Common;
use super::common::names::DECODER;
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
    let rotates = cfg.sizes("no_rope_layers")?;
    let every = cfg.size_or("no_rope_layer_interval", 4)?;
    if !rotates.is_empty() && rotates.len() < c.layers {
        return Err(cfg.refuse("no_rope_layers", &format!("{} numbers", c.layers)));
    }
    let rotates = |i: usize| rotates.get(i).map_or(!(i + 1).is_multiple_of(every), |r| *r != 0);
    let slides = cfg.flag("use_sliding_window", false)?;
    let reaches = cfg.reaches(c.layers, |i| slides && !rotates(i))?;
    let attention = c.biased(cfg)?;
    let mlp =
        Mlp { bias: cfg.flag("mlp_bias", false)?, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    let attentions = reaches.into_iter().enumerate().map(|(i, reach)| {
        let rope = attention.rope.filter(|_| rotates(i));
        Attention { reach, rope, ..attention.clone() }
    });
    Ok(c.decoder(attentions, &mlp))
}
