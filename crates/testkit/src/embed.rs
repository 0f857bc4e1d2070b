//! A tiny embedding model, and a tiny reranker, with all that sentence-transformers lays beside one.
use crate::Golden;
use crate::chat::tokenizer_json;
use crate::safetensors::{self, Entry};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Tokens of a text at most.
pub const CONTEXT: usize = 48;
/// Elements of a vector.
pub const WIDTH: usize = 40;

/// tokenizer.json: `<s>` before a text, `</s>` after it and between two.
fn tokenizer() -> Value {
    let mut file = tokenizer_json();
    let begin = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let end = |kind: u8| json!({"SpecialToken": {"id": "</s>", "type_id": kind}});
    let text = |id: &str, kind: u8| json!({"Sequence": {"id": id, "type_id": kind}});
    file["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [begin, text("A", 0), end(0)],
        "pair": [begin, text("A", 0), end(0), text("B", 1), end(1)],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
        },
    });
    file
}

/// A tensor of numbers that follow from their places.
pub fn numbers(shape: &[usize]) -> Entry {
    let count: usize = shape.iter().product();
    let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 200.0;
    let bytes = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
    Entry { dtype: "F32".into(), shape: shape.to_vec(), bytes }
}

fn write(dir: &Path, name: &str, json: &Value) {
    std::fs::write(dir.join(name), json.to_string()).expect("a side file");
}

/// Writes the golden's checkpoint as an embedding model: the mean of its rows, at unit length.
///
/// # Panics
/// If the folder can't be written.
pub fn write_plain(golden: &Golden, dir: &Path) {
    golden.write_checkpoint(dir);
    write(dir, "tokenizer.json", &tokenizer());
    list(dir, &["Transformer", "Pooling", "Normalize"]);
    let pooling = dir.join("1_Pooling");
    std::fs::create_dir_all(&pooling).expect("a folder");
    let modes = json!({
        "word_embedding_dimension": golden.config["hidden_size"], "pooling_mode_cls_token": false,
        "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false,
    });
    write(&pooling, "config.json", &modes);
}

/// modules.json.
fn list(dir: &Path, kinds: &[&str]) {
    let module = |(i, kind): (usize, &&str)| {
        let path = if i == 0 { String::new() } else { format!("{i}_{kind}") };
        let class = format!("sentence_transformers.models.{kind}");
        json!({"idx": i, "name": i.to_string(), "path": path, "type": class})
    };
    let modules: Vec<Value> = kinds.iter().enumerate().map(module).collect();
    write(dir, "modules.json", &json!(modules));
}

/// The same, but that the mean goes through dense layers first: width, whether there is a bias, torch's
/// activation.
///
/// # Panics
/// If the folder can't be written.
pub fn write_dense(golden: &Golden, dir: &Path, layers: &[(usize, bool, &str)]) {
    write_plain(golden, dir);
    let dense = vec!["Dense"; layers.len()];
    list(dir, &[&["Transformer", "Pooling"], &dense[..], &["Normalize"]].concat());
    let mut from = golden.config["hidden_size"].as_u64().expect("a width") as usize;
    for (i, (width, bias, act)) in layers.iter().enumerate() {
        let own = dir.join(format!("{}_Dense", i + 2));
        std::fs::create_dir_all(&own).expect("a folder");
        let config = json!({
            "in_features": from, "out_features": width, "bias": bias, "activation_function": act,
        });
        write(&own, "config.json", &config);
        let mut tensors = BTreeMap::new();
        tensors.insert("linear.weight".to_owned(), numbers(&[*width, from]));
        if *bias {
            tensors.insert("linear.bias".to_owned(), numbers(&[*width]));
        }
        let tensors = safetensors::write(&tensors);
        std::fs::write(own.join("model.safetensors"), tensors).expect("tensors");
        from = *width;
    }
}

/// The same, of one such layer to [`WIDTH`] elements with a hyperbolic tangent; texts have at most
/// [`CONTEXT`] tokens, and there are prompts called `query` and `document`.
///
/// # Panics
/// If the folder can't be written.
pub fn write_model(golden: &Golden, dir: &Path) {
    write_dense(golden, dir, &[(WIDTH, true, "torch.nn.modules.activation.Tanh")]);
    write(
        dir,
        "config_sentence_transformers.json",
        &json!({
            "prompts": {"query": "query: ", "document": "text: "}, "default_prompt_name": null,
            "similarity_fn_name": "cosine",
        }),
    );
    let length = json!({"max_seq_length": CONTEXT, "do_lower_case": false});
    write(dir, "sentence_bert_config.json", &length);
}

/// Writes the golden's checkpoint, whose pooler it has, as a model that scores pairs by one number.
///
/// # Panics
/// If the folder can't be written.
pub fn write_reranker(golden: &Golden, dir: &Path) {
    golden.write_checkpoint(dir);
    write(dir, "tokenizer.json", &tokenizer());
    let mut config = golden.config.clone();
    config["architectures"] = json!(["BertForSequenceClassification"]);
    config["id2label"] = json!({"0": "LABEL_0"});
    write(dir, "config.json", &config);
    let d = golden.config["hidden_size"].as_u64().expect("a width") as usize;
    let outer = |name: &String| format!("bert.{name}");
    let mut tensors: BTreeMap<String, Entry> =
        golden.weights.iter().map(|(name, entry)| (outer(name), entry.clone())).collect();
    tensors.insert("classifier.weight".to_owned(), numbers(&[1, d]));
    tensors.insert("classifier.bias".to_owned(), numbers(&[1]));
    std::fs::write(dir.join("model.safetensors"), safetensors::write(&tensors)).expect("tensors");
}
