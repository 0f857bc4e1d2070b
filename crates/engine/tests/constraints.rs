//! Answers held to a form by the engine: after thoughts, and when they are cut. The models are scripts
//! that like nothing of what they must write.
#![expect(clippy::unwrap_used, reason = "tests")]
mod scripted;
use rinfer_engine::batch::TokenId;
use rinfer_engine::engine::Engine;
use rinfer_engine::request::{Event, Finish, Request};
use rinfer_engine::sample::Sampling;
use rinfer_grammar::{After, Constraint, Grammar, Matcher, Spacing, Token, Vocabulary};
use scripted::{Scripted, VOCAB, limits};
use serde_json::{Value, json};
use std::sync::Arc;

/// The first ends answers, the second is a tag that is one token.
const TOKENS: [&str; 20] = [
    "<end>", "</think>", "{", "}", "\"", "a", "b", "c", ":", ",", "1", "2", "\n", " ", "</",
    "think", ">", ">{", "\":", "true",
];
const END: u32 = 0;
const NEWLINE: u32 = 12;

fn vocabulary() -> Vocabulary {
    let mut tokens: Vec<Token> =
        TOKENS[2..].iter().map(|t| Token::Text(t.as_bytes().to_vec())).collect();
    tokens.splice(..0, TOKENS[..2].iter().map(|t| Token::Control((*t).to_owned())));
    tokens.resize(VOCAB, Token::Unused);
    let tokenise = |text: &str| {
        let (mut ids, mut rest) = (Vec::new(), text);
        while let Some((id, token)) = (2u32..)
            .zip(&TOKENS[2..])
            .filter(|(_, t)| rest.starts_with(**t))
            .max_by_key(|(_, t)| t.len())
        {
            ids.push(id);
            rest = &rest[token.len()..];
        }
        ids
    };
    Vocabulary::new(&tokens, &[END], Arc::new(tokenise)).unwrap()
}

fn matcher(vocabulary: &Vocabulary) -> Matcher {
    let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": ["a", "c", 1]}},
                        "required": ["a", "b"], "additionalProperties": false});
    Grammar::Schema(schema, Spacing::Compact).compile(vocabulary).unwrap()
}

fn id(token: &str) -> u32 {
    TOKENS.iter().position(|t| *t == token).unwrap() as u32
}

/// The text that a model writes which likes tokens in the order of `wishes`, by what it wrote so far.
fn written(
    constraint: impl Constraint + 'static,
    max_tokens: usize,
    wishes: impl Fn(&[u32]) -> Vec<u32> + Send + 'static,
) -> (String, Finish) {
    let limits = limits(1, 256, 256, 8);
    let script = move |tokens: &[u32]| {
        let mut logits = vec![0.0; VOCAB];
        for (rank, id) in wishes(&tokens[1..]).into_iter().enumerate() {
            logits[id as usize] = 20.0 - rank as f32;
        }
        logits
    };
    let executor = Box::new(Scripted::new(&limits, script));
    let mut engine = Engine::new(executor, limits, VOCAB);
    let request = Request {
        prompt: vec![TokenId(5)],
        sampling: Sampling { max_tokens: Some(max_tokens), ..Sampling::greedy() },
        end: Arc::new([TokenId(END)]),
        constraint: Some(Box::new(constraint)),
        until: None,
        logprobs: None,
    };
    let events = engine.submit(request).unwrap();
    while engine.step() {}
    let mut text = String::new();
    for event in events {
        match event {
            Event::Token(chosen) => text += TOKENS[chosen.id.0 as usize],
            Event::Done(finish, _) => return (text, finish),
            Event::Failed(error) => panic!("{text}: {error}"),
            Event::Started { .. } => {}
        }
    }
    panic!("no end of {text}")
}

