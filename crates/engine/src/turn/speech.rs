//! Tokens to thoughts, text and calls.
use super::scores::Part;
use crate::batch::TokenId;
use crate::language::Language;
use crate::model::Text;
use rinfer_text::reply::{Delta, Format, Reader};
use rinfer_text::tools::Tools;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where an answer is.
pub(super) enum Spot {
    /// In what is said, or in what may be a call.
    Answer,
    /// In a message's header; what there is of it, with what the prompt gave.
    Header(String),
    /// In thoughts.
    Thoughts,
}

/// Reads the answer to one prompt.
#[derive(Clone)]
pub(super) struct Speech {
    text: Text,
    reader: Reader,
    /// The tokens that are markup.
    markup: Arc<BTreeSet<u32>>,
}

impl Speech {
    pub fn new(
        language: Arc<Language>,
        format: &Format,
        tools: Arc<Tools>,
        prompt: &str,
        stop: &[String],
    ) -> Speech {
        let markup = format.tokens().filter_map(|name| language.tokenizer.id_of(name)).collect();
        let reader = Reader::new(format, tools, prompt);
        Speech { text: Text::new(language, stop, true), reader, markup: Arc::new(markup) }
    }
    /// Takes a token.
    pub fn push(&mut self, id: TokenId) -> Vec<Delta> {
        if !self.markup.contains(&id.0) {
            return self.reader.push(self.text.push(id));
        }
        let language = self.text.language.clone();
        let name = language.tokenizer.token(id.0).unwrap_or_default();
        let mut deltas = self.reader.push(&self.text.push_name(&name));
        if !self.stopped() {
            deltas.extend(self.reader.push_token(&name, !language.tokenizer.is_control(id.0)));
        }
        deltas
    }
    /// The rest. `cut` is whether the answer was cut off.
    pub fn finish(&mut self, cut: bool) -> Vec<Delta> {
        let mut deltas = self.reader.push(self.text.rest());
        deltas.extend(self.reader.finish(cut));
        deltas
    }
    /// Whether a stop text came.
    pub fn stopped(&self) -> bool {
        self.text.stopped()
    }
    /// The stop text that came.
    pub fn stop(&self) -> Option<&str> {
        self.text.stop()
    }
    /// What the next token, this one, is part of: in the place of text that may still turn out not
    /// to be text.
    pub fn part(&self, id: TokenId) -> Part {
        if self.text.language.tokenizer.is_control(id.0) {
            Part::Markup
        } else if self.reader.is_thinking() {
            Part::Reasoning
        } else if self.reader.is_saying() {
            Part::Content
        } else {
            Part::Call
        }
    }
    pub fn is_thinking(&self) -> bool {
        self.reader.is_thinking()
    }
    /// Whether the model is in its answer, calls included, not in thoughts or a message's header.
    pub fn is_answering(&self) -> bool {
        !self.is_thinking() && self.reader.in_header().is_none()
    }
    /// Where the next token comes.
    pub fn spot(&self) -> Spot {
        match self.reader.in_header() {
            Some(header) => Spot::Header(header.to_owned()),
            None if self.is_thinking() => Spot::Thoughts,
            None => Spot::Answer,
        }
    }
    /// Reads calls only where the answer begins, and only if they begin with one of these texts:
    /// otherwise it has a form, in which nothing is a call.
    pub fn formed(&mut self, openings: Vec<String>) {
        self.reader.formed(openings);
    }
    /// A token's bytes, if it is text.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let tokenizer = &self.text.language.tokenizer;
        if tokenizer.is_control(id) { &[] } else { tokenizer.bytes(id) }
    }
    pub fn ends(&self) -> &[TokenId] {
        &self.text.language.end
    }
}
