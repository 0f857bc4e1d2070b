//! Texts to vectors, and pairs of texts to scores: whole sequences in one pass, as many together as fit.
//! Reimers & Gurevych 2019, arXiv:1908.10084.
mod companions;
mod encoder;
mod opened;
mod rank;

pub use companions::Companions;
pub(crate) use companions::pooling;
pub use rank::{Ranked, Reranker};

use crate::batch::TokenId;
use crate::cpu::to_unit;
use crate::error::{Error, Result};
use crate::language::Language;
use crate::load::{Load, Opened};
use crate::request::Cancel;
use crate::spec::Head;
use encoder::{Encoder, Sequence};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A loaded embedding model. Cloning it is cheap and shares everything.
#[derive(Clone)]
pub struct Embedder(Arc<Encoder>);

/// What is to become of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Embed {
    /// What goes before it. Nothing means the model's default, if it has one.
    pub prompt: Prompt,
    /// To how many elements its vector is cut: the first so many, at unit length again if whole
    /// vectors are. Kusupati et al. 2022, arXiv:2205.13147.
    pub dimensions: Option<usize>,
    /// Whether a text that is too long is cut, rather than refused.
    pub truncate: bool,
}

/// What goes before a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Prompt {
    /// The model's default, if it has one.
    #[default]
    Default,
    /// Nothing.
    Nothing,
    /// The model's prompt of this name, such as `query` or `document`.
    Named(String),
    /// This.
    Text(String),
}

/// What is embedded.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A text; control tokens in it are text.
    Text(&'a str),
    /// Tokens as they are: neither a prompt nor begin and end tokens are added.
    Tokens(&'a [TokenId]),
}

/// A text's vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// As many elements as were asked for, or [`Embedder::dimensions`].
    pub vector: Vec<f32>,
    /// Tokens that it is made of, those that the model adds among them.
    pub tokens: usize,
    /// Tokens of the text that were cut off.
    pub cut: usize,
}

impl Embedder {
    /// Loads a GGUF file or a Hugging Face folder. Of `load`, `sequences` and `positions` do not apply, and
    /// the default context is the longest text that the files speak of, or the model's, at most 4096.
    ///
    /// # Errors
    /// What is missing, wrong or not supported, and models that make no vectors: see [`Error`].
    pub fn load(reference: impl AsRef<Path>, load: Load) -> Result<Embedder> {
        let opened = Opened::open(reference)?.adapted(&load.adapters)?;
        Embedder::of(&opened, &load)
    }

    /// Of an open checkpoint; see [`Opened::pooled`].
    ///
    /// # Errors
    /// As [`Embedder::load`].
    pub fn of(opened: &Opened, load: &Load) -> Result<Embedder> {
        match opened.spec.head {
            Head::Pool { scores: false, .. } => {
                Encoder::new(opened, load).map(|encoder| Embedder(Arc::new(encoder)))
            }
            Head::Pool { .. } => {
                Err(opened.unfit("scores pairs of texts, and makes no vectors: rank with it"))
            }
            Head::Lm { .. } => Err(opened.unfit(
                "writes texts: its files do not say how vectors are pooled. Take an embedding model, \
                 or say which rows to pool (--pooling): mean, cls, last or max",
            )),
        }
    }

    /// One text's vector.
    ///
    /// # Errors
    /// A text that is too long.
    pub fn embed(&self, text: &str) -> Result<Vec<f32>> {
        let all = self.embed_all(&[Input::Text(text)], &Embed::default())?;
        Ok(all.into_iter().next().map(|one| one.vector).unwrap_or_default())
    }

