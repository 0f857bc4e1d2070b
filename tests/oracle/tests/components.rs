//! Every component of a `tokenizer.json`, alone and with others, on random texts.
use rinfer_oracle::Both;
use rinfer_testkit::shared::goldens;
use serde_json::{Value, json};

fn golden(name: &str) -> Value {
    let path = goldens().join("tokenizers").join(name).join("tokenizer.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Compares `base` with one of its fields replaced by each of `variants`.
fn check(base: &str, field: &str, variants: &[Value]) {
    for (i, variant) in variants.iter().enumerate() {
        let mut t = golden(base);
        t[field] = variant.clone();
        let name = format!("{base} with {field} = {variant}");
        Both::new(&name, &serde_json::to_vec(&t).unwrap()).compare(i as u64, 600);
    }
}

fn normalizers() -> Vec<Value> {
    vec![
        Value::Null,
        json!({"type": "NFC"}),
        json!({"type": "NFD"}),
        json!({"type": "NFKC"}),
        json!({"type": "NFKD"}),
        json!({"type": "Lowercase"}),
        json!({"type": "Strip", "strip_left": true, "strip_right": true}),
        json!({"type": "Strip", "strip_left": true, "strip_right": false}),
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        json!({"type": "StripAccents"}),
        json!({"type": "Nmt"}),
        json!({"type": "Prepend", "prepend": "▁"}),
        json!({"type": "Replace", "pattern": {"String": "o"}, "content": "0"}),
        json!({"type": "Replace", "pattern": {"Regex": "[a-e]+|\\s"}, "content": ""}),
        json!({"type": "Sequence", "normalizers": [
            {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true}),
        json!({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": true,
            "strip_accents": true, "lowercase": false}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": false,
            "strip_accents": false, "lowercase": true}),
    ]
}

#[test]
fn normalizers_match() {
    check("spm_llama", "normalizer", &normalizers());
    check("wordpiece_cased", "normalizer", &normalizers());
    check("bpe_gpt2", "normalizer", &normalizers());
    check("bpe_added_tokens", "normalizer", &normalizers());
    check("unigram_t5", "normalizer", &normalizers());
}

#[test]
fn byte_level_normalizer_matches() {
    let mut t = golden("bpe_gpt2");
    t["normalizer"] = json!({"type": "ByteLevel"});
    t["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": "Ġ?[A-z]+|Ġ+"},
        "behavior": "Isolated", "invert": false});
    Both::new("byte-level normalizer", &serde_json::to_vec(&t).unwrap()).compare(1, 1500);
}

#[test]
fn pre_tokenizers_match() {
    let byte = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let gpt2 = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let mut steps = vec![
        json!({"type": "BertPreTokenizer"}),
        json!({"type": "Whitespace"}),
        json!({"type": "WhitespaceSplit"}),
        json!({"type": "Digits", "individual_digits": true}),
        json!({"type": "Digits", "individual_digits": false}),
        json!({"type": "Punctuation"}),
        json!({"type": "CharDelimiterSplit", "delimiter": "e"}),
        json!({"type": "FixedLength", "length": 3}),
    ];
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"] {
        steps.push(json!({"type": "Punctuation", "behavior": behavior}));
        for invert in [false, true] {
            for pattern in [
                json!({"String": " "}),
                json!({"Regex": "\\p{L}+|\\s+(?!\\S)|\\s+"}),
                json!({"Regex": "\\d{1,3}"}),
            ] {
                steps.push(json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}));
            }
        }
    }
    let steps: Vec<Value> =
        steps.into_iter().filter(|s| s["type"] != "CharDelimiterSplit").collect();
    let chained = |last: &Value| -> Vec<Value> {
        let chain = |s: &Value| json!({"type": "Sequence", "pretokenizers": [s, last]});
        steps.iter().map(chain).collect()
    };
    check("bpe_gpt2", "pre_tokenizer", &chained(&byte));
    check("bpe_gpt2", "pre_tokenizer", &chained(&gpt2));
    check(
        "bpe_llama3",
        "pre_tokenizer",
        &[json!({"type": "Sequence", "pretokenizers": [byte, steps[3], steps[5]]})],
    );
    check("wordpiece_cased", "pre_tokenizer", &steps);
    for scheme in ["always", "first", "never"] {
        for split in [true, false] {
            let meta = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
            check("spm_metaspace_first", "pre_tokenizer", &chained(&meta));
            check(
                "spm_metaspace_first",
                "pre_tokenizer",
                &[meta.clone(), json!({"type": "Sequence", "pretokenizers": [meta, steps[5]]})],
            );
            check("unigram_t5", "pre_tokenizer", &[meta]);
        }
    }
}

