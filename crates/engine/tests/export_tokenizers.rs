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
    let vocab = &json["model"]["vocab"];
    let own = vocab.as_object().into_iter().flat_map(|vocab| vocab.values());
    let most = own.chain(added).filter_map(Value::as_u64).max().unwrap() as usize + 1;
    let rows = most.max(vocab.as_array().map_or(0, Vec::len));
    let mut golden = Golden::load(&goldens().join("llama3"));
    golden.config["vocab_size"] = rows.into();
    // The last that was added ends texts, and nothing else has a task.
    let added = json["added_tokens"].as_array().and_then(|all| all.last());
    golden.config["eos_token_id"] = added.map_or((rows - 1).into(), |token| token["id"].clone());
    golden.config.as_object_mut().unwrap().remove("bos_token_id");
    for (_, matrix) in golden.weights.iter_mut().filter(|(_, t)| t.shape == [256, 64]) {
        matrix.bytes.resize(matrix.bytes.len() / 256 * rows, 0);
        matrix.shape[0] = rows;
    }
    let _ = std::fs::remove_dir_all(out);
    chat::write_model(&golden, out);
    std::fs::write(out.join("config.json"), golden.config.to_string()).unwrap();
    std::fs::write(out.join("tokenizer.json"), bytes).unwrap();
    std::fs::write(out.join("tokenizer_config.json"), "{}").unwrap();
    std::fs::write(out.join("generation_config.json"), "{}").unwrap();
}

/// They give the ids that llama.cpp gives of the originals.
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
        let making = Making { quant: Quant::Native, threads: 2, split: None, context: None };
        let opened = Opened::open(&folder).unwrap();
        if let Err(error) = export::save(&opened, &making, &out) {
            wrong.push(format!("{name}: {error}"));
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

/// A map of characters, in sentencepiece's trie: spaces of all kinds are one, `Q` is `q`.
fn charsmap() -> String {
    let all = [
        ("\t", 0),
        ("\n", 0),
        ("\r", 0),
        ("\u{a0}", 0),
        ("\u{2003}", 0),
        ("\u{2009}", 0),
        ("▁", 0),
        ("\u{3000}", 0),
        ("Q", 2),
    ];
    // Each node's children lie in 256 units of their own, and its own value in the first of these.
    let (mut units, mut nodes) = (vec![0u32; 256 * 32], 1);
    units[0] = 256 << 10;
    for (text, value) in all {
        let (mut base, bytes) = (256, text.as_bytes());
        for (i, byte) in bytes.iter().enumerate() {
            let at = base ^ usize::from(*byte);
            if units[at] == 0 {
                nodes += 1;
                units[at] = ((at ^ (256 * nodes)) as u32) << 10 | u32::from(*byte);
            }
            base = at ^ (units[at] >> 10) as usize;
            if i + 1 == bytes.len() {
                units[at] |= 1 << 8;
                units[base] = 1 << 31 | value;
            }
        }
    }
    let mut blob = (4 * units.len() as u32).to_le_bytes().to_vec();
    blob.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    blob.extend(b" \0q\0");
    base64(&blob)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| -> String {
        let bits = (0..3).fold(0u32, |bits, i| bits << 8 | u32::from(*three.get(i).unwrap_or(&0)));
        let digit = |i: usize| match i <= three.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * i) & 63) as usize]),
            false => '=',
        };
        (0..4).map(digit).collect()
    };
    bytes.chunks(3).map(group).collect()
}

