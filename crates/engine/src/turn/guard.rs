//! What may come next in a turn: anything in thoughts, up to their budget, and after them what the
//! grammar allows. Thoughts are messages of their own here, or there is no grammar: where they are
//! between tags, a grammar begins by [`After`](rinfer_grammar::After).
use super::calls::Watch;
use super::speech::Speech;
use crate::batch::TokenId;
use rinfer_grammar::{Constraint, GrammarError, Matcher};
use rinfer_text::reply::Budget;

/// The constraint of a turn.
pub(super) struct Guard {
    speech: Speech,
    budget: Option<Budget>,
    held: Held,
}

/// What is held.
pub(super) enum Held {
    /// Nothing but thoughts, to their budget.
    Nothing,
    /// What is said, to a grammar.
    Said(Box<Matcher>),
    /// Calls, to their tools' schemas.
    Calls(Box<Watch>),
}

impl Guard {
    pub fn new(speech: Speech, budget: Option<Budget>, held: Held) -> Guard {
        Guard { speech, budget, held }
    }
    fn must(&self) -> Option<u32> {
        self.budget.as_ref()?.next(self.speech.is_thinking())
    }
}

impl Constraint for Guard {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError> {
        if let Some(id) = self.must() {
            let kept = logits[id as usize];
            logits.fill(f32::NEG_INFINITY);
            logits[id as usize] = if kept.is_finite() { kept } else { 0.0 };
            return Ok(());
        }
        match &mut self.held {
            Held::Said(said) if self.speech.is_saying() => said.mask(logits),
            Held::Said(_) => {
                // An answer is owed.
                let ends = self.speech.ends().iter();
                ends.for_each(|TokenId(id)| logits[*id as usize] = f32::NEG_INFINITY);
                Ok(())
            }
            Held::Calls(calls) if !self.speech.is_thinking() => calls.mask(logits),
            Held::Calls(_) | Held::Nothing => Ok(()),
        }
    }

    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        let (thinking, saying) = (self.speech.is_thinking(), self.speech.is_saying());
        let forced = self.must().is_some();
        self.budget.iter_mut().for_each(|budget| budget.token(thinking));
        self.speech.push(TokenId(id));
        match &mut self.held {
            Held::Said(said) if saying && !forced => said.accept(id),
            Held::Calls(calls) if !thinking && !forced => calls.accept(id, self.speech.bytes(id)),
            _ => Ok(()),
        }
    }

    fn complete(&mut self) -> bool {
        match &mut self.held {
            Held::Said(said) => self.speech.is_saying() && said.complete(),
            Held::Calls(calls) => calls.complete(),
            Held::Nothing => true,
        }
    }

    fn over(&mut self) -> bool {
        match &mut self.held {
            Held::Said(said) => self.speech.is_saying() && said.over(),
            Held::Calls(_) | Held::Nothing => false,
        }
    }

    fn forced(&mut self) -> Vec<u32> {
        if let Some(id) = self.must() {
            return vec![id];
        }
        match &mut self.held {
            Held::Said(said) if self.speech.is_saying() => said.forced(),
            Held::Calls(calls) if !self.speech.is_thinking() => calls.forced(),
            _ => Vec::new(),
        }
    }
}