/// The legacy and the later rule for spaces, after every kind of added token.
#[test]
fn spaces_after_added_tokens() {
    let legacy = golden("spm_llama");
    let mut later = golden("spm_metaspace_first");
    for t in [legacy.clone(), {
        later["added_tokens"] = legacy["added_tokens"].clone();
        later
    }] {
        for bits in 0..32u32 {
            let bit = |i: u32| bits >> i & 1 == 1;
            let mut t = t.clone();
            let list = t["added_tokens"].as_array_mut().unwrap();
            let first = 1700;
            for (i, content) in
                ["<|im_start|>", "<|im_end|>", "word", " spaced ", "▁▁▁▁▁x"].iter().enumerate()
            {
                list.push(
                    json!({"id": first + i, "content": content, "lstrip": bit(0), "rstrip": bit(1),
                    "single_word": bit(2), "normalized": bit(3), "special": bit(4)}),
                );
            }
            let name = format!("added tokens {bits:05b}, {}", t["normalizer"]["type"]);
            Both::new(&name, &serde_json::to_vec(&t).unwrap()).compare(u64::from(bits), 600);
        }
    }
}

#[test]
fn decoders_match() {
    let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let fallback = json!({"type": "ByteFallback"});
    let fuse = json!({"type": "Fuse"});
    let strip = |start: u32, stop: u32| json!({"type": "Strip", "content": " ", "start": start, "stop": stop});
    let variants = [
        Value::Null,
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        json!({"type": "WordPiece", "prefix": "##", "cleanup": false}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true}),
        json!({"type": "Sequence", "decoders": [replace, fallback, fuse, strip(1, 0)]}),
        json!({"type": "Sequence", "decoders": [replace, fallback, fuse]}),
        json!({"type": "Sequence", "decoders": [fallback, fuse, replace]}),
        json!({"type": "Sequence", "decoders": [replace, strip(1, 0)]}),
    ];
    for base in ["spm_llama", "bpe_gpt2", "wordpiece_uncased", "unigram_xlmr", "bpe_added_tokens"] {
        check(base, "decoder", &variants);
    }
}

#[test]
fn models_match() {
    for (base, options) in [
        (
            "spm_llama",
            vec![
                ("byte_fallback", json!(false)),
                ("fuse_unk", json!(false)),
                ("ignore_merges", json!(true)),
            ],
        ),
        (
            "bpe_gpt2",
            vec![
                ("ignore_merges", json!(true)),
                ("unk_token", json!("ÿ")),
                ("end_of_word_suffix", json!("e")),
            ],
        ),
        ("unigram_t5", vec![("byte_fallback", json!(true)), ("unk_id", json!(5))]),
        (
            "wordpiece_cased",
            vec![("max_input_chars_per_word", json!(3)), ("continuing_subword_prefix", json!("#"))],
        ),
    ] {
        for (key, value) in &options {
            let mut t = golden(base);
            t["model"][key] = value.clone();
            let name = format!("{base} with {key} = {value}");
            Both::new(&name, &serde_json::to_vec(&t).unwrap()).compare(3, 1500);
        }
        let mut t = golden(base);
        for (key, value) in options {
            t["model"][key] = value;
        }
        Both::new(base, &serde_json::to_vec(&t).unwrap()).compare(4, 1500);
    }
}
