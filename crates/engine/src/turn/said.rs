//! What is said where it has a form, or must be calls, or may be either: whichever its beginning is.
use rinfer_grammar::{Constraint, GrammarError, Matcher};

/// Ways in which the same text may go on.
#[derive(Clone)]
pub(super) struct Said(Vec<Matcher>);

impl Said {
    /// One of these; none if there are none.
    pub fn new(ways: impl IntoIterator<Item = Matcher>) -> Option<Said> {
        let ways: Vec<Matcher> = ways.into_iter().collect();
        (!ways.is_empty()).then_some(Said(ways))
    }
}

impl Constraint for Said {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError> {
        let [first, others @ ..] = &mut self.0[..] else { return Ok(()) };
        let free = if others.is_empty() { Vec::new() } else { logits.to_vec() };
        first.mask(logits)?;
        for other in others {
            let mut more = free.clone();
            other.mask(&mut more)?;
            for (logit, more) in logits.iter_mut().zip(more) {
                *logit = logit.max(more);
            }
        }
        Ok(())
    }

    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        let mut refused = Ok(());
        let mut left = Vec::new();
        for mut way in self.0.drain(..) {
            match way.accept(id) {
                Ok(()) => left.push(way),
                Err(error) => refused = Err(error),
            }
        }
        self.0 = left;
        if self.0.is_empty() { refused } else { Ok(()) }
    }

    fn complete(&mut self) -> bool {
        self.0.iter_mut().any(Constraint::complete)
    }

    fn over(&mut self) -> bool {
        self.0.iter_mut().all(Constraint::over)
    }

    fn forced(&mut self) -> Vec<u32> {
        match &mut self.0[..] {
            [only] => only.forced(),
            _ => Vec::new(),
        }
    }
}
