//! A loaded model, shared by any number of conversations and threads.
use crate::backend::{Executor, Limits};
use crate::batch::TokenId;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::language::Language;
use crate::load::{Load, Opened};
use crate::request::{Cancel, Event, Events, Finish, Progress, Request, Usage};
use crate::sample::Sampling;
use crate::saved::Restored;
use crate::session::Session;
use crate::turn::{Part, Scored};
use rinfer_grammar::{Grammar, Matcher, Vocabulary};
use rinfer_text::stream::Decoder;
use rinfer_text::template::DateTime;
use std::path::Path;
use std::sync::Arc;

/// A loaded model. Cloning it is cheap and shares everything.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    driver: Driver,
    limits: Limits,
    language: Arc<Language>,
    clock: fn() -> DateTime,
}

impl Model {
    /// Loads a GGUF file or a Hugging Face folder.
    ///
    /// # Errors
    /// What is missing, wrong or not supported: see [`Error`].
    pub fn load(reference: impl AsRef<Path>, load: Load) -> Result<Model> {
        let opened = Opened::open(reference)?.adapted(&load.adapters)?;
        let limits = opened.limits(&load)?;
        let language = opened.language()?;
        let executor = opened.executor(&load.backend()?, &limits)?;
        Model::new(executor, limits, opened.spec.vocab, language, load.clock)
    }

