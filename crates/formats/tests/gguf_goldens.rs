//! GGUF goldens: every tensor is found where it belongs, and the metadata says what the
//! checkpoint's config.json says.
use rinfer_formats::{Gguf, Weights, quant};
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::shared::goldens;
use serde_json::{Value, json};

/// What families read, but for what a GGUF can't state.
const FIELDS: &[&str] = &[
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "hidden_activation",
    "sliding_window",
    "sliding_window_pattern",
    "rope_local_base_freq",
    "rope_scaling",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
];

/// `(field, value)` pairs where the GGUF rightly says something else.
fn check(case: &str, other: &[(&str, Value)]) {
    let made = GgufGolden::load(&goldens().join("gguf").join(case));
    let names = made.golden.weights.len();
    let gguf = Gguf::parse(case, made.bytes).expect("a GGUF file");
    assert!(gguf.names().len() >= names, "{case}");
    for name in gguf.names() {
        let t = gguf.get(name).expect("a tensor that is named");
        assert_eq!(t.rows() * t.cols() * t.dtype.format().bytes, t.bytes.len(), "{case} {name}");
    }
    let config = gguf.config().expect("a config");
    for field in FIELDS {
        let found = config.get(field).unwrap_or(&Value::Null);
        let expected = match other.iter().find(|(f, _)| f == field) {
            Some((_, value)) => value,
            // Where config.json leaves a field out, the GGUF may say the family's default.
            None => match made.golden.config.get(field) {
                Some(value) => value,
                None => continue,
            },
        };
        assert_eq!(found, expected, "{case} {field}: {config:#}");
    }
}

#[test]
fn configs_equal_hugging_face() {
    let llama3 = ("rope_scaling", Value::Null); // it is the tensor rope_freqs.weight
    // llama.cpp doesn't slide in this family; the converter leaves the window out.
    let still = ("sliding_window", Value::Null);
    check("llama2.f16", &[]);
    check("llama31.f32", std::slice::from_ref(&llama3));
    check("llama31.bf16", std::slice::from_ref(&llama3));
    check("llama32.bf16", &[llama3]);
    check("mistral_nemo.bf16", &[("model_type", json!("llama"))]);
    check("qwen2.bf16", std::slice::from_ref(&still));
    check("qwen3.bf16", &[still]);
    check("gemma.bf16", &[]);
    check("gemma2.bf16", &[]);
    check("gemma3_text.bf16", &[]);
}

#[test]
fn real_files() {
    let check = |file, tokens, layers| {
        let Some(path) = rinfer_testkit::shared::model(file) else { return };
        let gguf = Gguf::open(path).expect("a GGUF file");
        let list = gguf.metadata().strs("tokenizer.ggml.tokens").expect("strings");
        let list: Vec<_> = list.expect("tokens").collect();
        assert_eq!(list.len(), tokens, "{file}");
        let config = gguf.config().expect("a config");
        assert_eq!(config["vocab_size"], tokens, "{file}");
        assert_eq!(config["num_hidden_layers"], layers, "{file}");
    };
    check("smollm2-135m-instruct-q4_1.gguf", 49_152, 30);
    check("gemma3-270m-q4_k_m.gguf", 262_144, 18);
}

/// Files that llama.cpp's quantiser wrote: every tensor has its recorded type and decodes to finite
/// floats.
#[test]
fn quantised_files() {
    let mut seen = 0;
    for entry in std::fs::read_dir(goldens().join("gguf_quant")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        let meta = std::fs::read(path.with_extension("meta.json")).expect("meta.json");
        let meta: Value = serde_json::from_slice(&meta).expect("JSON");
        let gguf = Gguf::open(&path).expect("a GGUF file");
        let config = gguf.config().expect("a config");
        for field in ["hidden_size", "num_hidden_layers", "num_key_value_heads", "rope_theta"] {
            assert_eq!(config[field], meta["config"][field], "{}", path.display());
        }
        for name in gguf.names() {
            let t = gguf.get(name).expect("a tensor that is named");
            assert_eq!(meta["types"][name], t.dtype.name(), "{} {name}", path.display());
            let mut out = vec![f32::NAN; t.rows() * t.cols()];
            quant::dequantise(t.dtype, &t.bytes, &mut out).expect("weights");
            assert!(out.iter().all(|x| x.is_finite()), "{} {name}", path.display());
        }
        seen += 1;
    }
    assert_eq!(seen, 16);
}
