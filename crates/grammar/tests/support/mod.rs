//! A vocabulary of bytes, and texts that are pushed through a grammar.
#![allow(dead_code)]
use rinfer_grammar::{Constraint, Grammar, GrammarError, Matcher, Spacing, Token, Vocabulary};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Ends an answer.
pub const END: u32 = 256;

/// A token a byte, and an end.
pub fn bytes() -> &'static Vocabulary {
    static ONE: OnceLock<Vocabulary> = OnceLock::new();
    ONE.get_or_init(|| {
        let mut tokens: Vec<Token> = (0..=255).map(|b| Token::Text(vec![b])).collect();
        tokens.push(Token::Control("<end>".to_owned()));
        let tokenise = Arc::new(|text: &str| text.bytes().map(u32::from).collect());
        Vocabulary::new(&tokens, &[END], tokenise).unwrap()
    })
}

pub fn compact(schema: &Value) -> Result<Matcher, GrammarError> {
    Grammar::Schema(schema.clone(), Spacing::Compact).compile(bytes())
}

pub fn matcher(schema: &str) -> Matcher {
    compact(&serde_json::from_str(schema).unwrap()).unwrap_or_else(|e| panic!("{schema}: {e}"))
}

/// How many bytes of `text` may come, and whether it may end there.
pub fn feed(matcher: &Matcher, text: &[u8]) -> (usize, bool) {
    let mut matcher = matcher.clone();
    for (i, byte) in text.iter().enumerate() {
        if matcher.accept(u32::from(*byte)).is_err() {
            return (i, false);
        }
    }
    (text.len(), matcher.complete())
}

/// Whether all of `text` may come, and end.
pub fn takes(matcher: &Matcher, text: &str) -> bool {
    feed(matcher, text.as_bytes()) == (text.len(), true)
}

/// What a model writes that ranks the allowed tokens by `rank`, the lowest first; `None` if it does
/// not end within `most` tokens.
pub fn written(
    matcher: &Matcher,
    most: usize,
    rank: &mut dyn FnMut(u32) -> u64,
) -> Option<Vec<u8>> {
    let mut matcher = matcher.clone();
    let mut out = Vec::new();
    while out.len() < most {
        if matcher.over() {
            return Some(out);
        }
        let ids = matcher.next_ids().unwrap();
        let id = ids.into_iter().min_by_key(|id| rank(*id)).expect("a token may come");
        if id == END {
            assert!(matcher.complete());
            return Some(out);
        }
        out.push(id as u8);
        matcher.accept(id).unwrap();
    }
    None
}
