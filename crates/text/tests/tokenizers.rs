//! Token ids and texts against Hugging Face's and llama.cpp's records.
#![allow(clippy::unwrap_used)]

mod gguf;

use rinfer_testkit::shared::{goldens, model, shared};
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::Special;
use serde_json::Value;
use std::path::Path;

fn json(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap()
}

fn ids(v: &Value) -> Vec<u32> {
    v.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn folders(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.join("golden.json").exists());
    all.sort();
    all
}

/// Compares one `tokenizer.json` with its `golden.json`: ids, ids with begin and end, texts.
fn check_golden(dir: &Path) {
    let name = dir.display();
    let bytes = std::fs::read(dir.join("tokenizer.json")).unwrap();
    let t = Tokenizer::from_json(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    let golden = json(&dir.join("golden.json"));
    assert_eq!(t.vocab_size() as u64, golden["vocab_size"], "{name}");
    let mut wrong = vec![];
    for s in golden["strings"].as_array().unwrap() {
        let text = s["text"].as_str().unwrap();
        let got = t.encode(text, Special::Parse);
        let wrapped = t.wrap(&got);
        let mut expect = |what: &str, same: bool, found: String| {
            if !same {
                wrong.push(format!("{text:?} {what}: {found}, expected {}", s[what]));
            }
        };
        expect("ids", got == ids(&s["ids"]), format!("{got:?}"));
        expect("ids_special", wrapped == ids(&s["ids_special"]), format!("{wrapped:?}"));
        for (what, skip) in [("decoded", false), ("decoded_skip", true)] {
            let text = t.decode(&ids(&s["ids"]), skip);
            expect(what, text == s[what].as_str().unwrap(), format!("{text:?}"));
        }
    }
    let p = &golden["pair"];
    if !p.is_null() {
        let encode = |key: &str| t.encode(p[key].as_str().unwrap(), Special::Parse);
        let (got, types) = t.wrap_pair(&encode("a"), &encode("b"));
        assert_eq!((got, types), (ids(&p["ids"]), ids(&p["type_ids"])), "{name}: pair");
    }
    let shown = wrong[..wrong.len().min(12)].join("\n");
    assert!(wrong.is_empty(), "{name}: {} differ\n{shown}", wrong.len());
}

#[test]
fn hugging_face_goldens() {
    let all = folders(&goldens().join("tokenizers"));
    assert_eq!(all.len(), 21);
    all.iter().for_each(|dir| check_golden(dir));
}

#[test]
fn real_vocabularies() {
    let Some(dir) = shared("tokenizers-real") else { return };
    let all = folders(&dir);
    assert_eq!(all.len(), 10);
    for dir in all {
        check_golden(&dir);
        check_llama_cpp(&dir);
    }
}

/// llama.cpp's own vocabulary test: texts and their ids, without begin and end.
fn check_llama_cpp(dir: &Path) {
    let t = Tokenizer::from_json(&std::fs::read(dir.join("tokenizer.json")).unwrap()).unwrap();
    let input = std::fs::read_to_string(dir.join("llamacpp.inp")).unwrap();
    let output = std::fs::read_to_string(dir.join("llamacpp.out")).unwrap();
    let texts = input.split("\n__ggml_vocab_test__\n");
    for (text, line) in texts.zip(output.lines()) {
        let expected: Vec<u32> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert_eq!(t.encode(text, Special::Plain), expected, "{}: {text:?}", dir.display());
    }
}

/// One GGUF file against llama.cpp: ids without and with special tokens, with begin and end, and
/// the bytes of each token.
fn check_gguf(name: &str) {
    let (Some(file), Some(dir)) = (model(name), shared("reference")) else { return };
    let t = gguf::tokenizer(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
    let reference = json(&dir.join(name.trim_end_matches(".gguf")).join("tokenize.json"));
    assert_eq!(t.vocab_size() as u64, reference["n_vocab"]);
    let mut wrong = vec![];
    for s in reference["strings"].as_array().unwrap() {
        let text = s["text"].as_str().unwrap();
        let plain = t.encode(text, Special::Plain);
        let special = t.encode(text, Special::Parse);
        let wrapped = t.wrap(&special);
        let found = [("ids", &plain), ("ids_special", &special), ("ids_default", &wrapped)];
        for (what, found) in found {
            if *found != ids(&s[what]) {
                wrong.push(format!("{text:?} {what}: {found:?}, expected {}", s[what]));
            }
        }
        let hex = |id: &u32| t.bytes(*id).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let pieces: Vec<_> = ids(&s["ids"]).iter().map(hex).collect();
        if pieces != serde_json::from_value::<Vec<String>>(s["pieces_hex"].clone()).unwrap() {
            wrong.push(format!("{text:?}: {pieces:?}, expected {}", s["pieces_hex"]));
        }
        assert!(!plain.iter().any(|&id| t.is_control(id)), "{text:?}");
    }
    assert!(wrong.is_empty(), "{name}: {} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn smollm2_gguf_matches_llama_cpp() {
    check_gguf("smollm2-135m-instruct-q4_1.gguf");
}

#[test]
fn gemma3_gguf_matches_llama_cpp() {
    check_gguf("gemma3-270m-q4_k_m.gguf");
}
