//! A grammar's state after the tokens so far.
use crate::error::GrammarError;
use crate::shares::{Meter, Shares};
use crate::{Constraint, Vocabulary};
use llguidance::api::{StopReason, TopLevelGrammar};
use toktrie::SimpleVob;

/// A grammar's state after the tokens so far.
pub struct Matcher {
    state: llguidance::Matcher,
    vocabulary: Vocabulary,
    meter: Option<Meter>,
}

impl Clone for Matcher {
    /// An independent matcher in the same state; what it measures goes to the same place.
    fn clone(&self) -> Matcher {
        let (vocabulary, meter) = (self.vocabulary.clone(), self.meter.clone());
        Matcher { state: self.state.deep_clone(), vocabulary, meter }
    }
}

impl Matcher {
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        grammar: TopLevelGrammar,
    ) -> Result<Matcher, GrammarError> {
        let factory = vocabulary.factory()?;
        let compile = || factory.create_parser(grammar);
        let parser = llguidance::panic_utils::catch_unwind(std::panic::AssertUnwindSafe(compile));
        let matcher = llguidance::Matcher::new(parser);
        match matcher.get_error() {
            Some(error) => Err(GrammarError::TooLarge(brief(&error))),
            None => Ok(Matcher { state: matcher, vocabulary: vocabulary.clone(), meter: None }),
        }
    }

    /// Notes how probable its tokens are.
    pub(crate) fn measured(mut self, shares: &Shares) -> Matcher {
        self.meter = Some(Meter::new(shares.clone()));
        self
    }

    fn allowed(&mut self) -> Result<SimpleVob, GrammarError> {
        self.state.compute_mask_or_eos().map_err(wrong)
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
        self.state.consume_token(id).map_err(wrong)?;
        if let Some(meter) = &mut self.meter {
            meter.accepted(id, self.vocabulary.trie().token_len(id));
        }
        Ok(())
    }

    fn complete(&mut self) -> bool {
        self.over() || self.state.is_accepting().unwrap_or(false)
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
        self.state.rollback(tokens).map_err(wrong)?;
        self.meter.iter_mut().for_each(|meter| meter.taken_back(tokens));
        Ok(())
    }
}

/// Excludes the logits whose bit is not set. Most words are nearly full or nearly empty.
fn exclude(word: u32, logits: &mut [f32; 32]) {
    if word.count_zeros() <= 8 {
        return bits(!word).for_each(|i| logits[i] = f32::NEG_INFINITY);
    }
    let mut kept = [f32::NEG_INFINITY; 32];
    bits(word).for_each(|i| kept[i] = logits[i]);
    *logits = kept;
}

/// The places of the bits that are set.
fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (word != 0).then_some(word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        at
    })
}

fn wrong(error: impl std::fmt::Display) -> GrammarError {
    GrammarError::Matcher(brief(&error.to_string()))
}

/// The library's message without what it prints of its own state.
fn brief(error: &str) -> String {
    let line = error.lines().find(|l| !l.trim().is_empty()).unwrap_or("no reason was given");
    crate::error::short(line)
}
