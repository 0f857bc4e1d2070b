//! How probable the tokens of a turn were, and which part of it each belongs to.
use crate::request::Chosen;
use rinfer_text::reply::Delta;

/// What a token of an answer is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What the model says.
    Content,
    /// What it thinks, with the tags around it that are text.
    Reasoning,
    /// A call of a tool, or what stands around one.
    Call,
    /// A control token.
    Markup,
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The token, and how probable it and others were.
    pub chosen: Chosen,
    /// Its bytes: perhaps a part of a character, or none at all.
    pub bytes: Vec<u8>,
    /// What it is part of.
    pub part: Part,
}

/// The tokens of a turn. What stands in the place of text is part of what turns out to be read there.
#[derive(Debug, Default)]
pub(super) struct Scores {
    waiting: Vec<Scored>,
    known: Vec<Scored>,
}

impl Scores {
    /// Takes a token; `part` is where it was read, and `deltas` what that gave.
    pub fn push(&mut self, chosen: Chosen, bytes: Vec<u8>, part: Part, deltas: &[Delta]) {
        self.waiting.push(Scored { chosen, bytes, part });
        if part != Part::Content {
            return self.settle(part);
        }
        match deltas.first() {
            None => {}
            Some(Delta::Content(_) | Delta::Broken { .. }) => self.settle(Part::Content),
            Some(Delta::Reasoning(_)) => self.settle(Part::Reasoning),
            Some(Delta::Open { .. } | Delta::Arguments { .. } | Delta::Close { .. }) => {
                self.settle(Part::Call);
            }
        }
    }
    /// No token follows.
    pub fn end(&mut self) {
        self.settle(Part::Content);
    }
    /// What is known, and was not taken yet.
    pub fn take(&mut self) -> Vec<Scored> {
        std::mem::take(&mut self.known)
    }
    fn settle(&mut self, part: Part) {
        for mut scored in self.waiting.drain(..) {
            if scored.part == Part::Content {
                scored.part = part;
            }
            self.known.push(scored);
        }
    }
}
