//! What the engine is asked, and what it answers.
use crate::batch::TokenId;
use crate::sample::{Sampling, SamplingError};
use rinfer_grammar::{Constraint, GrammarError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A prompt, and how to go on from it.
pub struct Request {
    /// At least one token, fewer than the context holds.
    pub prompt: Vec<TokenId>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tokens that end the answer and are not part of it.
    pub end: Arc<[TokenId]>,
    /// Restricts the answer.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Ends the answer after a token for which it returns true, before another is computed: how
    /// texts end answers.
    pub until: Option<Box<dyn FnMut(TokenId) -> bool + Send>>,
    /// Reports log-probabilities: of the chosen token and of this many most probable ones.
    pub logprobs: Option<usize>,
}

/// What happened to a request. `Done` or `Failed` comes last.
#[derive(Debug)]
pub enum Event {
    /// The request has a slot; so many tokens of its prompt need no computing.
    Started {
        /// Of the prompt, computed by other requests.
        cached: usize,
    },
    /// The next token of the answer.
    Token(Chosen),
    /// The answer is over.
    Done(Finish, Usage),
    /// There will be no more.
    Failed(RequestError),
}

/// A token of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The token.
    pub id: TokenId,
    /// Its log-probability, if asked for; see [`Logprobs`](crate::sample::Logprobs).
    pub logprob: Option<f32>,
    /// The most probable tokens and theirs, if asked for.
    pub top: Vec<(TokenId, f32)>,
}

/// Why an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it, or a stop text did.
    Stop,
    /// `max_tokens` or the context's end was reached.
    Length,
    /// Whoever asked left.
    Cancelled,
}

/// Tokens counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: usize,
    /// Of the prompt, computed by other requests.
    pub cached: usize,
    /// Of the answer.
    pub generated: usize,
}

/// Why a request was refused or failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A text to be embedded or ranked is longer than the context.
    #[error(
        "input {input} has {found} tokens, and at most {most} are read: shorten it, ask for it to be \
         cut (truncate), or load the model with a larger context"
    )]
    InputTooLong {
        /// Its place among the inputs.
        input: usize,
        /// Tokens, those that the model adds among them.
        found: usize,
        /// The context.
        most: usize,
    },
    /// An input that can't be embedded.
    #[error("input {input}: {found} {problem}")]
    Input {
        /// Its place among the inputs.
        input: usize,
        /// What of it.
        found: String,
        /// Why not.
        problem: String,
    },
    /// There is nothing to go on from.
    #[error("the prompt is empty: give at least one token")]
    EmptyPrompt,
    /// It leaves no room for an answer. Prompts are never cut.
    #[error(
        "the prompt has {prompt} tokens, which leaves no room in a context of {context}: \
         shorten it, or load the model with a larger context"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that a sequence may have.
        context: usize,
    },
    /// The prompt has a token that the vocabulary has not.
    #[error("the prompt has token id {id}: the vocabulary has ids below {vocab}")]
    UnknownToken {
        /// The token.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A sampling option is out of its range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// No token was left to choose.
    #[error(
        "no token can come next: the bias or the constraint excludes all, or the logits are not numbers"
    )]
    NoToken,
    /// The grammar of the answer can't be used, or followed further.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// Every position is taken by this one sequence.
    #[error("the state has no room for {0} positions: load the model with more")]
    NoRoom(usize),
    /// Whoever asked left.
    #[error("the request was cancelled")]
    Cancelled,
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(String),
    /// A fault of this library.
    #[error("a fault of rinfer ended the answer, and others are not touched by it: {0}")]
    Panicked(String),
    /// The engine's thread has ended.
    #[error("the engine has stopped: load the model again")]
    Stopped,
}

/// The events of one request, in order. Dropping it cancels the request.
pub struct Events {
    events: Receiver<Event>,
    cancel: Cancel,
    progress: Progress,
    over: bool,
}

/// Cancels a request, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the request before its next token, its prompt's next chunk, or its next texts' vectors.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Whether it was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// For what is not told to anybody then.
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        if self.is_cancelled() { Err(RequestError::Cancelled) } else { Ok(()) }
    }
}

/// How far a request is, as any thread may ask.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicUsize>);

impl Progress {
    /// Tokens of prompt and answer of which the state is computed.
    pub fn tokens(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Events {
    /// What cancels this request.
    pub fn canceller(&self) -> Cancel {
        self.cancel.clone()
    }
    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl Iterator for Events {
    type Item = Event;

    /// Waits for the next event.
    fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        let event = self.events.recv().unwrap_or(Event::Failed(RequestError::Stopped));
        self.over = matches!(event, Event::Done(..) | Event::Failed(_));
        Some(event)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// The engine's end of a request's events.
pub(crate) struct Sink {
    events: Sender<Event>,
    cancel: Cancel,
    progress: Progress,
}

impl Sink {
    pub(crate) fn new() -> (Sink, Events) {
        let (sender, receiver) = channel();
        let (cancel, progress) = (Cancel::default(), Progress::default());
        let sink = Sink { events: sender, cancel: cancel.clone(), progress: progress.clone() };
        (sink, Events { events: receiver, cancel, progress, over: false })
    }
    pub(crate) fn send(&self, event: Event) {
        // Whoever left has also cancelled, which the next step finds.
        let _ = self.events.send(event);
    }
    /// So many tokens are computed.
    pub(crate) fn computed(&self, tokens: usize) {
        self.progress.0.store(tokens, Ordering::Relaxed);
    }
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}
