//! From config.json and tensor names to a spec: both spellings, every golden, every mistake.
mod rig;

use rig::{Memory, goldens};
use rinfer_engine::backend::LoadError;
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::families::{FAMILIES, Family, find};
use rinfer_engine::spec::{Attention, Head, ModelSpec, Op, Reach};
use rinfer_engine::weights::{Checkpoint, needs};
use rinfer_kernels::Kernels;
use rinfer_testkit::Golden;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn open<'a>(config: &Value, weights: &'a Memory) -> Result<Checkpoint<'a>, LoadError> {
    Checkpoint::open(Config::new(config.clone(), Source::HuggingFace), weights)
}

fn golden(name: &str) -> Golden {
    Golden::load(&rinfer_testkit::shared::goldens().join(name))
}

/// As transformers 5 saves what it loaded from the hub's spelling.
fn respelt(hub: &Value) -> Value {
    let mut json = hub.clone();
    let map = json.as_object_mut().expect("an object");
    if map.contains_key("rope_parameters") {
        return json;
    }
    if let Some(dtype) = map.remove("torch_dtype") {
        map.insert("dtype".into(), dtype);
    }
    // What it calls a head of latent attention is the part that rotates; a linear one has its own.
    if let Some(dim) = map.get("qk_rope_head_dim").cloned()
        && let Some(linear) = map.insert("head_dim".into(), dim)
    {
        map.insert("linear_head_dim".into(), linear);
    }
    if map.contains_key("rope_parameters") {
        return json;
    }
    let scaling = map.remove("rope_scaling").filter(|s| !s.is_null());
    let mut rope = scaling.unwrap_or(json!({"rope_type": "default"}));
    for (from, to) in [
        ("rotary_emb_base", "rope_theta"),
        ("rope_theta", "rope_theta"),
        ("rotary_pct", "partial_rotary_factor"),
        ("partial_rotary_factor", "partial_rotary_factor"),
    ] {
        if let Some(value) = map.remove(from) {
            rope[to] = value;
        }
    }
    if let Some(kind) = rope.as_object_mut().expect("an object").remove("type") {
        rope["rope_type"] = kind;
    }
    let layers = map.get("num_hidden_layers").and_then(Value::as_u64).unwrap_or(0);
    let pattern = map.remove("sliding_window_pattern").and_then(|p| p.as_u64());
    let slides = |i: u64| match map["model_type"].as_str() {
        Some("gemma2") => i.is_multiple_of(2),
        Some("gemma3_text") => pattern.is_none_or(|p| !(i + 1).is_multiple_of(p)),
        _ => {
            map["use_sliding_window"] == json!(true)
                && i >= map["max_window_layers"].as_u64().unwrap_or(0)
        }
    };
    let type_of = |i| if slides(i) { "sliding_attention" } else { "full_attention" };
    if matches!(map["model_type"].as_str(), Some("gemma2" | "gemma3_text" | "qwen2" | "qwen3")) {
        let types: Vec<&str> = (0..layers).map(type_of).collect();
        map.insert("layer_types".into(), json!(types));
    }
    if map.get("use_sliding_window") == Some(&json!(false)) {
        map.insert("sliding_window".into(), Value::Null);
    }
    if let Some(local) = map.remove("rope_local_base_freq") {
        let local = json!({"rope_type": "default", "rope_theta": local});
        rope = json!({"full_attention": rope, "sliding_attention": local});
    }
    map.insert("rope_parameters".into(), rope);
    json
}

#[test]
fn goldens_resolve_in_both_spellings() {
    let mut seen = BTreeSet::new();
    for g in goldens().into_iter().chain(rig::vectors::goldens()) {
        let weights = Memory(g.weights);
        let hub = open(&g.config, &weights).unwrap_or_else(|e| panic!("{}: {e}", g.name));
        let five =
            open(&respelt(&g.config), &weights).unwrap_or_else(|e| panic!("{}: {e}", g.name));
        assert_eq!(hub.spec, five.spec, "{}", g.name);
        let nested = json!({"model_type": "wrapper", "text_config": g.config, "vision_config": {}});
        assert_eq!(hub.spec, open(&nested, &weights).unwrap().spec, "{}", g.name);
        seen.insert(hub.family.name);
    }
    for family in FAMILIES {
        assert!(seen.contains(family.name), "{} has no golden", family.name);
    }
}

