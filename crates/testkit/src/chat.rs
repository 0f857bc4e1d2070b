//! A tiny language for golden checkpoints, whose vocabulary has 256 tokens: one token a byte of
//! UTF-8, and control tokens in the place of bytes that UTF-8 has not.
use crate::Golden;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The control tokens, by id: 0 to 4. The bytes follow in their order.
pub const CONTROLS: [&str; 5] = ["<|endoftext|>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"];

/// ChatML, with the begin token that the tokenizer would add itself.
pub const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n\
    {{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n\
    {% endif %}";

/// The id of a byte of UTF-8.
///
/// # Panics
/// For the bytes that no text has.
pub fn id_of(byte: u8) -> u32 {
    let id = bytes().position(|b| b == byte).expect("a byte of UTF-8");
    (CONTROLS.len() + id) as u32
}

/// The bytes that have a token.
fn bytes() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).filter(|b| !matches!(b, 0xC0 | 0xC1 | 0xF5..))
}

/// tokenizer.json; it puts `<s>` before a text.
pub fn tokenizer_json() -> Value {
    let mut vocab = Map::new();
    for (id, name) in CONTROLS.iter().enumerate() {
        vocab.insert((*name).to_owned(), json!(id));
    }
    for byte in bytes() {
        vocab.insert(spelling(byte).to_string(), json!(id_of(byte)));
    }
    let added: Vec<Value> = CONTROLS
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        })
        .collect();
    let level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let (begin, text) = (json!({"id": "<s>", "type_id": 0}), json!({"id": "A", "type_id": 0}));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": level, "decoder": level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": begin}, {"Sequence": text}],
            "pair": [{"SpecialToken": begin}, {"Sequence": text}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": vocab, "merges": [],
        },
    })
}

/// Writes the golden's checkpoint with this language beside it: a folder to chat with.
///
/// # Panics
/// If the folder can't be written.
pub fn write_model(golden: &Golden, dir: &Path) {
    golden.write_checkpoint(dir);
    let config = json!({
        "bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": TEMPLATE,
    });
    for (name, json) in [
        ("tokenizer.json", tokenizer_json()),
        ("tokenizer_config.json", config),
        ("generation_config.json", json!({"eos_token_id": [2, 4], "top_k": 50})),
    ] {
        std::fs::write(dir.join(name), json.to_string()).expect(name);
    }
}

/// How byte-level vocabularies spell a byte: a printable character.
fn spelling(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    match printable(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|b| !printable(*b)).count() as u32;
            char::from_u32(256 + before).expect("a character")
        }
    }
}
