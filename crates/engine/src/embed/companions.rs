//! What lies beside an embedding model's weights: how its rows are pooled, prompts, how long a text may be.
use crate::error::{Error, Result};
use crate::load::Opened;
use rinfer_formats::{Checkpoint, Folder, Module};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const PROMPTS: &str = "config_sentence_transformers.json";
const LENGTH: &str = "sentence_bert_config.json";

/// What a checkpoint says beside its weights of how texts are to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Companions {
    /// Texts that go before one, by name.
    pub prompts: BTreeMap<String, String>,
    /// The one that goes before a text if no other is asked for.
    pub default_prompt: Option<String>,
    /// Tokens of a text, as the model was trained.
    pub most: Option<usize>,
    /// Whether texts are read in lower case.
    pub lower: bool,
    /// Widths that a vector may be cut to, if the files list them.
    pub dimensions: Vec<usize>,
}

impl Companions {
    /// Of a checkpoint: GGUF files have none.
    ///
    /// # Errors
    /// A file or field that can't be.
    pub fn of(opened: &Opened) -> Result<Companions> {
        let folder = match (&opened.files, &opened.about) {
            (Checkpoint::Folder(folder), _) => folder,
            (_, about) => {
                let kept = about.as_ref().and_then(|about| about.texts.clone());
                return Ok(kept.unwrap_or_default());
            }
        };
        let mut found = Companions::default();
        if let Some(object) = folder.object(PROMPTS)? {
            let wrong = |field: &str, value: &Value, expected| {
                wrong(folder, PROMPTS, field, value, expected)
            };
            if let Some(prompts) = object.get("prompts").filter(|v| !v.is_null()) {
                let expected = "an object with strings";
                let all = prompts.as_object().ok_or_else(|| wrong("prompts", prompts, expected))?;
                for (name, text) in all {
                    let text = text.as_str().ok_or_else(|| wrong("prompts", text, expected))?;
                    found.prompts.insert(name.clone(), text.to_owned());
                }
            }
            if let Some(name) = object.get("default_prompt_name").filter(|v| !v.is_null()) {
                let known = name.as_str().filter(|name| found.prompts.contains_key(*name));
                let expected = "the name of one of 'prompts'";
                let known = known.ok_or_else(|| wrong("default_prompt_name", name, expected))?;
                found.default_prompt = Some(known.to_owned());
            }
        }
        if let Some(object) = folder.object(LENGTH)? {
            if let Some(most) = object.get("max_seq_length").filter(|v| !v.is_null()) {
                let count = most.as_u64().filter(|n| (1..=1 << 24).contains(n));
                let expected = "a number of tokens";
                let wrong = || wrong(folder, LENGTH, "max_seq_length", most, expected);
                found.most = Some(count.ok_or_else(wrong)? as usize);
            }
            found.lower = object.get("do_lower_case") == Some(&Value::Bool(true));
        }
        if let Some(list) = folder.config().get("matryoshka_dimensions").and_then(Value::as_array) {
            found.dimensions = list.iter().filter_map(Value::as_u64).map(|n| n as usize).collect();
        }
        Ok(found)
    }
    /// What of it GGUF has no keys for.
    pub fn unsaid(&self) -> Option<String> {
        let names: Vec<&str> = self.prompts.keys().map(String::as_str).collect();
        let text = format!("prompts are left out, {}: write them into texts", names.join(", "));
        Some(text).filter(|_| !names.is_empty())
    }
}

/// What a folder's modules make of a model's rows, as hyper-parameters: of a config's key `pooling`.
///
/// # Errors
/// Modules that are not run, by name.
pub(crate) fn pooling(folder: &Folder) -> Result<Option<Value>> {
    let Some(modules) = folder.modules() else { return Ok(None) };
    let mut found = Map::new();
    let mut widths: Vec<Value> = Vec::new();
    for (i, module) in modules.iter().enumerate() {
        let last = found.contains_key("normalise");
        let pooled = found.contains_key("how");
        match (&*module.kind, i) {
            ("Transformer", 0) => {}
            ("Pooling", 1) => _ = found.insert("how".into(), how(folder, module)?.into()),
            ("Dense", _) if pooled && !last && i == widths.len() + 2 => {
                let (width, act, bias) = dense(folder, module)?;
                widths.push(width.into());
                found.insert(format!("dense_{i}_act"), act.into());
                found.insert(format!("dense_{i}_bias"), bias.into());
            }
            ("Normalize", _) if pooled && !last => {
                _ = found.insert("normalise".into(), true.into())
            }
            _ => {
                let expected =
                    "a Transformer, a Pooling, any number of Dense, and at most one Normalize";
                let kind = Value::from(module.kind.clone());
                return Err(wrong(folder, "modules.json", &format!("module {i}"), &kind, expected));
            }
        }
    }
    found.insert("widths".into(), widths.into());
    Ok(found.contains_key("how").then(|| json!({"pooling": found})))
}

/// Which rows a Pooling takes.
fn how(folder: &Folder, module: &Module) -> Result<&'static str> {
    let modes = [
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_lasttoken", "last"),
        ("pooling_mode_max_tokens", "max"),
    ];
    let file = format!("{}/config.json", module.path);
    let config = &module.config;
    let is = |key: &str| config.get(key) == Some(&Value::Bool(true));
    let on: Vec<&str> = config
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true))
        .map(|(key, _)| key.as_str())
        .collect();
    let known = modes.iter().find(|(key, _)| is(key)).filter(|_| on.len() == 1);
    let Some((_, how)) = known else {
        let expected = "one of pooling_mode_mean_tokens, _cls_token, _lasttoken and _max_tokens";
        return Err(wrong(folder, &file, "pooling_mode", &json!(on), expected));
    };
    match config.get("include_prompt") {
        Some(found @ Value::Bool(false)) => {
            let expected = "true: prompts are pooled with the text that they go before";
            Err(wrong(folder, &file, "include_prompt", found, expected))
        }
        _ => Ok(how),
    }
}

/// Width, activation and whether there is a bias.
fn dense(folder: &Folder, module: &Module) -> Result<(u64, &'static str, bool)> {
    let file = format!("{}/config.json", module.path);
    let field = |key: &str| module.config.get(key).cloned().unwrap_or_default();
    let (width, act) = (field("out_features"), field("activation_function"));
    let wrong_width = || wrong(folder, &file, "out_features", &width, "a width");
    let of = act.as_str().unwrap_or("torch.nn.modules.activation.Tanh");
    let act = match of.rsplit('.').next() {
        Some("Identity") => "identity",
        Some("Tanh") => "tanh",
        Some("GELU") => "gelu",
        _ => {
            let expected = "torch's Identity, Tanh or GELU";
            return Err(wrong(folder, &file, "activation_function", &act, expected));
        }
    };
    let bias = field("bias").as_bool().unwrap_or(true);
    Ok((width.as_u64().ok_or_else(wrong_width)?, act, bias))
}

fn wrong(folder: &Folder, file: &str, field: &str, found: &Value, expected: &str) -> Error {
    Error::Field {
        file: folder.path().join(file).display().to_string(),
        field: field.into(),
        found: found.to_string(),
        expected: expected.into(),
    }
}