#[test]
fn architectures() {
    let check = |source, config: Value, expect: &str| {
        let found = find(&Config::new(config, source)).map(|f| f.name.to_owned());
        assert_eq!(found.unwrap_or_else(|e| e.to_string()), expect);
    };
    let hf = Source::HuggingFace;
    check(hf, json!({"model_type": "qwen2"}), "qwen2");
    check(hf, json!({"model_type": "mine", "architectures": ["Gemma3ForCausalLM"]}), "gemma3");
    check(hf, json!({"architectures": ["LlamaForCausalLM"]}), "llama");
    check(Source::Gguf, json!({"model_type": "gemma3"}), "gemma3");
    let all = |of: fn(&&Family) -> &'static [&'static str]| {
        let all: Vec<_> = FAMILIES.iter().flat_map(of).copied().collect();
        format!("supported: {}", all.join(", "))
    };
    let supported = &all(|f| f.hf);
    let message = |found: &str, meant: &str, supported: &str| {
        format!("architecture '{found}' is not supported{meant}; {supported}")
    };
    let gema2 = message("gema2", " (did you mean 'gemma2'?)", supported);
    check(hf, json!({"model_type": "gema2"}), &gema2);
    let qwen4 = message("Qwen4ForCausalLM", " (did you mean 'qwen2'?)", supported);
    check(hf, json!({"architectures": ["Qwen4ForCausalLM"]}), &qwen4);
    check(hf, json!({}), &message("nothing", "", supported));
    let supported = &all(|f| f.gguf);
    check(Source::Gguf, json!({"model_type": "foo"}), &message("foo", "", supported));
}