    /// Of its parts: an executor that was loaded with `limits` and gives `vocab` logits a row.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(
        executor: Box<dyn Executor>,
        limits: Limits,
        vocab: usize,
        language: Language,
        clock: fn() -> DateTime,
    ) -> Result<Model> {
        let context = limits.context;
        let driver = Driver::new(Engine::new(executor, limits.clone(), vocab), vocab, context)?;
        let language = Arc::new(language);
        Ok(Model(Arc::new(Inner { driver, limits, language, clock })))
    }

    /// A new conversation, with the model's own sampling defaults.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Goes on from `text`, without a chat template. Control tokens in it are read as such.
    ///
    /// # Errors
    /// A text that leaves no room in the context, or an option out of its range.
    pub fn complete(&self, text: &str, sampling: &Sampling) -> Result<Answer> {
        self.go_on(self.language().encode(text), sampling, None)
    }

    /// Goes on from tokens, in text. Nothing is added to the prompt. `logprobs` asks how probable each token
    /// was, and this many most probable ones: [`Answer::scores`].
    ///
    /// # Errors
    /// As [`Model::complete`]; a token that the vocabulary has not.
    pub fn go_on(
        &self,
        prompt: Vec<TokenId>,
        sampling: &Sampling,
        logprobs: Option<usize>,
    ) -> Result<Answer> {
        let usage = Usage { prompt: prompt.len(), ..Usage::default() };
        let text = Text::new(self.0.language.clone(), &sampling.stop, false);
        let mut request = self.constrained(prompt, sampling)?;
        request.logprobs = logprobs;
        if !sampling.stop.is_empty() {
            let mut watched = text.clone();
            request.until = Some(Box::new(move |id| {
                watched.push(id);
                watched.stopped()
            }));
        }
        let events = self.submit(request)?;
        let (scores, _model) = (logprobs.map(|_| Vec::new()), self.clone());
        Ok(Answer { events, text, scores, over: false, finish: None, usage, _model })
    }

    /// Goes on from tokens, in tokens. Nothing is added to the prompt, and stop texts do not apply.
    ///
    /// # Errors
    /// As [`Model::complete`].
    pub fn generate(&self, prompt: Vec<TokenId>, sampling: &Sampling) -> Result<Events> {
        self.submit(self.constrained(prompt, sampling)?)
    }

    /// A request with this model's end tokens, to be changed and submitted: its constraint is yours to set.
    pub fn request(&self, prompt: Vec<TokenId>, sampling: &Sampling) -> Request {
        let (sampling, end) = (sampling.clone(), self.language().end.clone());
        Request { prompt, sampling, end, constraint: None, until: None, logprobs: None }
    }

    /// The same, with the grammar that `sampling` names.
    fn constrained(&self, prompt: Vec<TokenId>, sampling: &Sampling) -> Result<Request> {
        let mut request = self.request(prompt, sampling);
        if let Some(matcher) = self.matcher(sampling)? {
            request.constraint = Some(Box::new(matcher));
        }
        Ok(request)
    }

    /// The grammar that `sampling` names, for this model's tokens.
    pub(crate) fn matcher(&self, sampling: &Sampling) -> Result<Option<Matcher>> {
        let grammar = sampling.grammar.as_deref();
        grammar.map(|grammar| self.language().compile(grammar)).transpose()
    }

    /// Makes what all forms of answers share, on a thread, so that the first answer in a form does not
    /// wait for it: for what serves many. What can't be made is told with the first form.
    pub fn prepare_forms(&self) {
        let language = self.shared_language().clone();
        std::thread::spawn(move || language.vocabulary().and_then(Vocabulary::prepare));
    }

    /// Makes what answers of this form need, so that the first of them does not wait for it.
    ///
    /// # Errors
    /// What of the form can't be used, as an answer would say.
    pub fn prepare_form(&self, form: &Grammar) -> Result<()> {
        self.language().compile(form).map(drop)
    }

    /// Submits a request as it is.
    ///
    /// # Errors
    /// What no wait would help.
    pub fn submit(&self, request: Request) -> Result<Events> {
        self.0.driver.submit(request).map_err(Error::Request)
    }

    /// Positions that are kept for requests that begin with the same tokens, of the
    /// [most](Limits::positions) that there are.
    pub fn kept(&self) -> usize {
        self.0.driver.kept()
    }

    /// Writes all that is kept to a file, whole or not at all: [`Model::restore`] reads it, after a restart
    /// too. Answers under way wait for it. Returns how many positions that are.
    ///
    /// # Errors
    /// Those of writing; nothing is kept.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize> {
        self.write(None, Vec::new(), path.as_ref())
    }

    /// The same of what is kept of `tokens`, such as a prompt that was asked.
    ///
    /// # Errors
    /// As [`Model::save`].
    pub fn save_prefix(&self, tokens: &[TokenId], path: impl AsRef<Path>) -> Result<usize> {
        self.write(Some(tokens.to_vec()), Vec::new(), path.as_ref())
    }

    pub(crate) fn write(
        &self,
        tokens: Option<Vec<TokenId>>,
        note: Vec<u8>,
        path: &Path,
    ) -> Result<usize> {
        let path = path.to_owned();
        self.0.driver.call(move |engine| engine.save(tokens.as_deref(), &note, &path))?
    }

    /// Keeps what a file holds that this model wrote. Answers under way wait for it.
    ///
    /// # Errors
    /// A file that is cut, changed, or another model's, or that there is no room for: nothing of it is
    /// kept then.
    pub fn restore(&self, path: impl AsRef<Path>) -> Result<Restored> {
        let path = path.as_ref().to_owned();
        self.0.driver.call(move |engine| engine.restore(&path))?
    }

    /// Tokenizer, template, end tokens and sampling defaults.
    pub fn language(&self) -> &Language {
        &self.0.language
    }

    pub(crate) fn shared_language(&self) -> &Arc<Language> {
        &self.0.language
    }

    /// What the executor is sized for.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The time, for templates that print the date.
    pub(crate) fn now(&self) -> DateTime {
        (self.0.clock)()
    }
}

/// An answer's text, in pieces, as they become certain: whole characters, and nothing that may
/// turn out to begin a stop text. Dropping it ends the generation.
pub struct Answer {
    events: Events,
    text: Text,
    scores: Option<Vec<Scored>>,
    over: bool,
    finish: Option<Finish>,
    usage: Usage,
    /// Lives as long as its answers.
    _model: Model,
}

