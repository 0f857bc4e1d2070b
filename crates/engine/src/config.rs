//! One vocabulary for a checkpoint's hyper-parameters: Hugging Face's keys, in the hub's spelling.
//! GGUF metadata and transformers 5's spelling are translated to it before a family sees it.
use crate::spec::{Act, Reach};
use rinfer_formats::{Tensor, Weights, quant};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

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
    /// In whose order rows lie.
    rows: Source,
    /// Whether they are of the text model among other parts.
    pub nested: bool,
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

type Result<T> = std::result::Result<T, ConfigError>;

/// GGUF's tensor of rotary divisors.
const ROPE_FREQS: &str = "rope_freqs.weight";
/// GGUF's tensors of LongRoPE's divisors.
const LONG_FACTORS: &str = "rope_factors_long.weight";
const SHORT_FACTORS: &str = "rope_factors_short.weight";
/// GGUF's tensors that are hyper-parameters to us.
pub const GGUF_TENSORS: [&str; 3] = [ROPE_FREQS, LONG_FACTORS, SHORT_FACTORS];

/// No width, count or length of a model is larger; so no product of three overflows.
const LARGEST: u64 = 1 << 24;

impl Config {
    /// Over config.json's content, or its translation from GGUF.
    pub fn new(json: Value, source: Source) -> Config {
        let nested = json.get("text_config").is_some_and(Value::is_object);
        Config { json: hub_spelling(text_part(json)), source, rows: source, nested }
    }

    /// The same, with what is a hyper-parameter to us and a tensor to the checkpoint: the rotary
    /// divisors of GGUF (Llama 3's scaling), and the numbers of activations that Hugging Face has,
    /// `act_fn_…` with one a layer.
    ///
    /// # Errors
    /// If such a tensor does not hold numbers.
    pub fn with_tensors(mut self, weights: &dyn Weights) -> Result<Config> {
        let Value::Object(map) = &mut self.json else { return Ok(self) };
        if self.source == Source::HuggingFace {
            activations(map, weights)?;
        } else if let Some(tensor) = weights.get(ROPE_FREQS) {
            let factors = floats(ROPE_FREQS, &tensor)?;
            map.insert("rope_scaling".into(), json!({"rope_type": "factors", "factors": factors}));
        } else if let Some(long) = weights.get(LONG_FACTORS) {
            let short = weights.get(SHORT_FACTORS).map(|tensor| floats(SHORT_FACTORS, &tensor));
            let scaling = json!({
                "rope_type": "longrope", "attention_factor": map.get("rope_attention_factor"),
                "short_factor": short.transpose()?, "long_factor": floats(LONG_FACTORS, &long)?,
            });
            map.insert("rope_scaling".into(), scaling);
        }
        Ok(self)
    }
    /// The same, with other values.
    pub fn with(&self, values: Value) -> Config {
        let mut config = self.clone();
        if let (Value::Object(map), Value::Object(new)) = (&mut config.json, values) {
            map.extend(new);
        }
        config
    }
    /// The same, where what has a first name goes by the second.
    pub fn with_aliases(&self, names: &[(&str, &str)]) -> Config {
        let found = names.iter().filter_map(|(from, to)| Some((*to, self.get(from)?.clone())));
        let values = found.map(|(to, value)| (to.to_owned(), value));
        self.with(Value::Object(values.collect()))
    }

    /// The same, with values for keys that a Hugging Face checkpoint left to its class's defaults.
    pub fn with_defaults(&self, defaults: Value) -> Config {
        let mut config = self.clone();
        if let (Source::HuggingFace, Value::Object(map), Value::Object(new)) =
            (self.source, &mut config.json, defaults)
        {
            for (key, value) in new {
                map.entry(key).or_insert(value);
            }
        }
        config
    }

