//! Masks of tokens, many judged at once.
//!
//! Most tokens are plain text, and inside a string, a name or a word all plain text goes on alike. So
//! tokens are sorted into groups by what their characters are, and the lexer's automaton is followed
//! with every character of an alphabet at once: where all of them go on, or none, all tokens of up to
//! some length are allowed together. Only tokens of alphabets that are divided, and those with quotes
//! or parts of characters, are walked.
mod follow;
mod tables;

use follow::{Known, byte_after};
use llguidance::derivre::StateID;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use toktrie::{Recognizer, SimpleVob, TokTrie};

pub(crate) use tables::Tables;

/// Most states that are made when a grammar is compiled; at most half of them for one lexeme.
const MOST_EXPLORED: usize = 1_000;
/// Longest that this takes.
const LONGEST: Duration = Duration::from_millis(20);
/// Most sets of tokens that are kept for an automaton.
const MOST_KEPT: usize = 64;

/// Masks for one automaton of a lexer, and what is known of its states.
pub(crate) struct Masks {
    tables: Arc<Tables>,
    known: Mutex<Known>,
}

impl BiasComputer for Masks {
    fn compute_bias(&self, rec: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        let mut set = self.tables.all.alloc_token_set();
        if !start.is_empty() {
            self.tables.all.add_bias(rec, &mut set, start);
            return set;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let state = rec.lexer_state();
        match known.plain.get(&state) {
            Some(Some(plain)) => set.set_from(plain),
            Some(None) => _ = self.plain(rec, &mut known, &mut set, false),
            None => {
                let alone = self.plain(rec, &mut known, &mut set, true);
                if known.plain.len() >= MOST_KEPT {
                    known.plain.clear();
                }
                known.plain.insert(state, alone.then(|| set.clone()));
            }
        }
        self.tables.rest.add_bias(rec, &mut set, &[]);
        set
    }

    fn trie(&self) -> &TokTrie {
        &self.tables.all
    }
}

impl Masks {
    pub(crate) fn new(tables: Arc<Tables>) -> Masks {
        Masks { tables, known: Mutex::default() }
    }

    /// Makes the states that lexemes lead through, some for each: those of long texts are many, and
    /// each takes long to make.
    pub(crate) fn explore(&self, rec: &mut ParserRecognizer<'_>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut left, start) = (MOST_EXPLORED, Instant::now());
        for lexeme in rec.lexer().lexer_spec().all_lexemes().iter() {
            let mut alone = rec.lexer().lexer_spec().alloc_lexeme_set();
            alone.add(lexeme);
            let mut states = vec![rec.lexer_mut().start_state(&alone)];
            let mut seen: HashSet<StateID> = states.iter().copied().collect();
            let mut at = 0;
            while let Some(state) = states.get(at).copied()
                && at < MOST_EXPLORED / 2
                && left > 0
                && start.elapsed() < LONGEST
            {
                (at, left) = (at + 1, left - 1);
                let next = known.after(rec, state);
                states.extend(next.into_iter().filter(|next| seen.insert(*next)));
            }
        }
    }

    /// Adds the tokens of all groups that may come in the lexer's state. Whether the lexer alone can
    /// tell; without `hope` it is not tried.
    fn plain(
        &self,
        rec: &mut ParserRecognizer<'_>,
        known: &mut Known,
        set: &mut SimpleVob,
        hope: bool,
    ) -> bool {
        let groups = &self.tables.groups;
        let (mut alone, mut shut) = (hope, false);
        let mut done = vec![false; groups.len()];
        for (at, group) in groups.iter().enumerate() {
            if done[at] {
                continue;
            }
            let Some(reach) = known.reach(rec, group, &mut shut) else {
                alone = walk(rec, &group.walked, set, hope) && alone;
                continue;
            };
            for within in &group.within {
                if !std::mem::replace(&mut done[*within], true) {
                    groups[*within].add(reach, set);
                }
            }
        }
        if !shut {
            alone = walk(rec, &self.tables.controls, set, hope) && alone;
        }
        alone
    }
}

/// Adds the tokens of a trie that may come, and whether the lexer alone could tell.
fn walk(rec: &mut ParserRecognizer<'_>, trie: &TokTrie, set: &mut SimpleVob, hope: bool) -> bool {
    if hope {
        let mut alone = Alone { states: vec![rec.lexer_state()], rec, ends: false };
        trie.add_bias(&mut alone, set, &[]);
        if !alone.ends {
            return true;
        }
    }
    trie.add_bias(rec, set, &[]);
    false
}

/// Follows the lexer without the parser, as long as no lexeme ends.
struct Alone<'r, 'p> {
    rec: &'r mut ParserRecognizer<'p>,
    states: Vec<StateID>,
    ends: bool,
}

impl Recognizer for Alone<'_, '_> {
    fn pop_bytes(&mut self, count: usize) {
        self.states.truncate(self.states.len() - count);
    }
    fn collapse(&mut self) {}
    fn trie_finished(&mut self) {}
    fn try_push_byte(&mut self, byte: u8) -> bool {
        let Some(state) = self.states.last() else { return false };
        let next = byte_after(self.rec, *state, byte);
        self.ends |= next.is_none();
        let next = next.filter(|next| !next.is_dead());
        self.states.extend(next);
        next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Spacing, lark};
    use llguidance::{Matcher, ParserFactory, TokenParser, api::TopLevelGrammar};
    use serde_json::{Value, json};
    use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokRxInfo};

