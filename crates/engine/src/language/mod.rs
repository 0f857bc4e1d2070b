//! What turns text to a checkpoint's tokens and back: tokenizer, chat template, end tokens.
mod folder;
mod gguf;
mod stored;

pub use stored::Stored;

use crate::batch::TokenId;
use crate::error::{Error, Result};
use crate::generation::Generation;
use crate::request::RequestError;
use crate::sample::Sampling;
use rinfer_formats::Checkpoint;
use rinfer_grammar::{Grammar, GrammarError, Matcher, Token, Vocabulary};
use rinfer_text::chat::{Chat, Message};
use rinfer_text::reply::Format;
use rinfer_text::template::{DateTime, Template};
use rinfer_text::tokenizer::{Special, Tokenizer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub(crate) use gguf::tokenizer as gguf_tokenizer;

/// Why a model holds no conversations.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTemplate {
    /// It was not made for them.
    #[error("the model has no chat template: complete raw text instead, or take a chat model")]
    None,
    /// Its template is no template.
    #[error("{0}")]
    Broken(String),
}

/// A checkpoint's language.
pub struct Language {
    /// Text to tokens and back.
    pub tokenizer: Arc<Tokenizer>,
    /// Conversations to text, or why there is nothing to do that with.
    pub template: std::result::Result<Template, NoTemplate>,
    /// All tokens that end an answer.
    pub end: Arc<[TokenId]>,
    /// The token that every text begins with, if the model wants one.
    pub bos: Option<TokenId>,
    /// The checkpoint's sampling defaults.
    pub sampling: Sampling,
    vocabulary: OnceLock<std::result::Result<Vocabulary, GrammarError>>,
    format: OnceLock<Format>,
}

/// What a language is made of.
struct Parts {
    tokenizer: Tokenizer,
    /// The template's source.
    template: Option<String>,
    /// Special tokens' texts by name, such as `bos_token`.
    tokens: BTreeMap<String, String>,
    generation: Generation,
}

/// The template's source, if there is one.
pub(crate) fn template_source(files: &Checkpoint) -> Result<Option<String>> {
    match files {
        Checkpoint::Gguf(g) => gguf::template(g),
        Checkpoint::Folder(f) => folder::template(f),
        Checkpoint::Bundle(_) => Ok(None),
    }
}

impl Language {
    /// Of an open checkpoint, and what it says beside its tokenizer if it is a bundle.
    ///
    /// # Errors
    /// A tokenizer or template that can't be read or is not supported.
    pub fn of(files: &Checkpoint, stored: Option<&Stored>) -> Result<Language> {
        let parts = match (files, stored) {
            (Checkpoint::Bundle(bundle), Some(stored)) => stored.parts(bundle)?,
            _ => Parts::of(files)?,
        };
        let Parts { tokenizer, template: source, mut tokens, generation } = parts;
        let roles = tokenizer.roles();
        let named = [("bos_token", roles.bos), ("eos_token", roles.eos), ("pad_token", roles.pad)];
        for (name, id) in named.into_iter().chain([("unk_token", roles.unk)]) {
            if let Some(text) = id.and_then(|id| tokenizer.token(id)) {
                tokens.entry(name.into()).or_insert_with(|| text.into_owned());
            }
        }
        let controls = (0..tokenizer.vocab_size() as u32)
            .filter(|id| tokenizer.is_control(*id))
            .filter_map(|id| tokenizer.token(id).map(Cow::into_owned));
        let template = match source.as_deref().map(Template::new) {
            None => Err(NoTemplate::None),
            Some(Err(error)) => Err(NoTemplate::Broken(error.to_string())),
            Some(Ok(template)) => Ok(template.with_tokens(tokens).with_controls(controls)),
        };
        Ok(Language::new(tokenizer, template, generation))
    }

    /// Unites what ends an answer: the ids that any file names, the tokenizer's roles, and control
    /// tokens with a well-known name.
    pub fn new(
        tokenizer: Tokenizer,
        template: std::result::Result<Template, NoTemplate>,
        generation: Generation,
    ) -> Language {
        let mut end = [tokenizer.ends(), generation.end].concat();
        end.sort_unstable();
        end.dedup();
        let first = tokenizer.wrap(&[]).first().copied();
        Language {
            bos: first.filter(|id| tokenizer.roles().bos == Some(*id)).map(TokenId),
            end: end.into_iter().map(TokenId).collect(),
            tokenizer: Arc::new(tokenizer),
            template,
            sampling: generation.sampling,
            vocabulary: OnceLock::new(),
            format: OnceLock::new(),
        }
    }

    /// The tokens as grammars take them: made at the first call.
    ///
    /// # Errors
    /// If no token ends an answer.
    pub fn vocabulary(&self) -> std::result::Result<&Vocabulary, GrammarError> {
        let made = self.vocabulary.get_or_init(|| {
            let tokenizer = self.tokenizer.clone();
            let token = |id| match tokenizer.token(id) {
                None => Token::Unused,
                Some(name) if tokenizer.is_control(id) => Token::Control(name.into_owned()),
                Some(_) => Token::Text(tokenizer.bytes(id).to_vec()),
            };
            let tokens: Vec<Token> = (0..tokenizer.vocab_size() as u32).map(token).collect();
            let ends: Vec<u32> = self.end.iter().map(|id| id.0).collect();
            let tokenizer = self.tokenizer.clone();
            let tokenise = Arc::new(move |text: &str| tokenizer.encode(text, Special::Plain));
            Vocabulary::new(&tokens, &ends, tokenise)
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// A grammar in these tokens.
    ///
    /// # Errors
    /// If no token ends an answer, or the grammar can't be used.
    pub(crate) fn compile(&self, grammar: &Grammar) -> Result<Matcher> {
        let compiled = self.vocabulary().and_then(|vocabulary| grammar.compile(vocabulary));
        Ok(compiled.map_err(RequestError::from)?)
    }

    /// The tokens of a prompt without a template: with one begin token, whether or not the text
    /// spells it.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        self.begin(self.tokenizer.encode(text, Special::Parse))
    }

    /// How the model writes thoughts and calls: found from the template at the first call.
    ///
    /// # Errors
    /// That there is no template.
    pub fn format(&self) -> Result<&Format> {
        let template = self.template()?;
        let find = || Format::of(template, |tag, words| self.tokenizer.added_in(tag, words));
        Ok(self.format.get_or_init(find))
    }

    /// The tokens of a conversation, up to where the model is to speak.
    ///
    /// # Errors
    /// That there is no template, or what it refuses.
    pub fn render(&self, messages: Vec<Message>, now: DateTime) -> Result<Vec<TokenId>> {
        let chat = Chat { messages, add_generation_prompt: true, ..Chat::default() };
        Ok(self.render_chat(&chat, now)?.0)
    }

    /// The tokens of a conversation with all that belongs to it, and its text.
    ///
    /// # Errors
    /// As [`Language::render`].
    pub fn render_chat(&self, chat: &Chat, now: DateTime) -> Result<(Vec<TokenId>, String)> {
        let prompt = self.template()?.render(chat, now)?;
        let ids = self.tokenizer.encode(&prompt.text, Special::Except(&prompt.plain));
        Ok((self.begin(ids), prompt.text))
    }

    fn template(&self) -> Result<&Template> {
        self.template.as_ref().map_err(|e| Error::NoTemplate(e.clone()))
    }

    fn begin(&self, ids: Vec<u32>) -> Vec<TokenId> {
        let bos = self.bos.filter(|bos| ids.first() != Some(&bos.0));
        bos.into_iter().chain(ids.into_iter().map(TokenId)).collect()
    }
}