/// What follows the tag.
fn answer(text: &str) -> Value {
    let (_, after) = text.split_once("</think>").unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(after).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn j1_white_space_is_what_it_likes() {
    let vocabulary = vocabulary();
    let (text, finish) = written(matcher(&vocabulary), 100, |_| vec![NEWLINE, id(" "), id("\"")]);
    assert_eq!(finish, Finish::Stop);
    serde_json::from_str::<Value>(&text).unwrap();
}

#[test]
fn j14_the_form_begins_where_thoughts_end() {
    let vocabulary = vocabulary();
    // It would rather end than think, think of braces, write the tag, and then only line breaks.
    let thoughts = [id("b"), id("{"), id("\""), id("1")];
    let think = move |close: Vec<u32>| {
        move |said: &[u32]| {
            let next = thoughts.iter().chain(&close).nth(said.len()).copied().unwrap_or(NEWLINE);
            vec![END, next, NEWLINE]
        }
    };
    let after = || After::new(matcher(&vocabulary), &vocabulary, "</think>", None).unwrap();
    let (text, finish) = written(after(), 100, think(vec![1]));
    assert_eq!(finish, Finish::Stop);
    assert!(text.starts_with("b{\"1</think>{"), "{text}");
    assert!(answer(&text)["a"].is_boolean());
    // The tag is a token here, so text that spells it is a thought.
    let spelled = [id("</"), id("think"), id(">")].to_vec();
    let (text, _) = written(after(), 100, think([spelled.clone(), vec![1]].concat()));
    assert!(text.starts_with("b{\"1</think></think>{"), "{text}");
    // Where it is text, it may come in pieces, but no token may have the form's beginning in it.
    let mut tokens: Vec<Token> =
        TOKENS.iter().map(|t| Token::Text(t.as_bytes().to_vec())).collect();
    (tokens[0], tokens[1]) = (Token::Control("<end>".to_owned()), Token::Unused);
    let plain = Vocabulary::new(&tokens, &[END], Arc::new(move |_: &str| spelled.clone())).unwrap();
    let after = |budget| After::new(matcher(&plain), &plain, "</think>", budget).unwrap();
    let pieces = vec![id("</"), id("think"), id(">{")];
    let (text, finish) = written(after(None), 100, move |said| {
        let mut wishes = think(pieces.clone())(said);
        wishes.insert(2, id(">"));
        wishes
    });
    assert_eq!(finish, Finish::Stop);
    assert!(answer(&text)["a"].is_boolean(), "{text}");
    // Elsewhere such a token is a thought like any other.
    let (text, _) = written(after(Some(3)), 100, |_| vec![id(">{")]);
    assert!(text.starts_with(">{>{>{</think>{"), "{text}");
}

/// A model may think first, or begin with its form at once.
#[test]
fn j14_thoughts_are_the_models_choice() {
    let vocabulary = vocabulary();
    let after = || {
        let after = After::new(matcher(&vocabulary), &vocabulary, "</think>", Some(4)).unwrap();
        after.or_at_once("b:")
    };
    let (text, finish) = written(after(), 100, |_| vec![NEWLINE, id(" ")]);
    assert_eq!(finish, Finish::Stop);
    serde_json::from_str::<Value>(&text).unwrap();
    // The first token of an opening text is a beginning of all of it.
    let (text, finish) = written(after(), 100, |_| vec![END, id("b"), id("c")]);
    assert_eq!(finish, Finish::Stop);
    assert!(text.starts_with("b:bbbb</think>{"), "{text}");
    let mut taken = after();
    for first in [id("b"), id("{")] {
        taken.accept(first).unwrap();
        taken.rollback(1).unwrap();
    }
    taken.accept(id("b")).unwrap();
    assert_eq!(taken.forced(), [id(":")]);
}

/// As long as the opening text and the form begin alike, the answer may be either.
#[test]
fn j14_beginnings_in_common() {
    let vocabulary = vocabulary();
    let after = || {
        let form = Grammar::Regex("bc".into()).compile(&vocabulary).unwrap();
        After::new(form, &vocabulary, "</think>", Some(4)).unwrap().or_at_once("b:")
    };
    let form = vec![id("b"), id("c")];
    let thoughts = [vec![id("b"), id(":"), id("c"), 1], form.clone()].concat();
    for ids in [form, thoughts] {
        let wishes = ids.clone();
        let next = move |said: &[u32]| vec![wishes.get(said.len()).copied().unwrap_or(END)];
        let (text, finish) = written(after(), 100, next);
        let expected: String = ids.iter().map(|id| TOKENS[*id as usize]).collect();
        assert_eq!((text, finish), (expected, Finish::Stop));
        // Taken back from anywhere, it may be either again.
        for most in 1..=ids.len() {
            let mut taken = after();
            ids.iter().for_each(|id| taken.accept(*id).unwrap());
            taken.rollback(most).unwrap();
            let left = ids.len() - most;
            let mut logits = vec![0.0; VOCAB];
            taken.mask(&mut logits).unwrap();
            let both = left == 1;
            assert!(!both || logits[id("c") as usize] == 0.0 && logits[id(":") as usize] == 0.0);
            for id in &ids[left..] {
                taken.accept(*id).unwrap();
            }
            assert!(taken.over(), "{most}");
        }
    }
}

#[test]
fn j14_thoughts_have_a_budget() {
    let vocabulary = vocabulary();
    for budget in [0, 1, 7] {
        let after =
            After::new(matcher(&vocabulary), &vocabulary, "</think>", Some(budget)).unwrap();
        let (text, finish) = written(after, 100, |_| vec![END, id("b"), NEWLINE]);
        assert_eq!(finish, Finish::Stop);
        assert!(text.starts_with(&("b".repeat(budget) + "</think>{")), "{text}");
        answer(&text);
    }
    assert!(After::new(matcher(&vocabulary), &vocabulary, "", None).is_err());
}

/// Tokens are taken back across the tag, one at a time or all.
#[test]
fn j14_thoughts_are_taken_back() {
    let vocabulary = vocabulary();
    let all = [id("b"), id("{"), 1, id("{"), id("\""), id("a")];
    for most in 1..=all.len() {
        let mut after = After::new(matcher(&vocabulary), &vocabulary, "</think>", Some(9)).unwrap();
        all.iter().for_each(|id| after.accept(*id).unwrap());
        after.rollback(most).unwrap();
        let left = all.len() - most;
        for id in &all[left..] {
            let mut logits = vec![0.0; VOCAB];
            after.mask(&mut logits).unwrap();
            assert_eq!(logits[*id as usize], 0.0, "{most}: {id}");
            after.accept(*id).unwrap();
        }
        after.rollback(all.len()).unwrap();
        assert!(after.rollback(1).is_err());
    }
}

/// An answer that is cut says so wherever it is cut, and only then.
#[test]
fn j16_a_cut_is_a_cut_at_every_length() {
    let vocabulary = vocabulary();
    let wishes = |_: &[u32]| vec![END, NEWLINE, id("c")];
    let (whole, finish) = written(matcher(&vocabulary), 100, wishes);
    assert_eq!(finish, Finish::Stop);
    let mut cut = 0;
    for most in 1..100 {
        let (text, finish) = written(matcher(&vocabulary), most, wishes);
        if finish == Finish::Stop {
            assert_eq!(text, whole);
            break;
        }
        assert_eq!(finish, Finish::Length);
        assert!(whole.starts_with(&text) && text.len() < whole.len(), "{text}");
        assert!(serde_json::from_str::<Value>(&text).is_err(), "{text}");
        cut += 1;
    }
    assert!(cut > 3, "{cut}");
}
