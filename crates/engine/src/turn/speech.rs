//! Tokens to thoughts, text and calls.
use crate::batch::TokenId;
use crate::language::Language;
use crate::model::Text;
use rinfer_text::reply::{Delta, Format, Reader};
use rinfer_text::tools::Tools;
use std::collections::BTreeSet;
use std::sync::Arc;

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
    pub fn is_thinking(&self) -> bool {
        self.reader.is_thinking()
    }
    /// Whether the model is in what it says, not in thoughts or a message's header.
    pub fn is_saying(&self) -> bool {
        self.reader.is_saying()
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