    /// The value at a dotted path, unless absent or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(&self.json, |v, k| v.get(k)).filter(|v| !v.is_null())
    }
    /// What [`ConfigError`] says of `key`.
    pub fn refuse(&self, key: &str, expected: &str) -> ConfigError {
        let found = self.get(key).map_or("nothing".into(), |v| {
            let text = v.to_string();
            if text.chars().count() > 80 {
                text.chars().take(80).chain("…".chars()).collect()
            } else {
                text
            }
        });
        error(key, found, expected)
    }

    /// A width, count or length: at least one, and bounded.
    pub fn size(&self, key: &str) -> Result<usize> {
        let value = self.get(key).and_then(whole).filter(|v| (1..=LARGEST).contains(v));
        let expected = format!("a whole number from 1 to {LARGEST}");
        value.map(|v| v as usize).ok_or_else(|| self.refuse(key, &expected))
    }
    /// As [`Config::size`], or a list with the same for each layer.
    pub fn same_size(&self, key: &str) -> Result<usize> {
        match &self.sizes(key).unwrap_or_default()[..] {
            [] => self.size(key),
            [first, rest @ ..] if *first > 0 && rest.iter().all(|n| n == first) => Ok(*first),
            _ => Err(self.refuse(key, "one whole number above zero, the same for each layer")),
        }
    }
    /// As [`Config::size`], if the key is there.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.get(key).is_some() { self.size(key) } else { Ok(default) }
    }
    /// As [`Config::size`]; an absent key, null and zero are none.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>> {
        match self.get(key) {
            None => Ok(None),
            Some(v) if whole(v) == Some(0) => Ok(None),
            Some(_) => self.size(key).map(Some),
        }
    }
    /// As [`Config::size_or`], or zero.
    pub fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        match self.get(key) {
            Some(v) if whole(v) == Some(0) => Ok(0),
            _ => self.size_or(key, default),
        }
    }
    /// As [`Config::size`], one for all layers or one for each.
    pub fn by_layer(&self, key: &str, layers: usize) -> Result<Vec<usize>> {
        if !self.get(key).is_some_and(Value::is_array) {
            return Ok(vec![self.size(key)?; layers]);
        }
        let all = self.sizes(key)?;
        if all.len() != layers || all.contains(&0) {
            return Err(self.refuse(key, &format!("{layers} whole numbers above zero, or one")));
        }
        Ok(all)
    }
    /// A finite number that is also finite as f32.
    pub fn float(&self, key: &str) -> Result<f32> {
        let value = self.get(key).and_then(Value::as_f64).map(|v| v as f32);
        value.filter(|v| v.is_finite()).ok_or_else(|| self.refuse(key, "a finite number"))
    }
    /// As [`Config::float`], if the key is there.
    pub fn float_or(&self, key: &str, default: f32) -> Result<f32> {
        if self.get(key).is_some() { self.float(key) } else { Ok(default) }
    }
    /// A number above zero.
    pub fn positive(&self, key: &str) -> Result<f32> {
        let value = self.float(key).ok().filter(|v| *v > 0.0);
        value.ok_or_else(|| self.refuse(key, "a finite number above zero"))
    }
    /// As [`Config::positive`], if the key is there.
    pub fn positive_or(&self, key: &str, default: f32) -> Result<f32> {
        if self.get(key).is_some() { self.positive(key) } else { Ok(default) }
    }
    /// As [`Config::positive`]; an absent key and null are none.
    pub fn optional_positive(&self, key: &str) -> Result<Option<f32>> {
        self.get(key).map(|_| self.positive(key)).transpose()
    }
    /// True or false.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(v) => v.as_bool().ok_or_else(|| self.refuse(key, "true or false")),
        }
    }
    /// A string, if the key is there.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        let text = |v| Value::as_str(v).ok_or_else(|| self.refuse(key, "a string"));
        self.get(key).map(text).transpose()
    }
    /// A list of numbers as [`Config::size`] and zero; empty if the key is absent.
    pub fn sizes(&self, key: &str) -> Result<Vec<usize>> {
        self.list(key, "whole numbers", |v| whole(v).filter(|v| *v <= LARGEST).map(|v| v as usize))
    }
    /// A list of finite numbers; empty if the key is absent.
    pub fn floats(&self, key: &str) -> Result<Vec<f32>> {
        let float = |v: &Value| v.as_f64().map(|v| v as f32).filter(|v| v.is_finite());
        self.list(key, "finite numbers", float)
    }
    /// A list of strings; empty if the key is absent.
    pub fn texts(&self, key: &str) -> Result<Vec<String>> {
        self.list(key, "strings", |v| v.as_str().map(str::to_owned))
    }
    fn list<T>(&self, key: &str, of: &str, item: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let items = value.as_array().and_then(|a| a.iter().map(item).collect());
        items.ok_or_else(|| self.refuse(key, &format!("a list of {of}")))
    }
    /// Refuses keys that are there with another value than the only one that is run.
    pub fn only(&self, stated: &[(&str, Value)]) -> Result<()> {
        let other = |key: &str, value| self.get(key).is_some_and(|found| found != value);
        let wrong = stated.iter().find(|(key, value)| other(key, value));
        wrong.map_or(Ok(()), |(key, value)| Err(self.refuse(key, &value.to_string())))
    }
    /// An activation function by Hugging Face's name.
    pub fn act(&self, key: &str, default: Act) -> Result<Act> {
        Ok(match self.text(key)? {
            None => default,
            Some("silu" | "swish") => Act::Silu,
            Some("gelu") => Act::Gelu,
            Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast") => Act::GeluTanh,
            Some("relu") => Act::Relu,
            Some("relu2") => Act::Relu2,
            Some(_) => {
                let known = "silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu or relu2";
                return Err(self.refuse(key, known));
            }
        })
    }
    /// Refuses an activation function that is there and is not SiLU, the only one that is run.
    pub fn only_silu(&self, key: &str) -> Result<()> {
        let silu = self.act(key, Act::Silu)? == Act::Silu;
        if silu { Ok(()) } else { Err(self.refuse(key, "silu")) }
    }
    /// What each layer sees, a window of those that `layer_types` calls sliding or, without it, of
    /// those that `slides`.
    pub fn reaches(&self, layers: usize, slides: impl Fn(usize) -> bool) -> Result<Vec<Reach>> {
        let window = self.optional_size("sliding_window")?;
        let types = self.texts("layer_types")?;
        if types.is_empty() {
            let reach = |i| window.filter(|_| slides(i)).map_or(Reach::All, Reach::Window);
            return Ok((0..layers).map(reach).collect());
        }
        let expected = format!("{layers} of full_attention or sliding_attention");
        let of = |kind: &String| match kind.as_str() {
            "full_attention" => Ok(Reach::All),
            "sliding_attention" => self.size("sliding_window").map(Reach::Window),
            _ => Err(self.refuse("layer_types", &expected)),
        };
        if types.len() != layers {
            return Err(self.refuse("layer_types", &expected));
        }
        types.iter().map(of).collect()
    }
    /// The same model, whose rows lie as those of a Hugging Face checkpoint.
    pub fn in_folders_order(self) -> Config {
        Config { rows: Source::HuggingFace, ..self }
    }
    /// Chooses by the order in which rows lie.
    pub fn laid<T>(&self, hf: T, gguf: T) -> T {
        match self.rows {
            Source::HuggingFace => hf,
            Source::Gguf => gguf,
        }
    }
    /// Chooses by where the checkpoint came from.
    pub fn pick<T>(&self, hf: T, gguf: T) -> T {
        match self.source {
            Source::HuggingFace => hf,
            Source::Gguf => gguf,
        }
    }
}