/// Changes one key of a good config and expects an error that names it.
#[test]
fn wrong_configs() {
    let check = |name: &str, key: &str, value: Value, expect: &str| {
        let g = golden(name);
        let mut config = g.config.clone();
        config[key] = value;
        let error = open(&config, &Memory(g.weights)).err().map(|e| e.to_string());
        assert!(error.as_ref().is_some_and(|e| e.contains(expect)), "{key}: {error:?}");
    };
    for key in [
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "num_hidden_layers",
        "intermediate_size",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_theta",
    ] {
        for value in [json!(0), json!(-1), json!("64"), json!(1e300), json!([1])] {
            check("llama3", key, value, &format!("'{key}'"));
        }
    }
    check("llama3", "num_hidden_layers", json!(1_000_000), "at most 4096");
    check(
        "llama3",
        "intermediate_size",
        json!(1 << 24),
        "has shape [80, 64], expected [16777216, 64]",
    );
    check("llama3", "num_attention_heads", json!(7), "a divisor of hidden_size");
    check("llama3", "num_key_value_heads", json!(3), "a divisor of num_attention_heads");
    check("llama3", "hidden_act", json!("gelu_10"), "'hidden_act': found \"gelu_10\"");
    check(
        "llama3",
        "rope_scaling",
        json!({"type": "magic"}),
        "'rope_scaling.type': found \"magic\"",
    );
    check("llama3", "rope_scaling", json!({"rope_type": "linear"}), "'rope_scaling.factor'");
    for scaling in [json!("linear"), json!(1.5), json!([1]), json!(true)] {
        check("llama3", "rope_scaling", scaling.clone(), "'rope_scaling': found");
        check("llama3", "rope_parameters", scaling, "'rope_scaling': found");
    }
    check(
        "llama3",
        "rope_scaling",
        json!({"rope_type": "yarn", "factor": -4}),
        "'rope_scaling.factor'",
    );
    check("llama3", "partial_rotary_factor", json!(1.5), "'partial_rotary_factor'");
    check("qwen2", "use_sliding_window", json!("no"), "'use_sliding_window'");
    check("ministral", "layer_types", json!(["full_attention"]), "'layer_types'");
    check("ministral", "sliding_window", Value::Null, "'sliding_window'");
    for list in [json!([96, 96]), json!([96, 96, 96, 96, 96, 0]), json!([-1.5])] {
        check("gemma3n_text", "intermediate_size", list, "'intermediate_size'");
    }
    let sparsity = "activation_sparsity_pattern";
    for shares in [json!(1.0), json!([0.5]), json!([0, 0, 0, 0, 0, "x"])] {
        check("gemma3n_text", sparsity, shares, "'activation_sparsity_pattern'");
    }
    check("gemma3n_text", "altup_num_inputs", json!(1), "'altup_num_inputs'");
    check("gemma3n_text", "altup_active_idx", json!(1), "'altup_num_inputs'");
    check("gemma3n_text", "num_kv_shared_layers", json!(5), "'num_kv_shared_layers'");
    check("gemma4_e2b", "num_kv_shared_layers", json!(9), "'num_kv_shared_layers'");
    check("gemma4_e2b", "use_bidirectional_attention", json!("all"), "'use_bidirectional");
    check("gemma", "use_bidirectional_attention", json!(true), "'use_bidirectional_attention'");
    check("minimax_m2", "rotary_dim", json!(1000), "'rotary_dim'");
    check("gpt_oss", "swiglu_alpha", json!(1.0), "'swiglu_alpha'");
    check("apertus", "hidden_act", json!("relu"), "'hidden_act'");
    check("baichuan", "vocab_size", json!(125_696), "'vocab_size'");
    check("glm_moe_dsa", "indexer_types", json!(["full", "some"]), "'indexer_types'");
    check("bloom", "n_head", json!(1 << 20), "at most 4096");
    check("llama3", "rope_theta", json!(1), "'rope_theta'");
    check("llama3", "rope_scaling", json!({"factor": 8}), "'rope_scaling.rope_type'");
    check("llama_bias_linear", "rope_scaling", json!({"type": "linear", "factor": 0.5}), "factor");
    for dim in [7, 32] {
        check("minimax_m2", "rotary_dim", json!(dim), "'rotary_dim'");
        check("gptj", "rotary_dim", json!(dim), "'rotary_dim'");
    }
    for name in ["llama4_text", "smollm3"] {
        check(name, "no_rope_layers", json!([1, 0]), "'no_rope_layers'");
    }
    check("gemma3_text", "sliding_window_pattern", json!([true]), "'sliding_window_pattern'");
    check("ernie4_5_moe", "moe_layer_end_index", json!("last"), "'moe_layer_end_index'");
    check("deepseek_v3", "topk_group", json!(5), "'topk_group': found 5");
    check("deepseek_v3", "n_group", json!(3), "'n_group': found 3");
}