    fn random(x: &mut u64) -> usize {
        *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*x >> 33) as usize
    }

    /// Every byte, and texts of parts that the groups tell apart, whole and cut.
    fn trie() -> TokTrie {
        let parts = [
            "a",
            "bc",
            "Word",
            "7",
            "20",
            " ",
            " the",
            ".",
            ".com",
            "@",
            "-",
            "_",
            "\"",
            "\\n",
            "\\u00",
            "\n",
            "\t",
            "é",
            "日本",
            "😀",
            "\u{7F}",
            "{",
            "}",
            "[",
            ", ",
            ": ",
            "true",
            "e-",
            "(x",
            "<",
            "T",
            "aaaaaaaaaaaaaaaaaaaa",
            "                    ",
            "0123456789",
        ];
        let mut x = 7;
        let mut words: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
        while words.len() < 6_000 {
            let count = 1 + random(&mut x) % 5;
            let text: String = (0..count).map(|_| parts[random(&mut x) % parts.len()]).collect();
            let mut word = text.into_bytes();
            if random(&mut x).is_multiple_of(8) {
                word.pop();
            }
            words.push(word);
        }
        words.push(b"\xFF<end>".to_vec());
        TokTrie::from(&TokRxInfo::new(words.len() as u32, words.len() as u32 - 1), &words)
    }

    fn schemas() -> Vec<Value> {
        let one = |schema: Value| json!({"properties": {"a": schema}, "required": ["a"], "type": "object"});
        let texts = [
            json!({"type": "string"}),
            json!({"type": "string", "maxLength": 9}),
            json!({"type": "string", "minLength": 3, "maxLength": 90}),
            json!({"type": "string", "format": "email"}),
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "uri"}),
            json!({"type": "string", "pattern": "^[A-Za-z ]{2,30}\\.$"}),
            json!({"type": "string", "pattern": "[a-z]+[0-9]"}),
            json!({"type": "string", "pattern": "^\\P{L}*$", "maxLength": 20}),
            json!({"type": "number"}),
            json!({"enum": ["a", "abc", "Word", " the.com"]}),
            json!({"anyOf": [{"type": "string", "maxLength": 5}, {"type": "integer"}]}),
            json!({"not": {"enum": ["a", "abc"]}}),
            json!(true),
        ];
        texts.into_iter().map(one).collect()
    }

    #[test]
    fn masks_are_those_of_a_walk_of_all_tokens() {
        let trie = trie();
        let env: toktrie::TokEnv = Arc::new(ApproximateTokEnv::new(trie.clone()));
        let factory = ParserFactory::new(&env, InferenceCapabilities::default(), &[]).unwrap();
        let tables = Arc::new(Tables::new(&trie));
        let mut compared = 0;
        for schema in schemas() {
            let lark = lark(&schema, Spacing::Spaced).unwrap();
            let parser = || -> TokenParser {
                factory.create_parser(TopLevelGrammar::from_lark(lark.clone())).unwrap()
            };
            let mut judged = parser();
            let masks = Masks::new(tables.clone());
            judged.parser.with_recognizer(|rec| masks.explore(rec));
            judged.bias_computer = Arc::new(masks);
            let (judged, walked) = (Matcher::new(Ok(judged)), Matcher::new(Ok(parser())));
            for seed in 0..12 {
                let (mut judged, mut walked) = (judged.clone(), walked.clone());
                let mut x = seed;
                for _ in 0..30 {
                    if walked.is_stopped() {
                        break;
                    }
                    let want = walked.compute_mask().unwrap();
                    let got = judged.compute_mask().unwrap();
                    let differ = (0..trie.vocab_size() as u32)
                        .find(|id| want.is_allowed(*id) != got.is_allowed(*id));
                    assert_eq!(differ.map(|id| trie.token_str(id)), None, "{schema} {seed}");
                    compared += 1;
                    let ids = want.to_list();
                    let id = ids[random(&mut x) % ids.len()];
                    walked.consume_token(id).unwrap();
                    judged.consume_token(id).unwrap();
                }
            }
        }
        assert!(compared > 2_000, "{compared}");
    }
}