/// All of a tensor's numbers.
fn floats(name: &str, tensor: &Tensor<'_>) -> Result<Vec<f32>> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    let found = |_| error(name, format!("{:?}", tensor.dtype), "numbers");
    quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).map_err(found)?;
    Ok(values)
}

/// Gathers the numbers of activations by what they are called, in the order of layers.
fn activations(map: &mut Map<String, Value>, weights: &dyn Weights) -> Result<()> {
    let mut found: BTreeMap<String, BTreeMap<usize, f32>> = BTreeMap::new();
    for name in weights.names() {
        let Some((module, parameter)) = name.split_once(".act_fn.") else { continue };
        let layer = module.split('.').find_map(|part| part.parse().ok());
        let values = weights.get(name).map(|tensor| floats(name, &tensor)).transpose()?;
        if let (Some(layer), Some([value])) = (layer, values.as_deref()) {
            found.entry(format!("act_fn_{parameter}")).or_default().insert(layer, *value);
        }
    }
    for (key, values) in found {
        if !values.keys().copied().eq(0..values.len()) {
            let layers = format!("those of layers {:?}", values.keys());
            return Err(error(&key, layers, "those of all layers"));
        }
        map.insert(key, json!(values.into_values().collect::<Vec<f32>>()));
    }
    Ok(())
}

