//! Calls held to their tools' schemas: anything may be said until a call begins, then only what the
//! call may be, and then anything again.
use crate::error::Result;
use crate::language::Language;
use crate::request::RequestError;
use rinfer_grammar::{Constraint, Grammar, GrammarError, Matcher, Shape};
use rinfer_text::tools::{self, Declared, Syntax};

/// Waits for calls.
pub(super) struct Watch {
    /// What begins a call, and the token that it is, if it is one.
    open: Vec<u8>,
    token: Option<u32>,
    /// Whether a call begins only where an answer does.
    first: bool,
    start: Matcher,
    call: Option<Matcher>,
    /// What is said, as far as a call may have begun in it.
    tail: Vec<u8>,
    /// Whether nothing but white space has been said, or since a call.
    fresh: bool,
    /// Tokens that may end what begins a call and go on, with their bytes.
    crossing: Vec<(u32, Vec<u8>)>,
}

/// The grammar of at least one call of these tools; if not `many`, of one text of calls.
pub(super) fn grammar(
    language: &Language,
    syntax: &Syntax,
    tools: &[Declared],
    many: bool,
) -> Option<Grammar> {
    let calls = syntax.shape(tools)?;
    let open = convert(language, &tools::Shape::Text(calls.open));
    let one = Shape::All(vec![open, convert(language, &calls.rest)]);
    let next = Shape::All(vec![Shape::Text("\n".into()), one.clone()]);
    let more = Shape::Maybe(Box::new(Shape::More(Box::new(next))));
    let all = if many && !calls.first { Shape::All(vec![one, more]) } else { one };
    Some(Grammar::Shape(all))
}

impl Watch {
    /// For calls of these tools; none if the syntax's notation is not described.
    ///
    /// # Errors
    /// If the grammar of all calls is too large.
    pub fn new(language: &Language, syntax: &Syntax, tools: &[Declared]) -> Result<Option<Watch>> {
        let Some(calls) = syntax.shape(tools) else { return Ok(None) };
        let vocabulary = language.vocabulary().map_err(RequestError::from)?;
        let rest = Grammar::Shape(convert(language, &calls.rest));
        let start = rest.compile(vocabulary).map_err(RequestError::from)?;
        let tokenizer = &language.tokenizer;
        let token = tokenizer.id_of(&calls.open).filter(|id| tokenizer.is_control(*id));
        let open = calls.open.into_bytes();
        let last = open.last().copied();
        let ids = (0..tokenizer.vocab_size() as u32).filter(|_| token.is_none());
        let crossing = ids.filter_map(|id| {
            let bytes = tokenizer.bytes(id);
            let at = bytes.iter().position(|b| Some(*b) == last)?;
            (at + 1 < bytes.len()).then(|| (id, bytes.to_vec()))
        });
        let (crossing, first) = (crossing.collect(), calls.first);
        let (call, tail, fresh) = (None, Vec::new(), true);
        Ok(Some(Watch { open, token, first, start, call, tail, fresh, crossing }))
    }
    /// How many bytes are left of a token after it began a call; none if it begins none.
    fn begins(&self, bytes: &[u8]) -> Option<usize> {
        let said = [&self.tail, bytes].concat();
        if self.first {
            let said = said.trim_ascii_start();
            let begun = self.fresh && said.starts_with(&self.open);
            return begun.then(|| said.len() - self.open.len());
        }
        let at = said.windows(self.open.len()).position(|part| part == self.open)?;
        Some(said.len() - at - self.open.len())
    }
    pub fn mask(&mut self, logits: &mut [f32]) -> std::result::Result<(), GrammarError> {
        if let Some(call) = &mut self.call {
            return call.mask(logits);
        }
        // What follows must be in tokens of its own.
        for (id, bytes) in &self.crossing {
            if self.begins(bytes).is_some_and(|left| left > 0) {
                logits[*id as usize] = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }
    /// Takes a token, and its bytes as text.
    pub fn accept(&mut self, id: u32, bytes: &[u8]) -> std::result::Result<(), GrammarError> {
        if let Some(call) = &mut self.call {
            call.accept(id)?;
            if call.over() {
                self.call = None;
                self.fresh = true;
            }
            return Ok(());
        }
        let begins = match self.token {
            Some(token) => token == id,
            None => self.begins(bytes) == Some(0),
        };
        if begins {
            self.call = Some(self.start.clone());
            self.tail.clear();
            return Ok(());
        }
        self.tail.extend_from_slice(bytes);
        if self.first {
            let said = self.tail.trim_ascii_start();
            self.fresh = self.fresh && self.open.starts_with(said);
        }
        if !self.first || !self.fresh {
            let keep = self.open.len() - 1;
            self.tail.drain(..self.tail.len().saturating_sub(keep));
        }
        Ok(())
    }
    pub fn complete(&mut self) -> bool {
        self.call.as_mut().is_none_or(Constraint::complete)
    }
    pub fn forced(&mut self) -> Vec<u32> {
        self.call.as_mut().map(Constraint::forced).unwrap_or_default()
    }
}

/// A shape in a model's tokens.
fn convert(language: &Language, shape: &tools::Shape) -> Shape {
    let all = |parts: &[tools::Shape]| parts.iter().map(|part| convert(language, part)).collect();
    let one = |part: &tools::Shape| Box::new(convert(language, part));
    match shape {
        tools::Shape::Text(text) => Shape::All(pieces(language, text)),
        tools::Shape::Until(end) => match &pieces(language, end)[..] {
            [Shape::Token(id)] => Shape::All(vec![Shape::Anything, Shape::Token(*id)]),
            _ => Shape::Until(end.clone()),
        },
        tools::Shape::Json(schema) => Shape::Schema(Grammar::loosened(schema)),
        tools::Shape::All(parts) => Shape::All(all(parts)),
        tools::Shape::Any(parts) => Shape::Any(all(parts)),
        tools::Shape::Maybe(part) => Shape::Maybe(one(part)),
        tools::Shape::More(part) => Shape::More(one(part)),
    }
}

/// Text, and the tokens that it names.
fn pieces(language: &Language, text: &str) -> Vec<Shape> {
    let mut parts = Vec::new();
    let mut at = 0;
    for range in language.tokenizer.added_in(text, false) {
        let Some(id) = language.tokenizer.id_of(&text[range.clone()]) else { continue };
        parts.push(Shape::Text(text[at..range.start].to_owned()));
        parts.push(Shape::Token(id));
        at = range.end;
    }
    parts.push(Shape::Text(text[at..].to_owned()));
    parts.retain(|part| *part != Shape::Text(String::new()));
    parts
}
