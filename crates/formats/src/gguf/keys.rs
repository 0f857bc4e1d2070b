//! GGUF's hyper-parameters in the vocabulary of Hugging Face's config.json.
//!
//! What a file leaves to its readers is in `architectures`.
use super::architectures::{ARCHITECTURES, head_dim};
use super::names::KEYS;
use super::{Gguf, Value, latent};
use crate::error::Error;
use crate::tensor::Weights;
use serde_json::{Map, Value as Json, json};

/// Keys that stand by themselves, and what config.json or our reader of it calls them.
const GLOBAL: &[(&str, &str)] = &[
    ("xielu.alpha_p", "act_fn_alpha_p"),
    ("xielu.alpha_n", "act_fn_alpha_n"),
    ("xielu.beta", "act_fn_beta"),
    ("xielu.eps", "act_fn_eps"),
    ("tokenizer.ggml.bos_token_id", "bos_token_id"),
    ("tokenizer.ggml.eos_token_id", "eos_token_id"),
    ("tokenizer.ggml.padding_token_id", "pad_token_id"),
];

/// What the presence of a tensor, or of another, says.
const PRESENT: &[(&str, &str)] = &[
    ("blk.0.attn_q.bias", "attention_bias"),
    ("blk.0.attn_qkv.bias", "attention_bias"),
    ("blk.0.attn_output.bias", "attention_out_bias"),
    ("blk.0.attn_q_norm.weight", "use_qk_norm"),
    ("blk.0.ffn_up.bias", "mlp_bias"),
    ("blk.0.attn_norm_2.weight", "new_decoder_architecture"),
];

/// What every decoder of [`ARCHITECTURES`] must state.
const REQUIRED: &[&str] = &[
    "embedding_length",
    "block_count",
    "context_length",
    "feed_forward_length",
    "attention.head_count",
];

/// Of which it must state one.
const EPSILONS: [&str; 2] = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"];

/// Layers that are looked through: more than any model has.
const MOST_LAYERS: u64 = 4096;

/// Translates a file's metadata.
pub(super) fn config(gguf: &Gguf) -> Result<Json, Error> {
    let name = gguf.architecture()?;
    let architecture = ARCHITECTURES.iter().find(|a| a.gguf == name);
    let mut config = Map::new();
    config.insert("model_type".to_owned(), name.into());
    for (key, hf) in KEYS {
        translate(gguf, &format!("{name}.{key}"), hf, &mut config)?;
    }
    for (key, hf) in GLOBAL {
        translate(gguf, key, hf, &mut config)?;
    }
    for (tensor, hf) in PRESENT {
        let stated = config.entry(*hf).or_insert(false.into());
        *stated = (*stated == true || gguf.find(tensor).is_some()).into();
    }
    let values = |k: &str| k.strip_suffix("attn_k.weight").map(|at| format!("{at}attn_v.weight"));
    let reused = gguf.names().into_iter().filter_map(values).any(|v| gguf.find(&v).is_none());
    config.insert("attention_k_eq_v".to_owned(), reused.into());
    for (tensor, hf) in
        [("blk.0.laurel_l.weight", "laurel_rank"), ("token_types.weight", "type_vocab_size")]
    {
        if let Some(tensor) = gguf.get(tensor) {
            config.insert(hf.to_owned(), tensor.rows().into());
        }
    }
    layer_types(&mut config);
    config.insert("tie_word_embeddings".to_owned(), gguf.find("output.weight").is_none().into());
    vocabulary(gguf, &mut config)?;
    experts(gguf, &mut config);
    if let Some(scaling) = scaling(gguf, name)? {
        config.insert("rope_scaling".to_owned(), scaling);
    }
    unsaid(&mut config);
    if let Some(rotated) = gguf.metadata().u32(&format!("{name}.rope.dimension_count"))? {
        partial(rotated.into(), &mut config);
    }
    latent::heads(gguf, name, &mut config)?;
    if let Some(architecture) = architecture {
        let stated = |key: &&str| gguf.metadata().get(&format!("{name}.{key}")).is_some();
        let epsilon = EPSILONS.into_iter().find(stated).unwrap_or(EPSILONS[0]);
        for key in REQUIRED.iter().copied().chain([epsilon]) {
            let key = format!("{name}.{key}");
            gguf.metadata().required(&key, gguf.metadata().get(&key))?;
        }
        architecture.add(&mut config);
    }
    Ok(Json::Object(config))
}

/// Copies a number, or one number a layer.
fn translate(
    gguf: &Gguf,
    key: &str,
    hf: &str,
    config: &mut Map<String, Json>,
) -> Result<(), Error> {
    let expected = "a number, or an array of them";
    let value = gguf.metadata().typed(key, expected, |value| match value {
        Value::Array(array) => {
            array.scalars()?.map(or_null).collect::<Option<Vec<_>>>().map(Json::from)
        }
        scalar => number(scalar),
    })?;
    if let Some(value) = value {
        config.insert(hf.to_owned(), value);
    }
    Ok(())
}

/// A layer's own number; its lowest stands for none.
fn or_null(value: Value) -> Option<Json> {
    match value {
        Value::Float(f64::NEG_INFINITY) => Some(Json::Null),
        value => number(value),
    }
}

fn number(value: Value) -> Option<Json> {
    match value {
        Value::Unsigned(n) => Some(n.into()),
        Value::Signed(n) => Some(n.into()),
        Value::Bool(b) => Some(b.into()),
        Value::Float(n) => Some(n as f32).filter(|n| n.is_finite()).map(decimal),
        Value::Str(_) | Value::Array(_) => None,
    }
}

