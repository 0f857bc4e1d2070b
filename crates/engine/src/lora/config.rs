//! An adapter's adapter_config.json: how what it adds is scaled, and what of it is not merged.
use crate::error::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What matters of it.
pub(super) struct Config {
    path: PathBuf,
    json: Value,
    /// Whether the base's matrices are `[in, out]`.
    pub turned: bool,
}

/// Keys that are read, or say how the adapter was made.
const KNOWN: [&str; 24] = [
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_dora",
    "use_rslora",
];

/// Whether a key's value says that there is nothing of it.
fn none(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text == "none",
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

impl Config {
    /// Of an adapter's folder.
    pub fn read(folder: &Path) -> Result<Config> {
        let path = folder.join("adapter_config.json");
        let wrong = |found: String| field(&path, "the file", found, "PEFT's adapter_config.json");
        let bytes = std::fs::read(&path).map_err(|e| wrong(format!("unreadable ({e})")))?;
        let json: Value =
            serde_json::from_slice(&bytes).map_err(|e| wrong(format!("no JSON ({e})")))?;
        let turned = json["fan_in_fan_out"] == true;
        let config = Config { path, json, turned };
        config.check()?;
        Ok(config)
    }

    /// Refuses what is not merged as LoRA is.
    fn check(&self) -> Result<()> {
        let refuse = |key: &str, expected: &str| {
            Err(field(&self.path, key, self.json[key].to_string(), expected))
        };
        if self.json["peft_type"] != "LORA" {
            return refuse("peft_type", "LORA");
        }
        for (key, value) in self.json.as_object().into_iter().flatten() {
            if !KNOWN.contains(&key.as_str()) && !none(value) {
                return refuse(key, "nothing: only what LoRA adds to matrices is merged");
            }
        }
        // These take their part out of the base, which then is another.
        let start = self.json["init_lora_weights"].as_str().unwrap_or_default();
        let plain = ["", "gaussian", "eva", "orthogonal", "true", "false"];
        if !plain.contains(&start) {
            return refuse("init_lora_weights", "a start that leaves the base as it is");
        }
        Ok(())
    }

    /// What a module's product is multiplied by, given its rank.
    pub fn scale(&self, module: &str) -> Result<impl Fn(usize) -> f32 + use<>> {
        let alpha = self.pattern("alpha_pattern", module)?.unwrap_or(&self.json["lora_alpha"]);
        let alpha = alpha
            .as_f64()
            .filter(|a| a.is_finite())
            .ok_or_else(|| field(&self.path, "lora_alpha", alpha.to_string(), "a number"))?;
        let root = self.json["use_rslora"] == true;
        Ok(move |rank: usize| {
            let rank = rank as f64;
            (alpha / if root { rank.sqrt() } else { rank }) as f32
        })
    }

    /// The value of the first of a map's keys that names the module or what it ends with.
    fn pattern(&self, key: &str, module: &str) -> Result<Option<&Value>> {
        for (pattern, value) in self.json[key].as_object().into_iter().flatten() {
            if pattern.contains(['*', '+', '?', '[', '(', '|', '\\', '{', '$']) {
                return Err(field(
                    &self.path,
                    key,
                    pattern.clone(),
                    "modules' names, not regular expressions",
                ));
            }
            let whole = pattern.strip_prefix('^').unwrap_or(pattern);
            let end = module.strip_suffix(whole).filter(|_| whole == pattern);
            if module == whole || end.is_some_and(|rest| rest.ends_with('.')) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

fn field(path: &Path, key: &str, found: String, expected: &str) -> Error {
    Error::Field {
        file: path.display().to_string(),
        field: key.into(),
        found,
        expected: expected.into(),
    }
}
