//! Calls held to their tools' schemas: anything may be said until a call begins, then only what the
//! call may be, and then anything again.
use super::shapes::{marks, shape};
use super::speech::{Speech, Spot};
use crate::batch::TokenId;
use crate::error::{Error, Result};
use crate::language::Language;
use crate::request::RequestError;
use rinfer_grammar::{Constraint, Grammar, GrammarError, Mark, Matcher, Shape};
use rinfer_text::chat::Tool;
use rinfer_text::tools::{self, Declared, Place, Syntax};
use std::collections::{BTreeMap, BTreeSet};

/// Waits for calls.
pub(super) struct Watch {
    waits: Vec<Wait>,
    call: Option<Matcher>,
    /// Where the call that is open began.
    place: Place,
    /// What is said, as far as a call may have begun in it.
    tail: Vec<u8>,
    /// Whether nothing but white space has been said, or since a call.
    fresh: bool,
    /// Tokens that may end what begins a call and go on, with their bytes.
    crossing: Vec<(u32, Vec<u8>)>,
    /// Whether there may be more than one call.
    many: bool,
    /// Whether there was one.
    called: bool,
    /// Whether nothing may follow but an end: of the message, or of all.
    ending: bool,
    /// The tokens that end a message.
    ends: Vec<u32>,
}

/// A way for calls to begin.
struct Wait {
    /// What begins a call; see [`heard`].
    open: Vec<u8>,
    place: Place,
    /// What must follow.
    start: Matcher,
}

/// The grammar of a text of calls: of at least one of these tools, and if it may be `many`, of more.
/// None if their arguments can't be told in the syntax's notation.
pub(super) fn grammar(
    language: &Language,
    syntax: &Syntax,
    tools: &[Declared],
    many: bool,
) -> Option<Grammar> {
    if let Some(answer) = syntax.answer(tools, many) {
        return shape(language, &answer).map(Grammar::Shape);
    }
    let ways = syntax.shapes(tools, many);
    let again = many && ways.iter().all(|calls| calls.place == Place::Anywhere);
    // The first way of each place is the one to take.
    let mut all: Vec<Shape> = Vec::new();
    for place in [Place::First, Place::Anywhere] {
        if let Some(calls) = ways.iter().find(|calls| calls.place == place) {
            let open = shape(language, &tools::Shape::Text(calls.open.clone()))?;
            all.push(Shape::All(vec![open, shape(language, &calls.rest)?]));
        }
    }
    let one = if all.len() > 1 { Shape::Any(all) } else { all.pop()? };
    let line = Shape::Maybe(Box::new(Shape::Text("\n".into())));
    let next = Shape::All(vec![line, one.clone()]);
    let more = Shape::Maybe(Box::new(Shape::More(Box::new(next))));
    Some(Grammar::Shape(if again { Shape::All(vec![one, more]) } else { one }))
}

/// Refuses tools that can't be told apart: a call has nothing but a name to say which is meant.
pub(super) fn distinct(tools: &[Tool]) -> Result<()> {
    let mut named = BTreeMap::new();
    for tool in tools {
        let name = tool.name().unwrap_or_default();
        let other = named.insert(name, tool).filter(|other| *other != tool);
        let problem = match (name, other) {
            ("", _) => "a tool must have a name",
            (_, Some(_)) => "two tools have this name: give each its own",
            _ => continue,
        };
        let (option, found, problem) = ("tools", format!("'{name}'"), problem.into());
        return Err(Error::Option { option, found, problem });
    }
    Ok(())
}

/// A grammar of calls, for a matcher.
///
/// # Errors
/// If it is too large.
pub(super) fn compile(language: &Language, grammar: &Grammar) -> Result<Matcher> {
    language.compile(grammar).map_err(|error| match error {
        Error::Request(RequestError::Grammar(GrammarError::TooLarge(_))) => Error::Option {
            option: "tools",
            found: "their schemas".into(),
            problem: "are too large together to hold calls to them: offer fewer tools, or simpler schemas"
                .into(),
        },
        other => other,
    })
}

impl Watch {
    /// For calls of these tools; none if their arguments can't be told in the syntax's notation.
    ///
    /// # Errors
    /// If the grammar of all calls is too large.
    pub fn new(
        language: &Language,
        syntax: &Syntax,
        tools: &[Declared],
        many: bool,
    ) -> Result<Option<Watch>> {
        let tokenizer = &language.tokenizer;
        let mut waits = Vec::new();
        for calls in syntax.shapes(tools, many) {
            let Some(rest) = shape(language, &calls.rest) else { continue };
            let start = compile(language, &Grammar::Shape(rest))?;
            let open = heard(&marks(language, &calls.open));
            waits.push(Wait { open, place: calls.place, start });
        }
        let Some(first) = waits.first() else { return Ok(None) };
        let place = first.place;
        let texts = waits.iter().filter(|wait| !ends_by_token(&wait.open));
        let last: BTreeSet<u8> = texts.filter_map(|wait| wait.open.last().copied()).collect();
        let ids = (0..tokenizer.vocab_size() as u32).filter(|_| !last.is_empty());
        let crossing = ids.filter_map(|id| {
            let bytes = tokenizer.bytes(id);
            let at = bytes.iter().position(|b| last.contains(b))?;
            (at + 1 < bytes.len() && !tokenizer.is_control(id)).then(|| (id, bytes.to_vec()))
        });
        let ends = language.format()?.channels.map_or(&[][..], |channels| channels.ends);
        let ends: Vec<u32> = ends.iter().filter_map(|end| tokenizer.id_of(end)).collect();
        let (crossing, call, tail) = (crossing.collect(), None, Vec::new());
        let (fresh, called, ending) = (true, false, false);
        Ok(Some(Watch { waits, call, place, tail, fresh, crossing, many, called, ending, ends }))
    }