impl Answer {
    /// Why it ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }
    /// Tokens so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }
    /// The stop text that ended it, if one did.
    pub fn stop(&self) -> Option<&str> {
        self.text.stop()
    }
    /// What ends it from another thread.
    pub fn canceller(&self) -> Cancel {
        self.events.canceller()
    }
    /// How far it is, for another thread to ask.
    pub fn progress(&self) -> Progress {
        self.events.progress()
    }
    /// The tokens so far that were not taken yet, if they were asked for; those of a stop text among them.
    pub fn scores(&mut self) -> Vec<Scored> {
        self.scores.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Iterator for Answer {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        while !self.over {
            let text = match self.events.next()? {
                Event::Started { cached } => {
                    self.usage.cached = cached;
                    continue;
                }
                Event::Token(chosen) => {
                    self.usage.generated += 1;
                    let id = chosen.id;
                    if let Some(scores) = &mut self.scores {
                        let bytes = self.text.language.tokenizer.bytes(id.0).to_vec();
                        scores.push(Scored { chosen, bytes, part: Part::Content });
                    }
                    self.text.push(id)
                }
                Event::Done(finish, usage) => {
                    (self.finish, self.usage, self.over) = (Some(finish), usage, true);
                    self.text.rest()
                }
                Event::Failed(error) => {
                    self.over = true;
                    return Some(Err(error.into()));
                }
            };
            if !text.is_empty() {
                return Some(Ok(text.to_owned()));
            }
        }
        None
    }
}

/// Tokens to text, up to a stop text.
#[derive(Clone)]
pub(crate) struct Text {
    pub language: Arc<Language>,
    decoder: Decoder,
    /// Whether no token with a text of its own has come yet.
    first: bool,
}

impl Text {
    /// Where the text is one of its own, not the rest of one, it `starts` without the space that some
    /// tokenizers put before a text.
    pub fn new(language: Arc<Language>, stop: &[String], starts: bool) -> Text {
        Text { language, decoder: Decoder::new(stop.to_vec()), first: starts }
    }
    /// The text that `id` makes certain.
    pub fn push(&mut self, id: TokenId) -> &str {
        let tokenizer = &self.language.tokenizer;
        if tokenizer.is_control(id.0) {
            return self.decoder.push_control(&tokenizer.token(id.0).unwrap_or_default());
        }
        let bytes = tokenizer.piece(id.0, self.first);
        // A lone mark of a space is shown too, though nothing may be left of it.
        self.first = self.first && tokenizer.piece(id.0, false).is_empty();
        self.decoder.push(&bytes)
    }
    /// The text before a token that is none itself, though a stop may name it.
    pub fn push_name(&mut self, name: &str) -> String {
        let mut text = self.decoder.push_control(name).to_owned();
        if !self.stopped() {
            text += self.decoder.finish();
        }
        text
    }
    /// The text that waited to be certain.
    pub fn rest(&mut self) -> &str {
        self.decoder.finish()
    }
    /// Whether a stop text came.
    pub fn stopped(&self) -> bool {
        self.stop().is_some()
    }
    /// The stop text that came.
    pub fn stop(&self) -> Option<&str> {
        self.decoder.stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Generation;
    use crate::language::NoTemplate;
    use rinfer_text::tokenizer::Tokenizer;
    use serde_json::{Value, json};

    const TOKENS: [&str; 8] = ["<s>", "▁", "▁x", "x", "", "▁▁x", "##y", "<0x20>"];

    /// What comes token by token is the text of all of them, whatever the decoder does to the first.
    fn check(decoder: &Value, ids: &[u32]) {
        let vocab: serde_json::Map<String, Value> =
            TOKENS.iter().enumerate().map(|(id, t)| ((*t).to_owned(), json!(id))).collect();
        let file = json!({
            "added_tokens": [{"id": 0, "content": "<s>", "special": true}], "decoder": decoder,
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        });
        let tokenizer = Tokenizer::from_json(file.to_string().as_bytes()).expect("a tokenizer");
        let language = Language::new(tokenizer, Err(NoTemplate::None), Generation::default());
        let mut text = Text::new(Arc::new(language), &[], true);
        let pieces: String = ids.iter().map(|id| text.push(TokenId(*id)).to_owned()).collect();
        let whole = text.language.tokenizer.decode(ids, true);
        assert_eq!(pieces, whole, "{ids:?} by {decoder}");
    }

    #[test]
    fn the_first_token_shown_is_first_once() {
        let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let fused = [replace, json!({"type": "ByteFallback"}), json!({"type": "Fuse"}), strip];
        let decoders = [
            json!({"type": "Sequence", "decoders": fused}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}),
            json!({"type": "WordPiece", "prefix": "##", "cleanup": false}),
        ];
        for decoder in &decoders {
            // A lone mark; what is not shown, before or between; a number that is no token.
            for ids in [&[1, 2][..], &[0, 1, 2], &[1, 0, 2, 3], &[99, 2], &[5, 1, 3], &[3, 99, 2]] {
                check(decoder, ids);
            }
        }
        // The space of a text is the first byte, whichever token it is in.
        check(&decoders[0], &[7, 2]);
        check(&decoders[0], &[4, 2]);
    }
}