/// What a config leaves to transformers' class: its default, which null is not.
#[test]
fn absent_keys() {
    let resolve = |name: &str, key: &str, value: Option<Value>| {
        let g = golden(name);
        let mut config = g.config.clone();
        let map = config.as_object_mut().expect("an object");
        map.remove(key);
        map.extend(value.map(|value| (key.to_owned(), value)));
        open(&config, &Memory(g.weights)).unwrap_or_else(|e| panic!("{name}, {key}: {e}")).spec
    };
    let reach = |name, key, value| resolve(name, key, value).attentions().next().unwrap().reach;
    assert_eq!(reach("mistral", "sliding_window", None), Reach::Window(4096));
    assert_eq!(reach("mistral", "sliding_window", Some(Value::Null)), Reach::All);
    assert_eq!(reach("exaone4_1b", "sliding_window_pattern", Some(json!(0))), Reach::All);
    assert_eq!(reach("llama4_text", "attention_chunk_size", None), Reach::Chunk(8192));
    assert_eq!(reach("llama4_text", "attention_chunk_size", Some(Value::Null)), Reach::All);
    for (name, key, value) in [
        ("ernie4_5", "tie_word_embeddings", json!(true)),
        ("exaone_moe", "first_k_dense_replace", json!(1)),
        ("exaone_moe", "routed_scaling_factor", json!(2.5)),
        ("afmoe", "num_dense_layers", json!(1)),
        ("glm4", "rms_norm_eps", json!(1.5625e-7)),
        ("minicpm3", "scale_depth", json!(1.4)),
        ("qwen3_moe", "norm_topk_prob", json!(false)),
    ] {
        assert_eq!(resolve(name, key, None), resolve(name, key, Some(value)), "{name}, {key}");
    }
    // The scaling of a class, whether a config leaves it out or says null.
    for (name, scaling) in [
        (
            "ministral3",
            json!({"rope_type": "yarn", "factor": 16.0, "rope_theta": 1e6,
            "original_max_position_embeddings": 16_384, "mscale": 1.0, "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1}),
        ),
        (
            "mistral4_text",
            json!({"rope_type": "yarn", "factor": 128.0, "rope_theta": 1e4,
            "original_max_position_embeddings": 8192, "mscale": 1.0, "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1}),
        ),
        (
            "gpt_oss",
            json!({"rope_type": "yarn", "factor": 32.0, "truncate": false,
            "original_max_position_embeddings": 4096, "rope_theta": 15e4}),
        ),
        (
            "apertus",
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_theta": 12e6}),
        ),
    ] {
        let mut g = golden(name);
        let mut spec = |value: Option<Value>| {
            let map = g.config.as_object_mut().expect("an object");
            for key in ["rope_scaling", "rope_parameters", "rope_theta"] {
                map.remove(key);
            }
            map.extend(value.map(|value| ("rope_parameters".to_owned(), value)));
            open(&g.config, &Memory(g.weights.clone())).unwrap().spec
        };
        let class = spec(Some(scaling));
        assert_eq!((&spec(None), &spec(Some(Value::Null))), (&class, &class), "{name}");
    }
    let scale =
        |value| resolve("gpt2", "scale_attn_weights", value).attentions().next().unwrap().scale;
    assert_eq!((scale(None), scale(Some(json!(false)))), (0.25, 1.0));
}

/// What would be computed otherwise is refused by its name, not ignored.
#[test]
fn meanings_that_are_not_run() {
    let check = |name: &str, key: &str, value: Value| {
        let g = golden(name);
        let mut config = g.config.clone();
        let (outer, inner) = key.split_once('.').unwrap_or((key, ""));
        let place = &mut config[outer];
        *(if inner.is_empty() { place } else { &mut place[inner] }) = value.clone();
        let error = open(&config, &Memory(g.weights)).err().map(|e| e.to_string());
        let expect = format!("config key '{key}': found {value}, expected");
        assert!(error.as_ref().is_some_and(|e| e.starts_with(&expect)), "{name}: {error:?}");
    };
    for (name, key) in [
        ("deepseek_v2", "scoring_func"),
        ("deepseek_v2", "topk_method"),
        ("deepseek_v3", "scoring_func"),
        ("deepseek_v3", "topk_method"),
        ("mistral4_text", "scoring_func"),
        ("minimax_m2", "scoring_func"),
        ("afmoe", "score_func"),
        ("bailing_moe_v2", "score_function"),
        ("internlm", "rotary.type"),
        ("mpt", "attn_config.attn_type"),
        ("cohere2", "order_of_interleaved_layers"),
        ("gpt_oss", "hidden_act"),
        ("embed/bert", "position_embedding_type"),
        ("embed/nomic_bert", "activation_function"),
    ] {
        check(name, key, json!("other"));
    }
    check("gemma2", "hidden_activation", json!("other"));
    for (name, key, value) in [
        ("afmoe", "route_norm", false),
        ("apertus", "post_norm", true),
        ("bailing_moe", "norm_head", true),
        ("gemma2", "use_bidirectional_attention", true),
        ("embed/bert", "is_decoder", true),
        ("embed/nomic_bert", "prenorm", true),
        ("embed/nomic_bert", "mlp_fc2_bias", true),
        ("glm_moe_dsa", "indexer_rope_interleave", false),
        ("mpt", "attn_config.alibi", false),
        ("zamba2", "use_long_context", true),
        ("hunyuan_v1_dense", "use_cla", true),
        ("hunyuan_v1_moe", "use_cla", true),
    ] {
        check(name, key, json!(value));
    }
    for name in ["bamba", "lfm2", "lfm2_moe", "mamba", "mamba2", "jamba", "falcon_h1"] {
        check(name, "hidden_act", json!("gelu"));
    }
    check("granitemoehybrid", "hidden_act", json!("gelu"));
    check("nemotron_h", "mamba_hidden_act", json!("gelu"));
    for name in ["qwen3_moe", "qwen2_moe", "qwen3_next"] {
        check(name, "mlp_only_layers", json!([0, 99]));
    }
    for (name, layers) in [("llama3", 3), ("mistral", 3), ("mistral_nemo", 3), ("mamba2", 3)] {
        check(name, "layer_types", json!(vec!["chunked_attention"; layers]));
        check(name, "layer_types", json!(vec!["full_attention"; layers + 1]));
    }
    check("mamba2", "layer_types", json!(vec!["full_attention"; 3]));
    check("deepseek_v3", "moe_layer_freq", json!(2));
    check("mpt", "logit_scale", json!(2.0));
    check("granite", "layer_types", json!(vec!["sliding_attention"; 3]));
    check("llama4_text", "layer_types", json!(vec!["full_attention"; 4]));
}

/// Changes the tensors of a good checkpoint and expects an error that names one.
#[test]
fn wrong_tensors() {
    let check = |change: fn(&mut Memory), expect: &str| {
        let g = golden("llama3");
        let mut weights = Memory(g.weights);
        change(&mut weights);
        let error = open(&g.config, &weights).map(|_| "fine".to_owned());
        assert_eq!(error.unwrap_or_else(|e| e.to_string()), expect);
    };
    check(|_| {}, "fine");
    check(
        |w| drop(w.0.remove("model.layers.1.mlp.up_proj.weight")),
        "tensor 'blk.1.ffn_up.weight' is missing from the checkpoint",
    );
    check(
        |w| {
            let t = w.0["model.norm.weight"].clone();
            w.0.insert("model.layers.0.self_attn.q_proj.bias".into(), t);
        },
        "tensor 'blk.0.attn_q.bias' is not part of this architecture; refusing to ignore weights",
    );
    check(
        |w| {
            let t = w.0["model.norm.weight"].clone();
            w.0.insert("model.layers.0.surprise".into(), t);
        },
        "tensor 'model.layers.0.surprise' is not part of this architecture; refusing to ignore weights",
    );
    check(
        |w| w.0.get_mut("model.norm.weight").unwrap().shape = vec![8, 8],
        "tensor 'output_norm.weight' has shape [8, 8], expected [64]",
    );
    check(
        |w| {
            let t = w.0["model.norm.weight"].clone();
            w.0.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), t);
        },
        "fine",
    );
    check(|w| drop(w.0.remove("lm_head.weight")), "fine");
}

/// One expert spelt twice is two tensors, of which one would be ignored.
#[test]
fn experts_are_stated_once() {
    let g = golden("mixtral");
    let mut weights = Memory(g.weights);
    let name = |expert| format!("model.layers.0.block_sparse_moe.experts.{expert}.w1.weight");
    let (first, again) = (name("1"), name("01"));
    let tensor = weights.0[&first].clone();
    weights.0.insert(again, tensor);
    let error = open(&g.config, &weights).err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("refusing to ignore weights")));
}