fn error(key: &str, found: String, expected: &str) -> ConfigError {
    ConfigError { key: key.into(), found, expected: expected.into() }
}

/// A whole number, also where Python wrote it as `512.0`.
fn whole(v: &Value) -> Option<u64> {
    let from_float =
        |f: f64| (f >= 0.0 && f <= LARGEST as f64 && f.fract() == 0.0).then_some(f as u64);
    v.as_u64().or_else(|| v.as_f64().and_then(from_float))
}

/// A vision-language checkpoint nests its decoder; what the decoder leaves out is said outside.
fn text_part(mut json: Value) -> Value {
    let Some(Value::Object(inner)) = json.get_mut("text_config").map(Value::take) else {
        return json;
    };
    if let Value::Object(outer) = &mut json {
        outer.extend(inner);
        outer.remove("text_config");
        outer.remove("vision_config");
    }
    json
}

/// transformers 5 spells `rope_parameters` (also one for each layer type) for `rope_theta` and
/// `rope_scaling`, and `dtype` for `torch_dtype`. The sliding layers' own table becomes
/// `rope_local_base_freq` and `rope_local_scaling`.
fn hub_spelling(mut json: Value) -> Value {
    let Value::Object(map) = &mut json else { return json };
    if let Some(dtype) = map.remove("dtype") {
        map.entry("torch_dtype").or_insert(dtype);
    }
    match map.remove("rope_parameters") {
        Some(Value::Object(mut rope)) => {
            if let Some(Value::Object(local)) = rope.remove("sliding_attention") {
                insert_rope(map, local, "rope_local_base_freq", "rope_local_scaling");
            }
            if let Some(Value::Object(full)) = rope.remove("full_attention") {
                rope = full;
            }
            insert_rope(map, rope, "rope_theta", "rope_scaling");
        }
        None | Some(Value::Null) => {}
        // What is wrong with it is said by whoever reads it.
        Some(other) => drop(map.insert("rope_scaling".into(), other)),
    }
    json
}

