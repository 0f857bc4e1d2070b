//! A grammar's state after the tokens so far.
use crate::error::GrammarError;
use crate::kept::Compiled;
use crate::shares::{Meter, Shares};
use crate::{Constraint, Vocabulary};
use llguidance::api::StopReason;
use std::sync::Arc;
use toktrie::SimpleVob;

/// A grammar's state after the tokens so far.
///
/// Matchers of one grammar share its automaton, so that what one has found the next need not find.
pub struct Matcher {
    state: llguidance::Matcher,
    vocabulary: Vocabulary,
    meter: Option<Meter>,
    /// What to begin anew with.
    lark: Arc<str>,
    taken: Vec<u32>,
    /// Whether no other matcher has the automaton.
    alone: bool,
}

impl Clone for Matcher {
    /// An independent matcher in the same state; what it measures goes to the same place.
    fn clone(&self) -> Matcher {
        let (vocabulary, meter) = (self.vocabulary.clone(), self.meter.clone());
        let (lark, taken) = (self.lark.clone(), self.taken.clone());
        Matcher { state: self.state.clone(), vocabulary, meter, lark, taken, alone: false }
    }
}

impl Matcher {
    /// At the start of a grammar that was compiled.
    pub(crate) fn new(vocabulary: &Vocabulary, compiled: Compiled) -> Matcher {
        let (vocabulary, lark) = (vocabulary.clone(), compiled.lark);
        let (state, taken) = (compiled.start, Vec::new());
        Matcher { state, vocabulary, meter: None, lark, taken, alone: false }
    }

    /// Does something; if that fails, once more with an automaton of its own: one that is shared is
    /// full when all who share it have filled it, and what an answer may be must not hang on others.
    fn attempt<T>(
        &mut self,
        what: impl Fn(&mut llguidance::Matcher) -> Result<T, GrammarError>,
    ) -> Result<T, GrammarError> {
        let tried = what(&mut self.state);
        if self.alone || tried.is_ok() {
            return tried;
        }
        let mut own =
            crate::grammar::compiled(&self.vocabulary, || Ok(self.lark.to_string()))?.start;
        own.consume_tokens(&self.taken).map_err(wrong)?;
        (self.state, self.alone) = (own, true);
        what(&mut self.state)
    }

    /// Notes how probable its tokens are.
    pub(crate) fn measured(mut self, shares: &Shares) -> Matcher {
        self.meter = Some(Meter::new(shares.clone()));
        self
    }

    fn allowed(&mut self) -> Result<SimpleVob, GrammarError> {
        self.attempt(|state| state.compute_mask_or_eos().map_err(wrong))
    }

    /// The ids that may come next, in order.
    ///
    /// # Errors
    /// If the state is too large.
    pub fn next_ids(&mut self) -> Result<Vec<u32>, GrammarError> {
        Ok(self.allowed()?.to_list())
    }
}

impl Constraint for Matcher {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError> {
        let allowed = self.allowed()?;
        let words = allowed.as_slice();
        let (chunks, rest) = logits.as_chunks_mut::<32>();
        for (logits, word) in chunks.iter_mut().zip(words) {
            exclude(*word, logits);
        }
        for (i, logit) in rest.iter_mut().enumerate() {
            if words.get(chunks.len()).is_some_and(|word| word >> i & 1 == 0) {
                *logit = f32::NEG_INFINITY;
            }
        }
        let known = (words.len() * 32).min(logits.len());
        logits[known..].fill(f32::NEG_INFINITY);
        self.meter.iter_mut().for_each(|meter| meter.masked(logits));
        Ok(())
    }

    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        self.attempt(|state| state.consume_token(id).map_err(wrong))?;
        self.taken.push(id);
        if let Some(meter) = &mut self.meter {
            meter.accepted(id, self.vocabulary.trie().token_len(id));
        }
        Ok(())
    }

    fn complete(&mut self) -> bool {
        self.over() || self.attempt(|state| state.is_accepting().map_err(wrong)).unwrap_or(false)
    }

    fn over(&mut self) -> bool {
        matches!(
            self.state.stop_reason(),
            StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence
        )
    }

    fn forced(&mut self) -> Vec<u32> {
        if self.state.is_stopped() { Vec::new() } else { self.state.compute_ff_tokens() }
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), GrammarError> {
        self.attempt(|state| state.rollback(tokens).map_err(wrong))?;
        self.taken.truncate(self.taken.len().saturating_sub(tokens));
        self.meter.iter_mut().for_each(|meter| meter.taken_back(tokens));
        Ok(())
    }
}

/// Excludes the logits whose bit is not set. Most words are full or empty.
fn exclude(word: u32, logits: &mut [f32; 32]) {
    match word {
        u32::MAX => {}
        0 => logits.fill(f32::NEG_INFINITY),
        _ => {
            for (i, logit) in logits.iter_mut().enumerate() {
                // All bits set where the logit stays: a choice without a branch.
                let kept = 0u32.wrapping_sub(word >> i & 1);
                let bits = (logit.to_bits() & kept) | (f32::NEG_INFINITY.to_bits() & !kept);
                *logit = f32::from_bits(bits);
            }
        }
    }
}

fn wrong(error: impl std::fmt::Display) -> GrammarError {
    GrammarError::Matcher(brief(&error.to_string()))
}

/// The library's message without what it prints of its own state.
pub(crate) fn brief(error: &str) -> String {
    let line = error.lines().find(|l| !l.trim().is_empty()).unwrap_or("no reason was given");
    crate::error::short(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, Token};

    #[test]
    fn what_happens_to_a_shared_automaton_changes_no_answer() {
        let mut tokens: Vec<Token> = (0..=255u8).map(|byte| Token::Text(vec![byte])).collect();
        tokens.push(Token::Control("end".to_owned()));
        let tokenise = Arc::new(|text: &str| text.bytes().map(u32::from).collect());
        let vocabulary = Vocabulary::new(&tokens, &[256], tokenise).unwrap();
        let grammar = Grammar::Regex("ab[c-e]{1,9}".to_owned());
        let mut one = grammar.compile(&vocabulary).unwrap();
        b"abc".iter().for_each(|byte| one.accept(u32::from(*byte)).unwrap());
        let mut other = one.clone();
        assert!(one.state.test_trigger_lexer_error().is_err());
        for matcher in [&mut one, &mut other, &mut grammar.compile(&vocabulary).unwrap()] {
            let taken = matcher.taken.len();
            b"abcd"[taken..].iter().for_each(|byte| matcher.accept(u32::from(*byte)).unwrap());
            let next = [b'c', b'd', b'e'].map(u32::from).into_iter().chain([256]);
            assert_eq!(matcher.next_ids().unwrap(), next.collect::<Vec<_>>());
            assert!(matcher.accept(u32::from(b'x')).is_err());
        }
    }
}