/// A mixture of one expert may be stored without an axis for it.
#[test]
fn one_expert_needs_no_axis() {
    let g = golden("granitemoe");
    let mut config = g.config.clone();
    (config["num_local_experts"], config["num_experts_per_tok"]) = (json!(1), json!(1));
    let run = |axis: bool| {
        let mut weights = Memory(g.weights.clone());
        for (name, tensor) in &mut weights.0 {
            let experts = tensor.shape[0];
            if name.contains("block_sparse_moe") {
                tensor.bytes.truncate(tensor.bytes.len() / experts);
                tensor.shape[0] = 1;
                if !axis && !name.contains("router") {
                    tensor.shape.remove(0);
                }
            }
        }
        let model = open(&config, &weights).unwrap();
        let executor = Cpu::new(1, Kernels::best()).executor(&model.spec, &model, &rig::LIMITS);
        rig::Rig { executor: executor.unwrap(), vocab: model.spec.vocab }.run(&[3, 5], 1)
    };
    assert_eq!(run(false), run(true));
}

/// Integers are no weights, be it in a matrix or a vector.
#[test]
fn wrong_types() {
    for (name, canonical) in
        [("lm_head.weight", "output.weight"), ("model.norm.weight", "output_norm.weight")]
    {
        let g = golden("llama3");
        let mut weights = Memory(g.weights);
        weights.0.get_mut(name).unwrap().dtype = "I32".into();
        let model = open(&g.config, &weights).unwrap();
        let cpu = Cpu::new(1, Kernels::best());
        let error = cpu.executor(&model.spec, &model, &rig::LIMITS).err().unwrap();
        let expect = format!("tensor '{canonical}': type I32 stores no weights");
        assert_eq!(error.to_string(), expect);
    }
}

