//! What may come next in a turn: anything in thoughts, up to their budget, and after them what the
//! answer's form, or the calls' schemas, allow. Where thoughts are between tags, a form begins by
//! [`After`](rinfer_grammar::After); here they are messages of their own, or nothing has a form.
use super::calls::Watch;
use super::said::Said;
use super::speech::Speech;
use crate::batch::TokenId;
use rinfer_grammar::{Constraint, GrammarError, Matcher};
use rinfer_text::reply::Budget;

/// The constraint of a turn.
pub(super) struct Guard {
    pub speech: Speech,
    pub budget: Option<Budget>,
    pub held: Held,
}

/// What is held.
#[derive(Default)]
pub(super) struct Held {
    /// All of the answer, from its first message's header on.
    pub all: Option<Box<Matcher>>,
    /// What is said.
    pub said: Option<Box<Said>>,
    /// Calls, to their tools' schemas.
    pub calls: Option<Box<Watch>>,
}

impl Held {
    pub fn is_nothing(&self) -> bool {
        self.all.is_none() && self.said.is_none() && self.calls.is_none()
    }
}

impl Guard {
    fn must(&self) -> Option<u32> {
        self.budget.as_ref()?.next(self.speech.is_thinking())
    }
    /// What is said, if it has a form and is being said.
    fn said(&mut self) -> Option<&mut Said> {
        self.held.said.as_deref_mut().filter(|_| self.speech.is_answering())
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
        if let Some(all) = &mut self.held.all {
            return all.mask(logits);
        }
        let calling = self.held.calls.as_ref().is_some_and(|calls| calls.is_open());
        if !calling && let Some(said) = self.said() {
            return said.mask(logits);
        }
        if self.held.said.is_some() && !self.held.calls.as_ref().is_some_and(|c| c.has_called()) {
            // An answer is owed.
            let ends = self.speech.ends().iter();
            ends.for_each(|TokenId(id)| logits[*id as usize] = f32::NEG_INFINITY);
        }
        match &mut self.held.calls {
            Some(calls) if !self.speech.is_thinking() => calls.mask(&self.speech, logits),
            _ => Ok(()),
        }
    }

    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        let (thinking, saying) = (self.speech.is_thinking(), self.speech.is_answering());
        let forced = self.must().is_some();
        self.budget.iter_mut().for_each(|budget| budget.token(thinking));
        let held = &mut self.held;
        let calling = held.calls.as_ref().is_some_and(|calls| calls.is_open());
        let taken = match (&mut held.all, &mut held.said, &mut held.calls) {
            (Some(all), ..) => all.accept(id),
            (_, Some(said), _) if saying && !forced && !calling => said.accept(id),
            (.., Some(calls)) if !thinking && !forced => calls.accept(&self.speech, id),
            _ => Ok(()),
        };
        self.speech.push(TokenId(id));
        taken
    }

    fn complete(&mut self) -> bool {
        if let Some(all) = &mut self.held.all {
            return all.complete();
        }
        let called = self.held.calls.as_mut().is_none_or(|calls| calls.complete());
        match self.said() {
            Some(said) => said.complete(),
            None => called && (self.held.said.is_none() || self.held.calls.is_some()),
        }
    }

    fn over(&mut self) -> bool {
        if let Some(all) = &mut self.held.all {
            return all.over();
        }
        let called = self.held.calls.as_ref().is_some_and(|calls| calls.over());
        called || self.said().is_some_and(|said| said.over())
    }

    fn forced(&mut self) -> Vec<u32> {
        if let Some(id) = self.must() {
            return vec![id];
        }
        if let Some(all) = &mut self.held.all {
            return all.forced();
        }
        let calling = self.held.calls.as_ref().is_some_and(|calls| calls.is_open());
        if !calling && let Some(said) = self.said() {
            return said.forced();
        }
        match &mut self.held.calls {
            Some(calls) if !self.speech.is_thinking() => calls.forced(),
            _ => Vec::new(),
        }
    }
}
