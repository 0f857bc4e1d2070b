//! Grammars compiled before: a conversation has the same one in each of its turns, and a server in many
//! requests. What an answer learns of an automaton, the next one knows.
use std::sync::Arc;

/// Most grammars that are kept for a vocabulary.
const MOST: usize = 8;
/// Most states of an automaton that is kept, of one to two KiB each.
const MOST_STATES: usize = 8_000;

/// The grammars used last, the latest at the end.
#[derive(Default)]
pub(crate) struct Kept(Vec<(String, Compiled)>);

/// A grammar at its start. Clones share an automaton.
#[derive(Clone)]
pub(crate) struct Compiled {
    /// In the library's language.
    pub lark: Arc<str>,
    pub start: llguidance::Matcher,
    /// Asked for its size.
    pub parser: Arc<llguidance::earley::Parser>,
}

impl Compiled {
    /// States of the automaton so far; none if it can't be asked, for a panic that left its lock.
    fn states(&self) -> Option<usize> {
        let ask = || Ok(self.parser.lexer_stats().num_states);
        llguidance::panic_utils::catch_unwind(std::panic::AssertUnwindSafe(ask)).ok()
    }
}

impl Kept {
    /// One that was kept under this name.
    pub fn get(&mut self, name: &str) -> Option<Compiled> {
        self.0.retain(|(_, one)| one.states().is_some_and(|states| states <= MOST_STATES));
        let at = self.0.iter().position(|(known, _)| known == name)?;
        let found = self.0.remove(at);
        self.0.push(found);
        self.0.last().map(|(_, one)| one.clone())
    }

    /// Keeps one, and leaves the one that was used longest ago if there are too many.
    pub fn put(&mut self, name: String, compiled: Compiled) {
        self.0.retain(|(known, _)| *known != name);
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push((name, compiled));
    }
}