/// A text model that is one part of several keeps its names further in; the other parts are left out,
/// and nothing else is.
#[test]
fn names_of_a_part() {
    let prefixes = [("model.language_model.", ""), ("language_model.model.", "language_model.")];
    for (name, (text, head)) in ["llama3", "gemma3_text", "qwen3_5", "llama4_text"]
        .into_iter()
        .flat_map(|name| prefixes.map(|prefix| (name, prefix)))
    {
        let g = golden(name);
        let spec = open(&g.config, &Memory(g.weights.clone())).unwrap().spec;
        let config = json!({"model_type": "whole", "text_config": g.config, "vision_config": {}});
        let inner = g.weights.iter().map(|(name, tensor)| match name.strip_prefix("model.") {
            Some(rest) => (format!("{text}{rest}"), tensor.clone()),
            None => (format!("{head}{name}"), tensor.clone()),
        });
        let mut weights = Memory(inner.collect());
        let tensor = weights.0.values().next().unwrap().clone();
        for other in ["visual.patch_embed.proj.weight", "model.vision_tower.x.bias"] {
            weights.0.insert(other.into(), tensor.clone());
        }
        let model = open(&config, &weights).unwrap_or_else(|e| panic!("{name}, {text}: {e}"));
        assert_eq!(model.spec, spec, "{name}");
        Cpu::new(1, Kernels::best()).executor(&model.spec, &model, &rig::LIMITS).expect("a model");
        let refused = |config: &Value, weights: &Memory, name: &str| {
            let error = open(config, weights).err().map(|e| e.to_string());
            let expect = format!("tensor '{name}' is not part of this architecture");
            assert!(error.as_ref().is_some_and(|e| e.starts_with(&expect)), "{error:?}");
        };
        // By itself it has no other parts.
        let first = g.weights.keys().next().unwrap();
        let mut alone = Memory(g.weights.clone());
        alone.0.insert("visual.x.weight".into(), tensor.clone());
        refused(&g.config, &alone, "visual.x.weight");
        let again = weights.0.clone();
        weights.0.insert("model.surprise.weight".into(), tensor.clone());
        refused(&config, &weights, "model.surprise.weight");
        weights.0 = again;
        if first.starts_with("model.") {
            weights.0.insert(first.clone(), tensor);
            assert!(open(&config, &weights).is_err(), "a tensor under two names");
        }
    }
}

