//! Faults that people met in other engines' tokenizers, by the numbers of the list of field faults.
#![allow(clippy::unwrap_used)]

use rinfer_testkit::shared::{goldens, shared};
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::{GgufVocab, Roles, Special};
use serde_json::{Value, json};

fn golden(name: &str) -> Value {
    let path = goldens().join("tokenizers").join(name).join("tokenizer.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn from(json: &Value) -> Tokenizer {
    Tokenizer::from_json(&serde_json::to_vec(json).unwrap()).unwrap()
}

fn real(name: &str) -> Option<Tokenizer> {
    let dir = shared("tokenizers-real")?;
    let bytes = std::fs::read(dir.join(name).join("tokenizer.json")).unwrap();
    Some(Tokenizer::from_json(&bytes).unwrap())
}

/// The tokens of `text`, as the vocabulary spells them.
fn tokens(t: &Tokenizer, text: &str, special: Special<'_>) -> Vec<String> {
    t.encode(text, special).iter().map(|&id| t.token(id).unwrap().into_owned()).collect()
}

fn with_added(mut json: Value, content: &str, special: bool) -> Value {
    let id = 5000;
    let token = json!({"id": id, "content": content, "lstrip": false, "rstrip": false,
        "single_word": false, "normalized": false, "special": special});
    json["added_tokens"].as_array_mut().unwrap().push(token);
    json
}

/// A SentencePiece vocabulary with byte tokens, as a GGUF file has it.
fn spm_gguf(tokens: &[(&'static str, f32, i32)]) -> GgufVocab<'static> {
    let mut all =
        vec![("<unk>".to_owned(), 0.0, 2), ("<s>".into(), 0.0, 3), ("</s>".into(), 0.0, 3)];
    all.extend((0..256).map(|b| (format!("<0x{b:02X}>"), 0.0, 6)));
    all.extend(tokens.iter().map(|&(t, s, k)| (t.to_owned(), s, k)));
    let scores = all.iter().map(|t| t.1).collect();
    let token_types = all.iter().map(|t| t.2).collect();
    let texts: Vec<&'static [u8]> =
        all.into_iter().map(|t| &*Box::leak(t.0.into_boxed_str().into_boxed_bytes())).collect();
    let mut v = GgufVocab::new("llama", texts.into_iter());
    (v.scores, v.token_types) = (scores, token_types);
    v
}

#[test]
fn t1_word_after_an_added_token() {
    // Legacy SentencePiece marks the word again, the later rule does not.
    for special in [false, true] {
        let t = from(&with_added(golden("spm_llama"), "<|im_start|>", special));
        let first = tokens(&t, "<|im_start|>the", Special::Parse);
        assert_eq!(first, ["<|im_start|>", "▁the"]);
        let t = from(&with_added(golden("spm_metaspace_first"), "<|im_start|>", special));
        let first = tokens(&t, "<|im_start|>the", Special::Parse);
        assert_eq!(first, ["<|im_start|>", "the"]);
    }
    let vocab = [("▁", -9.0, 1), ("a", -8.0, 1), ("▁a", -1.0, 1), ("<|im_start|>", 0.0, 4)];
    let t = Tokenizer::from_gguf(spm_gguf(&vocab)).unwrap();
    assert_eq!(tokens(&t, "<|im_start|>a", Special::Plain), ["<|im_start|>", "▁a"]);
}

#[test]
fn t2_space_after_a_special_token() {
    let later = from(&golden("spm_metaspace_first"));
    assert_eq!(tokens(&later, "<s> the", Special::Parse), ["<s>", "▁the"]);
    let legacy = from(&golden("spm_llama"));
    assert_eq!(tokens(&legacy, "<s> the", Special::Parse), ["<s>", "▁", "▁the"]);
}

#[test]
fn t3_first_word_and_emoji() {
    let Some(t) = real("llama-spm") else { return };
    let expected = [910, 338, 29871, 243, 162, 169, 156, 29889, 8223];
    assert_eq!(t.encode("This is 🦙.cpp", Special::Plain), expected);
}

#[test]
fn t5_accents() {
    let Some(t) = real("bert-bge") else { return };
    for (accented, plain) in
        [("Kantō", "kanto"), ("naïve café", "naive cafe"), ("Ǻngström", "angstrom"), ("ệ", "e")]
    {
        assert_eq!(t.encode(accented, Special::Plain), t.encode(plain, Special::Plain));
    }
}

#[test]
fn t6_compatibility_forms() {
    let cases = [
        (json!({"type": "NFKC"}), "½（ﬁ）", "1⁄2(fi)"),
        (json!({"type": "NFC"}), "e\u{301}", "é"),
        (json!({"type": "NFD"}), "é", "e\u{301}"),
        (json!({"type": "NFKD"}), "ﬁé", "fie\u{301}"),
        (json!({"type": "Lowercase"}), "ÀB", "àb"),
        (json!({"type": "Replace", "pattern": {"String": "a"}, "content": "bb"}), "aa", "bbbb"),
        (json!({"type": "Prepend", "prepend": "x"}), "a", "xa"),
    ];
    let mut plain = golden("bpe_gpt2");
    plain["normalizer"] = Value::Null;
    for (normalizer, text, normal) in cases {
        let mut json = plain.clone();
        json["normalizer"] = normalizer;
        let expected = from(&plain).encode(normal, Special::Plain);
        assert_eq!(from(&json).encode(text, Special::Plain), expected, "{text:?}");
    }
}

#[test]
fn t8_odd_characters_and_tokens_that_are_no_text() {
    let t = from(&golden("bpe_qwen2"));
    for c in (0..0x11_0000).step_by(7).filter_map(char::from_u32) {
        let text = format!("{c}\u{2029}x{c}");
        let nfc: String = t.decode(&t.encode(&text, Special::Parse), false);
        assert!(nfc.contains('\u{2029}'), "{text:?}");
    }
    let half: &[u8] = b"\xE2\x96";
    let mut v = GgufVocab::new("gpt2", [&b"a"[..], half, b"b", b"ab"].into_iter());
    v.merges = Box::new([&b"a b"[..]].into_iter());
    let t = Tokenizer::from_gguf(v).unwrap();
    assert_eq!(t.encode("abx", Special::Parse), [3]);
    assert_eq!(t.decode(&[1, 3, 99], false), "\u{FFFD}ab");
    assert_eq!((t.bytes(1), t.bytes(99)), (half, &b""[..]));
}

#[test]
fn added_tokens_and_holes_of_gguf_files() {
    let texts: [&[u8]; 5] = [b"a", b"", "é".as_bytes(), "<｜x▁y｜>".as_bytes(), "Ã".as_bytes()];
    let mut v = GgufVocab::new("gpt2", texts.into_iter());
    v.token_types = vec![1, 1, 4, 3, 1];
    let t = Tokenizer::from_gguf(v).unwrap();
    let ids = t.encode("aé<｜x▁y｜>", Special::Parse);
    assert_eq!((ids.as_slice(), t.vocab_size(), t.token(1)), (&[0, 2, 3][..], 5, None));
    assert_eq!(t.decode(&ids, false), "aé<｜x▁y｜>");
    assert_eq!((t.bytes(2), t.bytes(4)), ("é".as_bytes(), &b"\xC3"[..]));
}

#[test]
fn t9_digits() {
    let cases = [
        ("llama-bpe", &["333", "3", "+", "777"][..]),
        ("qwen2", &["3", "3", "3", "3", "+", "7", "7", "7"]),
        ("deepseek-coder", &["3", "3", "3", "3", "+", "7", "7", "7"]),
    ];
    for (name, expected) in cases {
        let Some(t) = real(name) else { return };
        assert_eq!(tokens(&t, "3333+777", Special::Plain), expected, "{name}");
    }
}

#[test]
fn t10_the_file_decides_not_the_architecture() {
    // A Llama checkpoint with a byte-level vocabulary keeps its spaces.
    let t = from(&golden("bpe_llama3"));
    let text = "one  two\n three";
    assert_eq!(t.decode(&t.encode(text, Special::Parse), false), text);
    let texts: [&[u8]; 4] = [b"a", "Ġ".as_bytes(), "Ġa".as_bytes(), b"<|end|>"];
    let mut v = GgufVocab::new("gpt2", texts.into_iter());
    v.pre = Some("llama-bpe");
    v.token_types = vec![1, 1, 1, 3];
    v.roles = Roles { bos: Some(3), ..Roles::default() };
    v.merges = Box::new(["Ġ a".as_bytes()].into_iter());
    let t = Tokenizer::from_gguf(v).unwrap();
    assert_eq!(t.encode("a a  a", Special::Parse), [0, 2, 1, 2]);
    assert_eq!(t.decode(&[0, 2, 1, 2], false), "a a  a");
    assert_eq!(t.wrap(&[0]), [3, 0]);
}

#[test]
fn t11_text_never_becomes_control_tokens() {
    for name in ["bpe_qwen2", "bpe_added_tokens", "spm_llama", "unigram_xlmr", "wordpiece_cased"] {
        let json = golden(name);
        let t = from(&json);
        for token in json["added_tokens"].as_array().unwrap() {
            if token["special"] == true {
                keeps_text_apart(&t, token["content"].as_str().unwrap());
            }
        }
    }
}

/// A user types `token`, between two that the template wrote.
fn keeps_text_apart(t: &Tokenizer, token: &str) {
    let id = t.id_of(token).unwrap();
    let unk = t.roles().unk;
    let control = |ids: &[u32]| ids.iter().any(|&id| t.is_control(id) && Some(id) != unk);
    let typed = format!("a{token} b{token}{token}");
    assert!(!control(&t.encode(&typed, Special::Plain)), "{typed:?}");
    let rendered = format!("{token}{typed}{token}");
    let user = token.len()..token.len() + typed.len();
    let ids = t.encode(&rendered, Special::Except(std::slice::from_ref(&user)));
    assert_eq!((ids[0], ids[ids.len() - 1]), (id, id), "{rendered:?}");
    assert!(!control(&ids[1..ids.len() - 1]), "{rendered:?}: {ids:?}");
    // Half of it typed and half written is text.
    let second = token.len() / 2..token.len();
    let halves = t.encode(token, Special::Except(std::slice::from_ref(&second)));
    assert!(!control(&halves), "{token:?}");
}

#[test]
fn t12_half_characters_keep_their_bytes() {
    let t = from(&golden("bpe_gpt2"));
    let ids = t.encode("🦙", Special::Parse);
    assert!(ids.len() > 1);
    let bytes: Vec<u8> = ids.iter().flat_map(|&id| t.bytes(id).to_vec()).collect();
    assert_eq!(bytes, "🦙".as_bytes());
    let t = from(&golden("spm_llama"));
    let bytes: Vec<u8> =
        t.encode("x🦙", Special::Parse).iter().flat_map(|&id| t.bytes(id).to_vec()).collect();
    assert_eq!(bytes, " x🦙".as_bytes());
}

#[test]
fn roles_make_control_tokens_of_added_tokens_only() {
    let t = from(&with_added(golden("bpe_gpt2"), "<pad>", false));
    let (pad, word) = (t.id_of("<pad>"), t.id_of("!"));
    let t = t.with_roles(Roles { pad, mask: word, ..Roles::default() });
    assert!(t.is_control(pad.unwrap()) && !t.is_control(word.unwrap()));
    assert_eq!(t.encode("!", Special::Plain), [word.unwrap()]);
}

#[test]
fn t14_stops_that_are_one_control_token() {
    let t = from(&golden("bpe_qwen2"));
    let id = t.id_of("<|im_end|>").unwrap();
    assert_eq!(t.encode("<|im_end|>", Special::Parse), [id]);
    assert!(t.is_control(id) && t.ends().contains(&id));
    assert_eq!(t.bytes(id), b"<|im_end|>");
    assert_eq!(t.decode(&[id], true), "");
}

#[test]
fn what_is_not_implemented_is_named_with_its_place() {
    let cases = [
        ("/normalizer", json!({"type": "Magic"}), "normalizer.type: \"Magic\" is not supported"),
        (
            "/pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"},
            {"type": "Split", "pattern": {"Regex": "(?=a)b"}, "behavior": "Isolated"}]}),
            "pre_tokenizer.pretokenizers[1].pattern.Regex: the pattern \"(?=a)b\" can't be used: look",
        ),
        (
            "/pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated"}),
            "empty text",
        ),
        (
            "/pre_tokenizer",
            json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"}),
            "pre_tokenizer.behavior: \"Odd\"",
        ),
        ("/pre_tokenizer", json!({"type": "Metaspace", "replacement": "ab"}), "one character"),
        ("/decoder", json!({"type": "CTC"}), "decoder.type: \"CTC\""),
        ("/post_processor", json!({"type": "Odd"}), "post_processor.type: \"Odd\""),
        (
            "/post_processor",
            json!({"type": "BertProcessing", "cls": ["x", 9], "sep": ["y", 99_999]}),
            "post_processor: the token with id 99999",
        ),
        (
            "/normalizer",
            json!({"type": "Sequence", "normalizers": vec![
            json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}); 40]}),
            "normalizer: its steps may make a text more than 4096 times longer",
        ),
        (
            "/pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": vec![json!({"type": "Split",
            "pattern": {"Regex": "(?:\\p{L}{40}|x){20}"}, "behavior": "Isolated"}); 40]}),
            "limit",
        ),
        ("/model/type", json!("Odd"), "model.type: \"Odd\""),
        ("/model/dropout", json!(0.1), "model.dropout: dropout"),
        ("/model/unk_token", json!("none"), "model.unk_token: \"none\" is not in the vocabulary"),
        ("/model/merges/7", json!("a b c"), "\"a b c\" is not two tokens"),
        ("/model/merges/7", json!(["a", "☃"]), "model.merges[7]: \"a\" and \"☃\" joined"),
        ("/model/vocab/a", json!(4_000_000_000u32), "id 4000000000"),
        ("/model/vocab/a", json!(5), "id 5 is both"),
        ("/model/vocab/a", json!(-1), "invalid value"),
        ("/added_tokens/0/content", json!(3), "added_tokens[0].content: expected a string"),
        ("/model", json!(3), "expected a model"),
    ];
    for (place, value, message) in cases {
        let mut json = golden("bpe_gpt2");
        *json.pointer_mut(place).unwrap() = value;
        let e = Tokenizer::from_json(&serde_json::to_vec(&json).unwrap()).err().unwrap();
        assert!(e.to_string().contains(message), "{place}: {e}");
    }
    let deep = format!("{{\"normalizer\":{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for bytes in
        [&b""[..], b"{}", b"[]", b"\xFF", b"{\"model\":{\"type\":\"BPE\"}", deep.as_bytes()]
    {
        assert!(Tokenizer::from_json(bytes).is_err());
    }
}