    /// The vectors of all inputs, in order. Many share a pass, which changes none of them.
    ///
    /// # Errors
    /// A prompt or number of dimensions that the model has not; an input that is too long, if it is not
    /// to be cut, or that has no tokens, or one that is none of the model's.
    pub fn embed_all(&self, inputs: &[Input<'_>], how: &Embed) -> Result<Vec<Embedding>> {
        self.embed_until(inputs, how, &Cancel::default())
    }

    /// The same, until it is cancelled.
    ///
    /// # Errors
    /// As [`Embedder::embed_all`], and [`RequestError::Cancelled`](crate::request::RequestError::Cancelled).
    pub fn embed_until(
        &self,
        inputs: &[Input<'_>],
        how: &Embed,
        cancel: &Cancel,
    ) -> Result<Vec<Embedding>> {
        let prompt = self.prompt(&how.prompt)?;
        let dimensions = self.cut_to(how.dimensions)?;
        let asked = matches!(how.prompt, Prompt::Named(_) | Prompt::Text(_));
        let tokens = inputs.iter().position(|input| matches!(input, Input::Tokens(_)));
        if let Some(i) = tokens.filter(|_| asked) {
            let problem = format!("goes before texts, and input {i} is tokens: leave it out");
            return Err(Error::Option { option: "prompt", found: prompt.into_owned(), problem });
        }
        let sequence = |(i, input): (usize, &Input<'_>)| {
            cancel.check()?;
            match *input {
                Input::Text(text) => self.0.text(i, &prompt, text, how.truncate),
                Input::Tokens(ids) => self.0.tokens(i, ids, how.truncate),
            }
        };
        let sequences: Vec<Sequence> =
            inputs.iter().enumerate().map(sequence).collect::<Result<_>>()?;
        let vectors = self.0.run(&sequences, cancel)?;
        let made = vectors.into_iter().zip(&sequences).map(|(mut vector, sequence)| {
            if dimensions < vector.len() {
                vector.truncate(dimensions);
                if self.normalises() {
                    to_unit(&mut vector);
                }
            }
            Embedding { vector, tokens: sequence.rows.len(), cut: sequence.cut }
        });
        Ok(made.collect())
    }

    /// Elements of a whole vector.
    pub fn dimensions(&self) -> usize {
        self.0.spec.width()
    }
    /// Tokens of a text at most.
    pub fn context(&self) -> usize {
        self.0.limits.context
    }
    /// Whether vectors have unit length.
    pub fn normalises(&self) -> bool {
        matches!(self.0.spec.head, Head::Pool { normalise: true, .. })
    }
    /// The model's prompts, by name.
    pub fn prompts(&self) -> &BTreeMap<String, String> {
        &self.0.companions.prompts
    }
    /// Tokenizer and what belongs to it.
    pub fn language(&self) -> &Language {
        &self.0.language
    }

    /// What goes before a text.
    fn prompt(&self, prompt: &Prompt) -> Result<Cow<'_, str>> {
        let own = &self.0.companions;
        Ok(match prompt {
            Prompt::Nothing => Cow::Borrowed(""),
            Prompt::Text(text) => Cow::Owned(text.clone()),
            Prompt::Default => {
                let name = own.default_prompt.as_ref();
                Cow::Borrowed(
                    name.and_then(|name| own.prompts.get(name)).map_or("", String::as_str),
                )
            }
            Prompt::Named(name) => Cow::Borrowed(own.prompts.get(name).ok_or_else(|| {
                let names: Vec<&str> = own.prompts.keys().map(String::as_str).collect();
                let problem = match names.is_empty() {
                    true => {
                        "the model has no prompts: write what goes before a text into it".into()
                    }
                    false => format!("the model has no such prompt, but {}", names.join(", ")),
                };
                Error::Option { option: "prompt", found: name.clone(), problem }
            })?),
        })
    }

    /// As many elements as are asked for, if the model can be cut so.
    fn cut_to(&self, asked: Option<usize>) -> Result<usize> {
        let (whole, listed) = (self.dimensions(), &self.0.companions.dimensions);
        let Some(asked) = asked.filter(|asked| *asked != whole) else { return Ok(whole) };
        let refuse = |problem| {
            Err(Error::Option { option: "dimensions", found: asked.to_string(), problem })
        };
        match () {
            () if asked == 0 || asked > whole => {
                refuse(format!("the model's vectors have {whole} elements: ask for 1 to {whole}"))
            }
            () if !listed.is_empty() && !listed.contains(&asked) => {
                refuse(format!("the model's vectors may be cut to one of {listed:?}"))
            }
            () => Ok(asked),
        }
    }
}