/// A checkpoint may be of the model without its head, whose names begin further in.
#[test]
fn names_of_a_bare_model() {
    let g = golden("gpt2");
    let full = open(&g.config, &Memory(g.weights.clone())).unwrap().spec;
    let bare = g.weights.into_iter().map(|(name, tensor)| {
        let name = name.strip_prefix("transformer.").expect("the outer module");
        (name.to_owned(), tensor)
    });
    assert_eq!(open(&g.config, &Memory(bare.collect())).unwrap().spec, full);
}

/// Positions that have no vector are refused when the model is loaded, not when they come.
#[test]
fn learned_positions_are_bounded() {
    for (name, rows) in [("gpt2", 128), ("opt", 128)] {
        let g = golden(name);
        let weights = Memory(g.weights);
        let model = open(&g.config, &weights).unwrap();
        let load = |context| {
            let limits = rinfer_engine::backend::Limits { context, ..rig::LIMITS };
            let loaded = Cpu::new(1, Kernels::best()).executor(&model.spec, &model, &limits);
            loaded.map_err(|e| e.to_string()).err()
        };
        assert_eq!(load(rows), None, "{name}");
        let expect = format!("a context of {}, of which {rows} have vectors", rows + 1);
        assert_eq!(load(rows + 1), Some(expect), "{name}");
    }
}

/// G17: a checkpoint without a head uses the embedding, whatever its config says.
#[test]
fn head_is_tied_if_absent() {
    let g = golden("llama3");
    let mut weights = Memory(g.weights);
    let tied = |spec: &ModelSpec| matches!(spec.head, Head::Lm { tied: true, .. });
    assert!(!tied(&open(&g.config, &weights).unwrap().spec));
    weights.0.remove("lm_head.weight");
    let spec = open(&g.config, &weights).unwrap().spec;
    assert!(tied(&spec));
    assert!(needs(&spec).iter().all(|n| n.name != "output.weight"));
}

/// What differs from layer to layer.
#[test]
fn layers() {
    let spec = |name: &str| {
        let g = golden(name);
        open(&g.config, &Memory(g.weights)).unwrap().spec
    };
    let attention = |s: &ModelSpec| s.attentions().cloned().collect::<Vec<Attention>>();
    let sources = |name| attention(&spec(name)).iter().map(|a| a.kv_from).collect::<Vec<_>>();
    let from = vec![None, None, None, Some(1), Some(1), Some(2)];
    assert_eq!((sources("gemma3n_text"), sources("gemma4_e2b")), (from.clone(), from));
    let sparse = spec("gemma3n_text");
    let of = |op: &Op| if let Op::Mlp(m) = op { m.sparsity } else { None };
    // The normal distribution's quantiles of 0.95 and 0.9, as PyTorch has them in f32.
    assert_eq!(sparse.ops().filter_map(of).collect::<Vec<_>>(), [1.644_853_6, 1.281_551_5]);
    let wide = attention(&spec("gemma4_31b"));
    let shapes: Vec<_> = wide.iter().map(|a| (a.head_dim, a.kv_heads, a.v_from_k)).collect();
    let (local, full) = ((16, 2, false), (32, 1, true));
    assert_eq!(shapes, [local, local, full, local, local, full]);
    // As transformers 5 saves what differs by layer.
    let mut saved = golden("gemma4_31b");
    for key in ["global_head_dim", "num_global_key_value_heads"] {
        saved.config.as_object_mut().unwrap().remove(key);
    }
    let own = json!({"head_dim": 32, "num_key_value_heads": 1});
    saved.config["per_layer_config"] = json!({"2": own, "5": own});
    assert_eq!(open(&saved.config, &Memory(saved.weights)).unwrap().spec, spec("gemma4_31b"));
}

