//! A grammar's state after the tokens so far.
use crate::error::GrammarError;
use crate::{Constraint, Vocabulary};
use llguidance::api::{StopReason, TopLevelGrammar};
use toktrie::SimpleVob;

/// A grammar's state after the tokens so far.
pub struct Matcher(llguidance::Matcher);

impl Clone for Matcher {
    /// An independent matcher in the same state.
    fn clone(&self) -> Matcher {
        Matcher(self.0.deep_clone())
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
            None => Ok(Matcher(matcher)),
        }
    }

    fn allowed(&mut self) -> Result<SimpleVob, GrammarError> {
        self.0.compute_mask_or_eos().map_err(wrong)
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
        for (word, logits) in allowed.as_slice().iter().zip(logits.chunks_mut(32)) {
            match *word {
                0 => logits.fill(f32::NEG_INFINITY),
                u32::MAX => {}
                mut bits => {
                    for logit in logits {
                        if bits & 1 == 0 {
                            *logit = f32::NEG_INFINITY;
                        }
                        bits >>= 1;
                    }
                }
            }
        }
        let known = (allowed.as_slice().len() * 32).min(logits.len());
        logits[known..].fill(f32::NEG_INFINITY);
        Ok(())
    }

    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        self.0.consume_token(id).map_err(wrong)
    }

    fn complete(&mut self) -> bool {
        self.over() || self.0.is_accepting().unwrap_or(false)
    }

    fn over(&mut self) -> bool {
        matches!(
            self.0.stop_reason(),
            StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence
        )
    }

    fn forced(&mut self) -> Vec<u32> {
        if self.0.is_stopped() { Vec::new() } else { self.0.compute_ff_tokens() }
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), GrammarError> {
        self.0.rollback(tokens).map_err(wrong)
    }
}

fn wrong(error: impl std::fmt::Display) -> GrammarError {
    GrammarError::Matcher(brief(&error.to_string()))
}

/// The library's message without what it prints of its own state.
fn brief(error: &str) -> String {
    let line = error.lines().find(|l| !l.trim().is_empty()).unwrap_or("no reason was given");
    crate::error::short(line)
}
