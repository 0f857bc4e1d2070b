//! Latent attention's hyper-parameters in the vocabulary of Hugging Face's config.json.
use super::Gguf;
use crate::error::Error;
use serde_json::{Map, Value as Json};

/// The widths of a head, and which function scores experts. Files from before compressed vectors were
/// cached state the widths as those of keys and values.
pub(super) fn heads(gguf: &Gguf, name: &str, config: &mut Map<String, Json>) -> Result<(), Error> {
    if !config.contains_key("kv_lora_rank") {
        return Ok(());
    }
    let number = |key: &str| gguf.metadata().u32(&format!("{name}.{key}"));
    let width =
        |now, before| number(now).and_then(|n| n.map_or_else(|| number(before), |n| Ok(Some(n))));
    let rope = number("rope.dimension_count")?;
    let key = width("attention.key_length_mla", "attention.key_length")?;
    let value = width("attention.value_length_mla", "attention.value_length")?;
    let mut put = |hf: &str, value: Option<Json>| {
        if let Some(value) = value {
            config.insert(hf.to_owned(), value);
        }
    };
    put("qk_rope_head_dim", rope.map(Json::from));
    put("qk_nope_head_dim", key.zip(rope).map(|(key, rope)| key.saturating_sub(rope).into()));
    put("v_head_dim", value.map(Json::from));
    let sigmoid = number("expert_gating_func")? == Some(2);
    put("scoring_func", Some(if sigmoid { "sigmoid" } else { "softmax" }.into()));
    Ok(())
}