/// Phi 3 called LongRoPE `yarn` once.
#[test]
fn an_old_name_of_longrope() {
    let mut g = golden("phi3_longrope");
    let weights = Memory(g.weights);
    let spec = open(&g.config, &weights).unwrap().spec;
    for kind in ["su", "yarn", "longrope"] {
        for key in ["type", "rope_type"] {
            let scaling = g.config["rope_scaling"].as_object_mut().expect("an object");
            for key in ["type", "rope_type"] {
                scaling.remove(key);
            }
            scaling.insert(key.into(), json!(kind));
            assert_eq!(open(&g.config, &weights).unwrap().spec, spec, "{key}: {kind}");
        }
    }
}

/// What a family's quirks become.
#[test]
fn quirks() {
    let spec = |name: &str| {
        let g = golden(name);
        open(&g.config, &Memory(g.weights)).unwrap().spec
    };
    let attention = |s: &ModelSpec| -> Vec<Attention> {
        let of = |op: &Op| if let Op::Attention(a) = op { Some(a.clone()) } else { None };
        s.ops().filter_map(of).collect()
    };
    let windows = |name| {
        let attentions = attention(&spec(name));
        attentions.iter().map(|a| a.reach.most().unwrap_or(0)).collect::<Vec<_>>()
    };
    assert_eq!(windows("mistral"), [8, 8, 8]);
    assert_eq!(windows("mistral_nemo"), [0, 0, 0]);
    assert_eq!(windows("ministral"), [0, 8, 8, 8]);
    assert_eq!(windows("qwen2"), [0, 0, 0]);
    assert_eq!(windows("qwen2_sliding"), [0, 8, 8]);
    assert_eq!(windows("gemma2"), [8, 0, 8, 0]);
    assert_eq!(windows("gemma3_text"), [8, 8, 0, 8]);
    assert_eq!(windows("cohere2"), [8, 8, 8, 0]);
    assert_eq!(windows("exaone4_1b"), [0, 0, 0]);
    let rotates =
        |name| attention(&spec(name)).iter().map(|a| a.rope.is_some()).collect::<Vec<_>>();
    assert_eq!(rotates("cohere2"), [true, true, true, false]);
    assert_eq!(rotates("exaone4"), [true, true, true, false]);
    assert_eq!(rotates("exaone4_1b"), [true; 3]);
    assert_eq!(rotates("smollm3"), [true, true, true, false]);
    let gemma3 = spec("gemma3_text");
    assert_eq!(gemma3.embed.scale, 8.0);
    assert_eq!(
        attention(&gemma3).iter().map(|a| a.rope.unwrap().0).collect::<Vec<_>>(),
        [1, 1, 0, 1]
    );
    assert_eq!((gemma3.ropes[0].theta, gemma3.ropes[1].theta), (1e6, 1e4));
    assert!(attention(&gemma3).iter().all(|a| a.scale == 40f32.powf(-0.5) && a.softcap.is_none()));
    assert!(attention(&spec("gemma2")).iter().all(|a| a.softcap == Some(5.0)));
    assert_eq!(spec("llama_yarn").context, 128);
    let kv_heads = |name| attention(&spec(name))[0].kv_heads;
    assert_eq!(["falcon_7b", "falcon_40b", "gpt_bigcode", "gpt2"].map(kv_heads), [1, 2, 1, 4]);
    let branches = |name| spec(name).layers[0].len();
    let parallel = ["falcon_7b", "gptj", "phi2", "gpt_neox", "gpt_neox_seq", "glm4"];
    assert_eq!(parallel.map(branches), [1, 1, 1, 1, 2, 2]);
    let scales = |name| {
        let spec = spec(name);
        let Head::Lm { scale, .. } = spec.head else { unreachable!() };
        (spec.embed.scale, spec.layers[0][0].scale, attention(&spec)[0].scale, scale)
    };
    assert_eq!(scales("granite"), (1.75, 0.22, 0.125, 1.0 / 0.6));
    assert_eq!(scales("minicpm"), (2.0, 1.4 / 3f32.sqrt(), 0.25, 2.0));
}
