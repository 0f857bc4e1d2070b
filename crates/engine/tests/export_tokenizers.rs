//! Real tokenizers in written GGUF files: llama.cpp's ids of its own test texts, by our reader and by its.
#![expect(clippy::unwrap_used, reason = "a failed write fails the test")]
use rinfer_engine::backend::Quant;
use rinfer_engine::export::{self, Making};
use rinfer_engine::load::Opened;
use rinfer_testkit::shared::{goldens, llama, shared};
use rinfer_testkit::{Golden, chat};
use rinfer_text::tokenizer::Special;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A tiny model with as many rows as the tokenizer in `dir` has tokens, and that tokenizer.
fn model(dir: &Path, out: &Path) {
    let bytes = std::fs::read(dir.join("tokenizer.json")).unwrap();
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    let added = json["added_tokens"].as_array().into_iter().flatten().map(|t| &t["id"]);
    let own = json["model"]["vocab"].as_object().into_iter().flat_map(|vocab| vocab.values());
    let rows = own.chain(added).filter_map(Value::as_u64).max().unwrap() as usize + 1;
    let mut golden = Golden::load(&goldens().join("llama3"));
    golden.config["vocab_size"] = rows.into();
    for (_, matrix) in golden.weights.iter_mut().filter(|(_, t)| t.shape == [256, 64]) {
        matrix.bytes.resize(matrix.bytes.len() / 256 * rows, 0);
        matrix.shape[0] = rows;
    }
    let _ = std::fs::remove_dir_all(out);
    chat::write_model(&golden, out);
    std::fs::write(out.join("config.json"), golden.config.to_string()).unwrap();
    std::fs::write(out.join("tokenizer.json"), bytes).unwrap();
    std::fs::write(out.join("tokenizer_config.json"), "{}").unwrap();
    let end = serde_json::json!({"eos_token_id": rows - 1});
    std::fs::write(out.join("generation_config.json"), end.to_string()).unwrap();
}

/// What is no merging of pairs is refused by its name; all others give the ids.
#[test]
fn real_tokenizers_are_written() {
    let Some(root) = shared("tokenizers-real") else { return };
    let temporary = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("export_tokenizers");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    let (mut jobs, mut expected, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for dir in all.iter().filter(|dir| dir.join("llamacpp.inp").exists()) {
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let folder = temporary.join(&name);
        model(dir, &folder);
        let out = temporary.join(format!("{name}.gguf"));
        let making = Making { quant: Quant::Native, threads: 2, split: None };
        let opened = Opened::open(&folder).unwrap();
        if let Err(error) = export::save(&opened, &making, &out) {
            if name != "bert-bge" || !error.to_string().contains("WordPiece") {
                wrong.push(format!("{name}: {error}"));
            }
            continue;
        }
        let language = Opened::open(&out).unwrap().language().unwrap();
        let input = std::fs::read_to_string(dir.join("llamacpp.inp")).unwrap();
        let output = std::fs::read_to_string(dir.join("llamacpp.out")).unwrap();
        for (text, line) in input.split("\n__ggml_vocab_test__\n").zip(output.lines()) {
            let ids: Vec<u32> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
            let ours = language.tokenizer.encode(text, Special::Plain);
            if ours != ids {
                wrong.push(format!("{name}: {text:?}: {ours:?}, not {ids:?}"));
            }
            jobs.push(serde_json::json!({"file": out, "text": text}));
            expected.push((name.clone(), ids));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(expected.len() > 100);
    let Some(llama) = llama() else { return };
    for ((job, answer), (name, ids)) in jobs.iter().zip(llama.ask(&jobs)).zip(&expected) {
        if answer != serde_json::json!(ids) {
            wrong.push(format!("{name}: {}: {answer}, not {ids:?}", job["text"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
