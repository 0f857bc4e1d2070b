//! One vocabulary for a checkpoint's hyper-parameters: Hugging Face's keys, in the hub's spelling.
//! GGUF metadata and transformers 5's spelling are translated to it before a family sees it.
use serde_json::Value;

/// Where a checkpoint came from: what its tensors' conventions follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// config.json and safetensors.
    HuggingFace,
    /// GGUF: norms already plus one, q and k rows of Llama permuted to pairs.
    Gguf,
}

/// A checkpoint's hyper-parameters.
#[derive(Debug, Clone)]
pub struct Config {
    json: Value,
    /// Where they came from.
    pub source: Source,
}

/// A hyper-parameter that is missing, or that no model can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("config key '{key}': found {found}, expected {expected}")]
pub struct ConfigError {
    /// In Hugging Face's spelling.
    pub key: String,
    /// As JSON, or "nothing".
    pub found: String,
    /// In words.
    pub expected: String,
}

impl Config {
    /// Over config.json's content, or its translation from GGUF.
    pub fn new(json: Value, source: Source) -> Config {
        Config { json, source }
    }
    /// The value at a dotted path, unless absent or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(&self.json, |v, k| v.get(k)).filter(|v| !v.is_null())
    }
}