/// A finite f32 as the shortest decimal that gives it back: 0.00001, not 9.999999747378752e-6.
fn decimal(n: f32) -> Json {
    n.to_string().parse::<f64>().unwrap_or(f64::from(n)).into()
}

/// A pattern that says of each layer whether it slides, as Hugging Face says it.
fn layer_types(config: &mut Map<String, Json>) {
    let Some(Json::Array(pattern)) = config.get("sliding_window_pattern") else { return };
    let of = |slides: &Json| match slides.as_bool().or_else(|| Some(slides.as_u64()? != 0))? {
        true => Some("sliding_attention"),
        false => Some("full_attention"),
    };
    if let Some(types) = pattern.iter().map(of).collect::<Option<Vec<_>>>() {
        config.insert("layer_types".to_owned(), types.into());
        config.remove("sliding_window_pattern");
    }
}

/// The embedding's height; it may exceed the list of tokens by padding.
fn vocabulary(gguf: &Gguf, config: &mut Map<String, Json>) -> Result<(), Error> {
    let size = match gguf.get("token_embd.weight") {
        Some(embedding) => Some(embedding.rows()),
        None => gguf.metadata().strs("tokenizer.ggml.tokens")?.map(|t| t.len()),
    };
    if let Some(size) = size {
        config.insert("vocab_size".to_owned(), size.into());
    }
    Ok(())
}

/// What converters disagree on saying: how wide the experts are that every row visits, and which
/// layers have others.
fn experts(gguf: &Gguf, config: &mut Map<String, Json>) {
    let layers = config.get("num_hidden_layers").and_then(Json::as_u64).unwrap_or(0);
    let layers = 0..layers.min(MOST_LAYERS);
    let find = |i: u64, part| gguf.get(&format!("blk.{i}.{part}.weight"));
    if let Some(width) = layers.clone().rev().find_map(|i| find(i, "ffn_up_shexp")) {
        config.insert("shared_expert_intermediate_size".to_owned(), width.rows().into());
    }
    let kind = |i| if find(i, "ffn_gate_inp").is_some() { "sparse" } else { "dense" };
    let kinds: Vec<&str> = layers.map(kind).collect();
    if kinds.contains(&"sparse") {
        config.insert("mlp_layer_types".to_owned(), kinds.into());
    }
}

/// Rotary scaling. Llama 3's is not in the metadata but in the tensor `rope_freqs.weight`.
fn scaling(gguf: &Gguf, name: &str) -> Result<Option<Json>, Error> {
    let metadata = gguf.metadata();
    let key = |key: &str| format!("{name}.rope.{key}");
    let float = |k: &str| metadata.f32(&key(k));
    let factor = float("scaling.factor")?.or(float("scale_linear")?).filter(|f| *f != 0.0);
    let kind = match metadata.str(&key("scaling.type"))? {
        None if factor.is_some() => "linear",
        None | Some("none") => return Ok(None),
        Some(kind) => kind,
    };
    let factor = factor.unwrap_or(1.0);
    let mut scaling = Map::new();
    let mut put = |hf: &str, value: Option<Json>| {
        if let Some(value) = value {
            scaling.insert(hf.to_owned(), value);
        }
    };
    put("rope_type", Some(kind.into()));
    put("factor", Some(decimal(factor)));
    let original = metadata.u32(&key("scaling.original_context_length"))?;
    put("original_max_position_embeddings", original.map(Json::from));
    put("beta_fast", float("scaling.yarn_beta_fast")?.map(decimal));
    put("beta_slow", float("scaling.yarn_beta_slow")?.map(decimal));
    let given = (float("scaling.attn_factor")?, float("scaling.yarn_attn_factor")?);
    if given != (None, None) {
        // The first multiplies YaRN's own factor; the second, as Hugging Face's, takes its place.
        let own = if kind == "yarn" { 0.1 * libm::logf(factor.max(1.0)) + 1.0 } else { 1.0 };
        let all = given.0.unwrap_or(1.0) * given.1.unwrap_or(own);
        put("attention_factor", Some(decimal(all)));
    }
    // What multiplies queries besides, of which this is a tenth.
    let log = float("scaling.yarn_log_multiplier")?.filter(|log| *log != 0.0);
    for key in ["mscale", "mscale_all_dim"] {
        put(key, log.and_then(|log| Some(json!(10.0 * decimal(log).as_f64()?))));
    }
    // The share of extrapolation; below zero stands for the usual one.
    let extrapolated = key("scaling.yarn_ext_factor");
    metadata.typed(&extrapolated, "1", |v| match v {
        Value::Float(n) => (n == 1.0 || n < 0.0).then_some(()),
        _ => None,
    })?;
    Ok(Some(Json::Object(scaling)))
}

/// What no architecture needs to say.
fn unsaid(config: &mut Map<String, Json>) {
    config.entry("rope_theta").or_insert(json!(10_000.0));
    if let Some(heads) = config.get("num_attention_heads").cloned() {
        config.entry("num_key_value_heads").or_insert(heads);
    }
}

/// Says so where only a part of a head rotates.
fn partial(rotated: u64, config: &mut Map<String, Json>) {
    if let Some(width) = head_dim(config).filter(|w| *w != 0 && *w != rotated) {
        config.insert("partial_rotary_factor".to_owned(), json!(rotated as f64 / width as f64));
    }
}