    /// The way that a call begins with these bytes, and how many of them are left after that.
    fn begins(&self, spot: &Spot, bytes: &[u8]) -> Option<(usize, usize)> {
        let all = [&self.tail, bytes].concat();
        let left = |wait: &Wait| {
            let open = &wait.open[..];
            let found = match (wait.place, spot) {
                (Place::First, Spot::Answer) => {
                    let said = all.trim_ascii_start();
                    return (self.fresh && said.starts_with(open)).then(|| said.len() - open.len());
                }
                (Place::WholeHeader, Spot::Header(header)) => {
                    let all = [header.as_bytes(), bytes].concat();
                    return all.starts_with(open).then(|| all.len() - open.len());
                }
                (Place::Anywhere, Spot::Answer) | (Place::Header, Spot::Header(_)) => {
                    all.windows(open.len()).position(|part| part == open)?
                }
                _ => return None,
            };
            Some(all.len() - found - open.len())
        };
        self.waits.iter().enumerate().find_map(|(i, wait)| Some((i, left(wait)?)))
    }

    /// Excludes what may not come next, of what is said or in a header.
    pub fn mask(
        &mut self,
        speech: &Speech,
        logits: &mut [f32],
    ) -> std::result::Result<(), GrammarError> {
        if let Some(call) = &mut self.call {
            return call.mask(logits);
        }
        if self.ending {
            let kept: Vec<(u32, f32)> =
                self.ends(speech).map(|id| (id, logits[id as usize])).collect();
            logits.fill(f32::NEG_INFINITY);
            kept.into_iter().for_each(|(id, logit)| logits[id as usize] = logit);
            return Ok(());
        }
        // What follows must be in tokens of its own.
        let spot = speech.spot();
        for (id, bytes) in &self.crossing {
            if self.begins(&spot, bytes).is_some_and(|(_, left)| left > 0) {
                logits[*id as usize] = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// What may come where nothing but an end may.
    fn ends(&self, speech: &Speech) -> impl Iterator<Item = u32> {
        let all = speech.ends().iter().map(|TokenId(id)| *id);
        all.chain(self.ends.iter().copied().filter(|_| self.many))
    }

    /// Takes a token that `speech` has not yet taken.
    pub fn accept(&mut self, speech: &Speech, id: u32) -> std::result::Result<(), GrammarError> {
        if let Some(call) = &mut self.call {
            call.accept(id)?;
            if call.over() {
                self.close();
            }
            return Ok(());
        }
        self.ending = false;
        let spot = speech.spot();
        let bytes = match speech.bytes(id) {
            [] => heard(&[Mark::Token(id)]),
            text => text.to_vec(),
        };
        if let Some((which, 0)) = self.begins(&spot, &bytes) {
            let wait = &self.waits[which];
            (self.call, self.place) = (Some(wait.start.clone()), wait.place);
            self.tail.clear();
            return Ok(());
        }
        self.tail.extend_from_slice(&bytes);
        if self.fresh && matches!(spot, Spot::Answer) {
            let said = self.tail.trim_ascii_start();
            self.fresh = said.is_empty() || self.waits.iter().any(|w| w.open.starts_with(said));
        }
        if !self.fresh || !self.waits.iter().any(|wait| wait.place == Place::First) {
            let most = self.waits.iter().map(|wait| wait.open.len()).max().unwrap_or(1);
            self.tail.drain(..self.tail.len().saturating_sub(most - 1));
        }
        Ok(())
    }
    /// After a call.
    fn close(&mut self) {
        self.call = None;
        (self.fresh, self.called) = (true, true);
        let message = self.place == Place::Header && !self.ends.is_empty();
        self.ending = !self.many || message;
    }
    /// Whether a call is open, or must be ended.
    pub fn is_open(&self) -> bool {
        self.call.is_some() || self.ending
    }
    /// Whether a call was made.
    pub fn has_called(&self) -> bool {
        self.called
    }
    pub fn complete(&mut self) -> bool {
        self.call.as_mut().is_none_or(Constraint::complete)
    }
    /// Whether nothing but the end may come.
    pub fn over(&self) -> bool {
        self.ending && !self.many
    }
    pub fn forced(&mut self) -> Vec<u32> {
        self.call.as_mut().map(Constraint::forced).unwrap_or_default()
    }
}

/// Text and tokens as bytes. A token is told by a byte that no text has, and its number.
fn heard(marks: &[Mark]) -> Vec<u8> {
    let bytes = marks.iter().map(|mark| match mark {
        Mark::Text(text) => text.as_bytes().to_vec(),
        Mark::Token(id) => [&[u8::MAX], &id.to_le_bytes()[..]].concat(),
        Mark::Key => Vec::new(),
    });
    bytes.collect::<Vec<_>>().concat()
}

fn ends_by_token(heard: &[u8]) -> bool {
    heard.len() > 4 && heard[heard.len() - 5] == u8::MAX
}
