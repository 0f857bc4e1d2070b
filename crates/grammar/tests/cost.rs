//! What masks and grammars cost with a vocabulary of 150,000 tokens. Prints; fails only where a
//! cost is far off, as machines that test are shared.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_grammar::{Constraint, Grammar, Matcher, Spacing, Token, Vocabulary};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// GPT-2's characters for bytes.
fn byte_of() -> HashMap<char, u8> {
    let printed = |b: &u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let other = (0..=255u8).filter(|b| !printed(b));
    let moved = (256u32..).zip(other).filter_map(|(c, b)| Some((char::from_u32(c)?, b)));
    (0..=255u8).filter(printed).map(|b| (char::from(b), b)).chain(moved).collect()
}

fn vocabulary(file: &[u8]) -> Vocabulary {
    let file: Value = serde_json::from_slice(file).unwrap();
    let bytes = byte_of();
    let words = file["model"]["vocab"].as_object().unwrap();
    let mut tokens = vec![Token::Unused; words.len() + 64];
    for (word, id) in words {
        tokens[id.as_u64().unwrap() as usize] =
            Token::Text(word.chars().map(|c| bytes[&c]).collect());
    }
    let mut end = 0;
    for added in file["added_tokens"].as_array().unwrap() {
        end = added["id"].as_u64().unwrap();
        tokens[end as usize] = Token::Control(added["content"].as_str().unwrap().to_owned());
    }
    // Longest match: forced texts need some tokens, and no model judges them here.
    let known: HashMap<Vec<u8>, u32> = (0..)
        .zip(&tokens)
        .filter_map(|(id, t)| if let Token::Text(b) = t { Some((b.clone(), id)) } else { None })
        .collect();
    let tokenise = move |text: &str| {
        let (mut ids, mut rest) = (Vec::new(), text.as_bytes());
        while !rest.is_empty() {
            let len =
                (1..=rest.len().min(32)).rev().find(|n| known.contains_key(&rest[..*n])).unwrap();
            ids.push(known[&rest[..len]]);
            rest = &rest[len..];
        }
        ids
    };
    Vocabulary::new(&tokens, &[end as u32], Arc::new(tokenise)).unwrap()
}

fn schemas() -> Vec<(&'static str, Grammar)> {
    let person = json!({"type": "object", "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 80}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"}, "role": {"enum": ["admin", "user", "guest"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
                    "required": ["street", "zip"], "additionalProperties": false}},
        "required": ["name", "age", "role", "tags", "address"], "additionalProperties": false});
    let tree = json!({"$defs": {"n": {"type": "object", "properties": {"value": {"type": "number"}, "text": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "required": ["value", "children"], "additionalProperties": false}},
        "$ref": "#/$defs/n"});
    let choice = json!({"anyOf": [{"type": "object", "properties": {"tool": {"const": "search"}, "query": {"type": "string"}}, "required": ["tool", "query"]},
        {"type": "object", "properties": {"tool": {"const": "sum"}, "of": {"type": "array", "items": {"type": "number"}}}, "required": ["tool", "of"]}]});
    let schema = |s: Value| Grammar::Schema(s, Spacing::Spaced);
    vec![
        ("person", schema(person)),
        ("tree", schema(tree)),
        ("tools", schema(choice)),
        ("any JSON", Grammar::Json(Spacing::Spaced)),
        (
            "regex",
            Grammar::Regex(
                "[A-Z][a-z]+ [A-Z][a-z]+, born [0-9]{4} in [A-Za-z ]{2,40}\\.".to_owned(),
            ),
        ),
    ]
}

/// Walks a grammar by tokens that look random, and times each mask.
fn walk(matcher: &Matcher, vocab: usize, seed: u64, times: &mut Vec<Duration>) {
    let mut matcher = matcher.clone();
    let mut logits = vec![0.0f32; vocab];
    let mut x = seed;
    for _ in 0..60 {
        if matcher.over() {
            return;
        }
        logits.fill(0.0);
        let start = Instant::now();
        matcher.mask(&mut logits).unwrap();
        times.push(start.elapsed());
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (x >> 33) as usize % vocab;
        let next = (at..vocab).chain(0..at).find(|i| logits[*i] == 0.0).unwrap();
        if matcher.accept(next as u32).is_err() {
            return;
        }
    }
}

/// Compiles others until what was compiled before is no longer kept.
fn forget(vocabulary: &Vocabulary) {
    for n in 0..8 {
        Grammar::Choice(vec![format!("{n}")]).compile(vocabulary).unwrap();
    }
}

fn sorted(mut times: Vec<Duration>) -> (Duration, Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1])
}

#[test]
fn masks_and_compilation() {
    let Some(dir) = rinfer_testkit::shared::shared("tokenizers-real/qwen2") else { return };
    let start = Instant::now();
    let vocabulary = vocabulary(&std::fs::read(dir.join("tokenizer.json")).unwrap());
    println!("{} tokens: trie in {:?} with the file", vocabulary.len(), start.elapsed());
    let start = Instant::now();
    vocabulary.prepare().unwrap();
    println!("what all grammars share: {:?}", start.elapsed());
    let (mut all_first, mut all_again) = (Vec::new(), Vec::new());
    for (name, grammar) in schemas() {
        let (mut compiled, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 1..=20 {
            forget(&vocabulary);
            let start = Instant::now();
            let matcher = grammar.compile(&vocabulary).unwrap();
            compiled.push(start.elapsed());
            walk(&matcher, vocabulary.len(), seed * 7919, &mut first);
        }
        // Compiled once, as in a conversation's turns.
        for seed in 1..=20 {
            let matcher = grammar.compile(&vocabulary).unwrap();
            walk(&matcher, vocabulary.len(), seed * 7919, &mut again);
        }
        all_first.extend(first.clone());
        all_again.extend(again.clone());
        let (compiled, ..) = sorted(compiled);
        let (median, p99, most) = sorted(first);
        println!("{name}: compiled in {compiled:?}; first: {median:?}, p99 {p99:?}, most {most:?}");
        assert!(compiled < Duration::from_secs(1), "{name}");
        assert!(median < Duration::from_millis(5), "{name}");
        let (median, p99, most) = sorted(again);
        println!("    again: {median:?}, p99 {p99:?}, most {most:?}");
    }
    println!("all, first: {:?}", sorted(all_first));
    println!("all, again: {:?}", sorted(all_again));
}
