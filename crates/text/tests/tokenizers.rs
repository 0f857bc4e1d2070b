//! Token ids and texts against Hugging Face's and llama.cpp's records.
#![allow(clippy::unwrap_used)]

mod gguf;

use rinfer_testkit::shared::{goldens, model, shared};
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::{Roles, Special};
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
fn check_golden(dir: &Path) -> Tokenizer {
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
    t
}

#[test]
fn hugging_face_goldens() {
    let all = folders(&goldens().join("tokenizers"));
    assert_eq!(all.len(), 21);
    for dir in all {
        check_golden(&dir);
    }
}

#[test]
fn real_vocabularies() {
    let Some(dir) = shared("tokenizers-real") else { return };
    let all = folders(&dir);
    assert_eq!(all.len(), 10);
    for dir in all {
        let t = check_golden(&dir);
        check_llama_cpp(&t, &dir);
    }
}

/// llama.cpp's own vocabulary test: texts and their ids, without begin and end.
fn check_llama_cpp(t: &Tokenizer, dir: &Path) {
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

/// The same vocabularies by the way of GGUF, whose pre-tokenizers have names.
#[test]
fn goldens_as_gguf() {
    let cases = [
        ("gpt2", "gpt-2", "bpe_gpt2"),
        ("gpt2", "llama-bpe", "bpe_llama3"),
        ("gpt2", "qwen35", "bpe_qwen35"),
        ("gpt2", "gpt-4o", "bpe_o200k"),
        ("gpt2", "starcoder", "bpe_starcoder"),
        ("gpt2", "deepseek-v3", "bpe_deepseek3"),
        ("bert", "", "wordpiece_uncased"),
        ("bert", "", "wordpiece_cased"),
        ("llama", "", "spm_llama"),
        ("t5", "", "unigram_t5"),
    ];
    // Of T5's normalizer GGUF files keep a compiled form, which this one has not.
    let simple = |t: &str| t.is_ascii() && t.trim() == t && !t.contains(char::is_control);
    for (model, pre, name) in cases {
        let dir = goldens().join("tokenizers").join(name);
        let from_json = Tokenizer::from_json(&std::fs::read(dir.join("tokenizer.json")).unwrap());
        let mut roles = *from_json.unwrap().roles();
        if model == "bert" {
            (roles.cls, roles.sep) = (roles.bos, roles.eos);
            (roles.pad, roles.mask) = (Some(0), Some(4));
        }
        let converted = gguf::Converted::new(model, pre, &json(&dir.join("tokenizer.json")));
        let t = converted.tokenizer(roles);
        for s in json(&dir.join("golden.json"))["strings"].as_array().unwrap() {
            let text = s["text"].as_str().unwrap();
            if model == "t5" && !simple(text) {
                continue;
            }
            let got = t.encode(text, Special::Parse);
            assert_eq!(got, ids(&s["ids"]), "{name}: {text:?}");
            assert_eq!(
                t.decode(&got, true),
                s["decoded_skip"].as_str().unwrap(),
                "{name}: {text:?}"
            );
            if pre.is_empty() {
                assert_eq!(t.wrap(&got), ids(&s["ids_special"]), "{name}: {text:?}");
            }
        }
    }
}

/// Real vocabularies by the way of GGUF, on llama.cpp's own vocabulary tests.
#[test]
fn real_vocabularies_as_gguf() {
    let Some(dir) = shared("tokenizers-real") else { return };
    let cases = [
        ("gpt2", "gpt-2"),
        ("gpt2", "llama-bpe"),
        ("gpt2", "qwen2"),
        ("gpt2", "qwen35"),
        ("gpt2", "starcoder"),
        ("gpt2", "refact"),
        ("gpt2", "falcon"),
        ("gpt2", "deepseek-coder"),
        ("bert", "bert-bge"),
        ("llama", "llama-spm"),
    ];
    for (model, name) in cases {
        let dir = dir.join(name);
        let file = json(&dir.join("tokenizer.json"));
        let bos = Some(128_000).filter(|_| name == "llama-bpe");
        let converted = gguf::Converted::new(model, name, &file);
        check_llama_cpp(&converted.tokenizer(Roles { bos, ..Roles::default() }), &dir);
    }
}
