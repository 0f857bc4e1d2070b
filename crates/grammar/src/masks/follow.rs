//! Where the characters of an alphabet lead from a state of a lexer.
use super::tables::{ALPHABETS, Alphabet, FARTHEST, Group, IS_CONTROL, IS_TEXT};
use llguidance::derivre::StateID;
use llguidance::earley::ParserRecognizer;
use std::collections::HashMap;
use toktrie::SimpleVob;

/// Most states that characters of an alphabet are followed to.
const MOST_STATES: usize = 8;

/// What is known of an automaton's states.
#[derive(Default)]
pub(super) struct Known {
    /// Where the characters of an alphabet lead from a state: by the alphabet's number and the state's.
    steps: [Vec<Option<Step>>; ALPHABETS.len()],
    /// Tokens that may come in a state, but for the rest, if no parser need be asked about any.
    pub plain: HashMap<StateID, Option<SimpleVob>>,
}

#[derive(Clone)]
enum Step {
    /// All go on, to these states.
    On(Box<[StateID]>),
    /// None goes on.
    Out,
    /// Some go on and some don't, or end a lexeme.
    Divided,
}

impl Known {
    /// How many characters of a group go on from the lexer's state, whichever they are, and none
    /// more; [`FARTHEST`] may be any number. None if they are divided. `shut` is set where it is told
    /// that no control character comes after any text.
    pub fn reach(
        &mut self,
        rec: &mut ParserRecognizer<'_>,
        group: &Group,
        shut: &mut bool,
    ) -> Option<usize> {
        let state = rec.lexer_state();
        let Some(lead) = group.lead else {
            let (reach, seen) = self.follow(rec, state, group.alphabet)?;
            *shut |= group.alphabet == IS_TEXT
                && seen.iter().all(|state| matches!(self.step(rec, *state, IS_CONTROL), Step::Out));
            return Some(reach);
        };
        let next = byte_after(rec, state, lead)?;
        if next.is_dead() {
            return Some(0);
        }
        self.follow(rec, next, group.alphabet).map(|(reach, _)| reach + 1)
    }

    /// How many characters go on from a state, and all states that they lead to.
    fn follow(
        &mut self,
        rec: &mut ParserRecognizer<'_>,
        from: StateID,
        alphabet: usize,
    ) -> Option<(usize, Vec<StateID>)> {
        let mut states = vec![from];
        let mut seen = states.clone();
        for count in 0..FARTHEST {
            let (mut next, mut out) = (Vec::new(), false);
            for state in &states {
                match self.step(rec, *state, alphabet) {
                    Step::On(states) => join(&mut next, states),
                    Step::Out => out = true,
                    Step::Divided => return None,
                }
            }
            if (out && !next.is_empty()) || next.len() > MOST_STATES {
                return None;
            }
            if out {
                return Some((count, seen));
            }
            let new: Vec<StateID> = next.iter().filter(|s| !seen.contains(s)).copied().collect();
            if new.is_empty() {
                break;
            }
            seen.extend(new);
            states = next;
        }
        Some((FARTHEST, seen))
    }

    /// States that text leads to from one, if all text goes on, or else all that any byte leads to. Makes
    /// those of escapes, too.
    pub fn after(&mut self, rec: &mut ParserRecognizer<'_>, from: StateID) -> Vec<StateID> {
        if let Step::On(states) = self.step(rec, from, IS_TEXT) {
            let states = states.to_vec();
            _ = self.step(rec, from, IS_CONTROL);
            if let Some(escape) = byte_after(rec, from, b'\\') {
                (0..=u8::MAX).for_each(|byte| _ = byte_after(rec, escape, byte));
            }
            return states;
        }
        let all = (0..=u8::MAX).filter_map(|byte| byte_after(rec, from, byte));
        all.filter(|next| !next.is_dead()).collect()
    }

    fn step(&mut self, rec: &mut ParserRecognizer<'_>, from: StateID, alphabet: usize) -> &Step {
        let steps = &mut self.steps[alphabet];
        let at = from.as_usize();
        if at >= steps.len() {
            steps.resize(at + 1, None);
        }
        steps[at].get_or_insert_with(|| character(rec, from, ALPHABETS[alphabet]))
    }
}

fn join(all: &mut Vec<StateID>, more: &[StateID]) {
    for state in more {
        if !all.contains(state) {
            all.push(*state);
        }
    }
}

/// One character of an alphabet from a state.
fn character(rec: &mut ParserRecognizer<'_>, from: StateID, alphabet: Alphabet) -> Step {
    let (mut next, mut out) = (Vec::new(), false);
    for ranges in alphabet {
        let mut states = vec![from];
        for (place, range) in ranges.iter().enumerate() {
            match bytes(rec, &states, *range) {
                Step::On(more) => states = more.into_vec(),
                Step::Out if place == 0 => {
                    out = true;
                    states.clear();
                    break;
                }
                _ => return Step::Divided,
            }
        }
        join(&mut next, &states);
        if (out && !next.is_empty()) || next.len() > MOST_STATES {
            return Step::Divided;
        }
    }
    if out { Step::Out } else { Step::On(next.into()) }
}

/// One byte of a range from each of some states.
fn bytes(rec: &mut ParserRecognizer<'_>, from: &[StateID], (low, high): (u8, u8)) -> Step {
    let (mut next, mut out) = (Vec::new(), false);
    for state in from {
        for byte in low..=high {
            match byte_after(rec, *state, byte) {
                None => return Step::Divided,
                Some(to) if to.is_dead() => out = true,
                Some(to) if next.last() == Some(&to) => {}
                Some(to) => join(&mut next, &[to]),
            }
            if (out && !next.is_empty()) || next.len() > MOST_STATES {
                return Step::Divided;
            }
        }
    }
    if out { Step::Out } else { Step::On(next.into()) }
}

/// The state after a byte, which may be dead, or none where a lexeme may end and the parser goes on.
pub(super) fn byte_after(
    rec: &mut ParserRecognizer<'_>,
    state: StateID,
    byte: u8,
) -> Option<StateID> {
    let lexer = rec.lexer_mut();
    let next = lexer.transition_start_state(state, Some(byte), &None);
    let ends =
        next.has_lowest_match() || (next.is_dead() && !lexer.try_lexeme_end(state).is_error());
    (!ends).then_some(next)
}