fn insert_rope(
    map: &mut Map<String, Value>,
    mut rope: Map<String, Value>,
    theta: &str,
    scaling: &str,
) {
    if let Some(value) = rope.remove("rope_theta") {
        map.insert(theta.into(), value);
    }
    if let Some(value) = rope.remove("partial_rotary_factor") {
        map.entry("partial_rotary_factor").or_insert(value);
    }
    if !rope.is_empty() {
        map.insert(scaling.into(), Value::Object(rope));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: Value) -> Config {
        Config::new(json, Source::HuggingFace)
    }

    /// Every getter meets every kind of value: an error that names the key and the value, or a
    /// value, and never a panic.
    #[test]
    fn hostile_values() {
        let values = [
            json!(null),
            json!(true),
            json!("12"),
            json!(""),
            json!([]),
            json!([1, "x"]),
            json!({}),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!(-1e300),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1 << 25),
            json!([1e300]),
            json!({"a": {"b": [null]}}),
        ];
        for value in values {
            for at in [json!({"k": value}), json!([value]), value.clone()] {
                let c = config(at);
                let results = [
                    c.size("k").err(),
                    c.same_size("k").err(),
                    c.by_layer("k", 2).err(),
                    c.size_or("k", 1).err(),
                    c.count_or("k", 1).err(),
                    c.optional_size("k").err(),
                    c.float("k").err(),
                    c.positive("k").err(),
                    c.flag("k", true).err(),
                    c.text("k").err(),
                    c.sizes("k").err(),
                    c.floats("k").err(),
                    c.texts("k").err(),
                    c.act("k", Act::Silu).err(),
                    c.get("k.a.b.c").map(|_| c.refuse("k", "nothing")),
                ];
                for e in results.into_iter().flatten() {
                    assert_eq!(e.key, "k");
                    assert!(!e.found.is_empty() && !e.expected.is_empty());
                }
            }
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        let check = |json, expect: &str| {
            assert_eq!(config(json).size("hidden_size").unwrap_err().to_string(), expect);
        };
        let expected = "expected a whole number from 1 to 16777216";
        check(json!({}), &format!("config key 'hidden_size': found nothing, {expected}"));
        check(json!({"hidden_size": 0}), &format!("config key 'hidden_size': found 0, {expected}"));
        check(
            json!({"hidden_size": "a"}),
            &format!("config key 'hidden_size': found \"a\", {expected}"),
        );
        assert_eq!(config(json!({"hidden_size": 64.0})).size("hidden_size"), Ok(64));
        let same = |json| config(json).same_size("k").ok();
        assert_eq!([same(json!({"k": 3})), same(json!({"k": [3, 3]}))], [Some(3); 2]);
        assert_eq!([same(json!({"k": [3, 4]})), same(json!({"k": [0, 0]}))], [None; 2]);
    }

    #[test]
    fn both_spellings() {
        let check = |json, key: &str, expect: Value| {
            assert_eq!(config(json).get(key), Some(&expect), "{key}");
        };
        let flat = || {
            json!({"dtype": "bfloat16", "rope_parameters":
            {"rope_type": "linear", "factor": 2, "rope_theta": 5e5, "partial_rotary_factor": 0.5}})
        };
        check(flat(), "torch_dtype", json!("bfloat16"));
        check(flat(), "rope_theta", json!(5e5));
        check(flat(), "rope_scaling", json!({"rope_type": "linear", "factor": 2}));
        check(flat(), "partial_rotary_factor", json!(0.5));
        let by_type = || {
            json!({"rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})
        };
        check(by_type(), "rope_theta", json!(1e6));
        check(by_type(), "rope_scaling.factor", json!(8));
        check(by_type(), "rope_local_base_freq", json!(1e4));
        check(by_type(), "rope_local_scaling.rope_type", json!("default"));
        let nested = || {
            json!({"model_type": "gemma3", "eos_token_id": 1, "vision_config": {},
            "text_config": {"model_type": "gemma3_text", "dtype": "float16"}})
        };
        check(nested(), "model_type", json!("gemma3_text"));
        check(nested(), "torch_dtype", json!("float16"));
        check(nested(), "eos_token_id", json!(1));
        assert_eq!(config(nested()).get("vision_config"), None);
    }

    #[test]
    fn reaches_of_layers() {
        let check = |json, expect: &[Reach]| {
            assert_eq!(config(json).reaches(3, |i| i == 1).unwrap(), expect);
        };
        let (all, window) = (Reach::All, Reach::Window(8));
        check(json!({}), &[all; 3]);
        check(json!({"sliding_window": null}), &[all; 3]);
        check(json!({"sliding_window": 8}), &[all, window, all]);
        let types = ["sliding_attention", "full_attention", "full_attention"];
        check(json!({"sliding_window": 8, "layer_types": types}), &[window, all, all]);
        for bad in [
            json!({"layer_types": types}),
            json!({"layer_types": ["full_attention"]}),
            json!({"layer_types": vec!["linear_attention"; 3]}),
        ] {
            assert!(config(bad).reaches(3, |_| true).is_err());
        }
    }
}