/// The repository's, and those of T5's and XLM-R's kind with the steps that released ones have. What GGUF
/// has no words for is refused; the others give the ids that their files give, and Hugging Face.
#[test]
fn every_kind_is_written() {
    let temporary = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("export_kinds");
    let mut cases: Vec<(String, Value, Value)> = Vec::new();
    let mut all: Vec<PathBuf> = std::fs::read_dir(goldens().join("tokenizers"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    all.sort();
    let read =
        |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    for dir in all {
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let (json, golden) = (read(dir.join("tokenizer.json")), read(dir.join("golden.json")));
        if name == "unigram_t5" || name == "unigram_xlmr" {
            let mut released = json.clone();
            released["normalizer"] =
                serde_json::json!({"type": "Precompiled", "precompiled_charsmap": charsmap()});
            let mut spaced = released["pre_tokenizer"].clone();
            if spaced["type"] == "Metaspace" {
                let split = serde_json::json!({"type": "WhitespaceSplit"});
                spaced = serde_json::json!({"type": "Sequence", "pretokenizers": [split, spaced]});
            }
            released["pre_tokenizer"] = spaced;
            // Sentencepiece's scores are f32, so that sums are exact and what is as likely is so anywhere.
            for entry in released["model"]["vocab"].as_array_mut().unwrap() {
                entry[1] = f64::from(entry[1].as_f64().unwrap() as f32).into();
            }
            cases.push((format!("{name}_released"), released, golden.clone()));
        }
        cases.push((name, json, golden));
    }
    let (mut refused, mut wrong, mut jobs, mut notes) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, json, golden) in &cases {
        let (source, folder) =
            (temporary.join(name).join("source"), temporary.join(name).join("model"));
        std::fs::create_dir_all(&source).unwrap();
        std::fs::write(source.join("tokenizer.json"), json.to_string()).unwrap();
        model(&source, &folder);
        let out = temporary.join(format!("{name}.gguf"));
        let _ = std::fs::remove_file(&out);
        let making = Making { quant: Quant::Native, threads: 2, split: None, context: None };
        let opened = Opened::open(&folder).unwrap();
        match export::save(&opened, &making, &out) {
            Ok(written) => {
                notes.extend(written.unsaid.into_iter().map(|what| (name.clone(), what)))
            }
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains("no tokenizer that cuts") && !out.exists(),
                    "{name}: {error}"
                );
                refused.push(name.as_str());
                continue;
            }
        }
        let spaced = notes.contains(&(name.clone(), SPACES.to_owned()));
        let [own, back] =
            [&folder, &out].map(|path| Opened::open(path).unwrap().language().unwrap().tokenizer);
        let added: Vec<&str> = json["added_tokens"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|t| t["content"].as_str())
            .collect();
        for case in golden["strings"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let ids = own.encode(text, Special::Parse);
            let theirs: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            if !name.ends_with("_released") && ids != theirs {
                wrong.push(format!("{name}: {text:?}: {ids:?}, not Hugging Face's {theirs:?}"));
            }
            let found = back.encode(text, Special::Parse);
            let at_ends = spaced && text.starts_with([' ', '▁']);
            if found != ids && !at_ends && !OTHERWISE.contains(&(name, text)) {
                wrong.push(format!("{name}: {text:?}: {found:?}, not {ids:?}"));
            }
            if found == ids && !added.iter().any(|token| text.contains(token)) {
                jobs.push((name.clone(), serde_json::json!({"file": out, "text": text}), ids));
            }
        }
        if own.wrap(&[7]) != back.wrap(&[7]) {
            wrong.push(format!("{name}: {:?}, not {:?}", back.wrap(&[7]), own.wrap(&[7])));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(refused, REFUSED);
    let notes: Vec<(&str, &str)> = notes.iter().map(|(name, what)| (&**name, &**what)).collect();
    assert_eq!(notes, NOTES);
    let Some(llama) = llama() else { return };
    let asked: Vec<Value> = jobs.iter().map(|(_, job, _)| job.clone()).collect();
    for ((name, job, ids), answer) in jobs.iter().zip(llama.ask(&asked)) {
        // It takes no Hangul apart, which belongs to taking accents off.
        let hangul = name == "wordpiece_uncased" && job["text"] == "한국어 텍스트 예제";
        if answer != serde_json::json!(ids) && !hangul {
            wrong.push(format!("{name}: {}: {answer}, not {ids:?}", job["text"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const ACCENTS: &str = "accents that are characters of their own are not composed";
const SPACES: &str = "spaces that texts begin or end with are cut otherwise";

/// What GGUF has no keys for, as the writer says.
const NOTES: [(&str, &str); 7] = [
    ("bpe_added_tokens", ACCENTS),
    ("bpe_added_tokens", "spaces beside control tokens are cut otherwise, beside 1 of them"),
    ("bpe_qwen2", ACCENTS),
    ("spm_metaspace_always_split", SPACES),
    (
        "spm_metaspace_always_split",
        "spaces beside control tokens are cut otherwise, beside 3 of them",
    ),
    ("spm_metaspace_first", SPACES),
    ("spm_metaspace_first", "spaces beside control tokens are cut otherwise, beside 3 of them"),
];

/// What is cut otherwise therefore: by composition, words that added tokens must be, and spaces. A
/// merge of pieces is known by what it makes, of which a trained vocabulary has several.
const OTHERWISE: [(&str, &str); 11] = [
    ("bpe_added_tokens", "I'm you've he'll they'd it's WE'RE I'VE don't DON'T"),
    ("bpe_added_tokens", "e\u{301} vs é"),
    ("bpe_added_tokens", "A\u{30a} Å Å"),
    ("bpe_added_tokens", "<|special|>  <|special|>"),
    ("bpe_added_tokens", "x <mask> y<mask>z"),
    ("bpe_qwen2", "e\u{301} vs é"),
    ("bpe_qwen2", "A\u{30a} Å Å"),
    ("spm_llama", "!!!???..."),
    ("spm_metaspace_always_split", "!!!???..."),
    ("spm_metaspace_first", "!!!???..."),
    ("spm_metaspace_first", "<s>Hello</s>"),
];

/// What is composed or lowered otherwise than by a map of characters, and other rules for spaces.
const REFUSED: [&str; 4] =
    ["bpe_gpt2_prefix_space", "unigram_albert", "unigram_t5", "unigram_xlmr"];

/// A token that no row stands for is left out: what it is called is text.
#[test]
fn tokens_without_rows_are_left_out() {
    let temporary = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("export_rowless");
    let folder = temporary.join("model");
    model(&goldens().join("tokenizers/bpe_llama3"), &folder);
    let path = folder.join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut token = json["added_tokens"][0].clone();
    let rows = Opened::open(&folder).unwrap().spec.vocab;
    (token["id"], token["content"]) = (rows.into(), "<image>".into());
    json["added_tokens"].as_array_mut().unwrap().push(token);
    std::fs::write(&path, json.to_string()).unwrap();
    let out = temporary.join("model.gguf");
    let making = Making { quant: Quant::Native, threads: 1, split: None, context: None };
    export::save(&Opened::open(&folder).unwrap(), &making, &out).unwrap();
    let read = |path: &Path| Opened::open(path).unwrap().language().unwrap().tokenizer;
    assert_eq!(read(&folder).encode("<image>", Special::Parse), [rows as u32]);
    let ids = read(&out).encode("<image>", Special::Parse);
    assert!(ids.len() > 1 && ids.iter().all(|id| (*id as usize) < rows), "{ids:?}");
}
