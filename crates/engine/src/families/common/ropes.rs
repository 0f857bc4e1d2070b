//! Rotary scalings that a class has where a config states none.
use crate::config::{Config, ConfigError, Source};
use serde_json::{Value, json};

/// The config with its class's rotary base and scaling, if it says nothing of a scaling: a config
/// that says null means the same.
///
/// # Errors
/// A base that the class would put aside for its own.
pub fn class_rope(c: &Config, theta: f64, scaling: &Value) -> Result<Config, ConfigError> {
    if c.source == Source::Gguf || c.get("rope_scaling").is_some() {
        return Ok(c.clone());
    }
    if c.get("rope_theta").is_some_and(|stated| stated.as_f64() != Some(theta)) {
        let expected = "the scaling that 'rope_theta' goes with, or 'default' for none";
        return Err(c.refuse("rope_scaling", expected));
    }
    Ok(c.with(json!({"rope_theta": theta, "rope_scaling": scaling})))
}

/// The YaRN of Mistral's classes, by so much of so long a context.
pub fn mistral_yarn(factor: f64, original: usize) -> Value {
    json!({
        "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0,
        "llama_4_scaling_beta": 0.1,
    })
}