#[test]
fn gguf_contradictions_are_named() {
    type Change = fn(&mut GgufVocab<'static>);
    let cases: [(Change, &str); 7] = [
        (|v| v.model = "odd", "tokenizer.ggml.model: \"odd\""),
        (|v| (v.model, v.pre) = ("gpt2", Some("odd")), "tokenizer.ggml.pre: \"odd\""),
        (|v| v.scores.truncate(9), "tokenizer.ggml.scores: it has 9 elements for 261 tokens"),
        (|v| v.token_types.truncate(9), "tokenizer.ggml.token_type"),
        (|v| v.roles.eos = Some(999), "it is 999, and the vocabulary has 261"),
        (
            |v| v.tokens = Box::new([&b"a"[..], b"a"].into_iter()),
            "tokenizer.ggml.tokens[1]: \"a\" is token 0",
        ),
        (
            |v| (v.model, v.merges) = ("gpt2", Box::new([&b"xx"[..]].into_iter())),
            "merges[0]: \"xx\"",
        ),
    ];
    for (change, message) in cases {
        let mut v = spm_gguf(&[("a", 0.0, 1), ("b", 0.0, 1)]);
        change(&mut v);
        let e = Tokenizer::from_gguf(v).err().unwrap().to_string();
        assert!(e.contains(message), "{e}");
    }
    // A padding token that was never added is common, and harmless.
    let mut v = spm_gguf(&[("a", 0.0, 1)]);
    v.roles.pad = Some(9999);
    assert_eq!(Tokenizer::from_gguf(v).unwrap().roles().pad, None);
}

#[test]
fn broken_files_never_panic() {
    for name in ["bpe_added_tokens", "unigram_albert", "wordpiece_uncased", "spm_llama"] {
        let path = goldens().join("tokenizers").join(name).join("tokenizer.json");
        let bytes = std::fs::read(path).unwrap();
        let mut state = 1u64;
        for _ in 0..200 {
            let mut broken = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                // Half of the hits go to the head, where the structure is.
                let span = if state >> 40 & 1 == 0 { 3000 } else { broken.len() };
                let at = (state >> 33) as usize % span.min(broken.len());
                broken[at] = b"\"{}[]:,019-eEx\\\xFF"[(state >> 8) as usize % 16];
            }
            if let Ok(t) = Tokenizer::from_json(&broken) {
                let ids = t.encode("Hello <mask> ½ naïve\u{2028} 日本<s>", Special::Parse);
                t.decode(&t.wrap(&ids), false);
            }
        }
    }
}

#[test]
fn a_megabyte_without_spaces_takes_no_longer_than_it_must() {
    for (name, per) in
        [("bpe_qwen2", "a"), ("spm_llama", "ab"), ("wordpiece_cased", "a"), ("unigram_t5", "a")]
    {
        let t = from(&golden(name));
        let text = per.repeat(1 << 19);
        assert!(!t.encode(&text, Special::Parse).is_empty(), "{name}");
    }
}
