//! Where a model comes from when it is asked for.
use crate::refusal::{Kind, Refusal};
use rinfer_engine::embed::{Embedder, Reranker};
use rinfer_engine::model::Model;
use rinfer_engine::sample::Sampling;
use std::sync::Arc;

/// What can be loaded, any number of times.
pub trait Source: Send + Sync {
    /// What the model takes of memory once it is loaded, from its files' headers.
    ///
    /// # Errors
    /// Why that can't be known: then it can't be loaded, either.
    fn plan(&self) -> Result<Plan, Failure>;
    /// Loads it.
    ///
    /// # Errors
    /// Why it can't be.
    fn load(&self) -> Result<Brought, Failure>;
    /// Writes what the model keeps of requests to where [`Source::load`] finds it, when it is unloaded and at
    /// the server's end. Returns how many positions that are; none if there is no such place.
    ///
    /// # Errors
    /// Why it can't be written.
    fn save(&self, model: &Model) -> Result<Option<usize>, Failure> {
        let _ = model;
        Ok(None)
    }
}

/// What a model takes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of its weights, as many as are in memory at once.
    pub weights: usize,
    /// Bytes of what it keeps of all answers' tokens.
    pub state: usize,
    /// Bytes of what is computed on the way.
    pub scratch: usize,
    /// Tokens of a text at most.
    pub context: usize,
    /// Tokens of all answers that are written at once, together.
    pub positions: usize,
    /// How many those are.
    pub answers: usize,
    /// What it is for.
    pub makes: Makes,
}

/// What a model makes of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Makes {
    /// More of them.
    #[default]
    Texts,
    /// Vectors.
    Vectors,
    /// Scores of pairs.
    Scores,
}

impl Plan {
    /// Bytes of all.
    pub fn total(&self) -> usize {
        self.weights + self.state + self.scratch
    }
}

/// A model that is loaded, by what it is for.
#[derive(Clone)]
pub enum Brought {
    /// It writes texts; and what a request that says nothing is answered with.
    Writer(Model, Sampling),
    /// It makes vectors of texts.
    Embedder(Embedder),
    /// It scores pairs of texts.
    Reranker(Reranker),
}

impl Brought {
    /// What keeps what requests computed.
    pub(crate) fn writer(&self) -> Option<&Model> {
        match self {
            Brought::Writer(model, _) => Some(model),
            Brought::Embedder(_) | Brought::Reranker(_) => None,
        }
    }
    /// Tokens of a text at most.
    pub(crate) fn context(&self) -> usize {
        match self {
            Brought::Writer(model, _) => model.limits().context,
            Brought::Embedder(embedder) => embedder.context(),
            Brought::Reranker(reranker) => reranker.context(),
        }
    }
    /// Requests that are answered at once.
    pub(crate) fn places(&self) -> usize {
        match self {
            Brought::Writer(model, _) => model.limits().slots,
            // A pass is one request's.
            Brought::Embedder(_) | Brought::Reranker(_) => 1,
        }
    }
    /// That the model called `name` is for other routes than the one that was asked.
    pub(crate) fn unfit(&self, name: &str) -> Refusal {
        let (does, routes) = match self {
            Brought::Writer(..) => ("writes texts", "/v1/chat/completions and its like"),
            Brought::Embedder(_) => ("makes vectors of texts", "/v1/embeddings"),
            Brought::Reranker(_) => ("scores pairs of texts", "/v1/rerank"),
        };
        let text = format!("model: '{name}' {does}: ask {routes}, or another model");
        let refusal = Refusal::new(Kind::Invalid, text).code("model_not_supported");
        Refusal { param: Some("model".into()), ..refusal }
    }
}

/// Why a model can't be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What requests are told: without paths.
    pub told: String,
    /// The whole of it, for the log.
    pub whole: String,
}

impl Failure {
    /// One that has no secrets.
    pub fn told(text: impl Into<String>) -> Failure {
        let told = text.into();
        Failure { whole: told.clone(), told }
    }
}

/// A model that is offered.
pub struct Offer {
    /// What requests may call it; the first is its own.
    pub(crate) names: Vec<String>,
    pub(crate) source: Arc<dyn Source>,
    /// Answers that may wait for their turn.
    pub(crate) queue: usize,
}

impl Offer {
    /// Under names, at least one and its own first, with a queue of so many answers.
    pub fn new(names: Vec<String>, source: impl Source + 'static, queue: usize) -> Offer {
        Offer { names, source: Arc::new(source), queue }
    }
    /// Of a model that is loaded already, and stays.
    pub fn ready(name: String, model: Model, sampling: Sampling, queue: usize) -> Offer {
        Offer::brought(name, Brought::Writer(model, sampling), queue)
    }
    /// The same of any.
    pub fn brought(name: String, model: Brought, queue: usize) -> Offer {
        Offer::new(vec![name], Ready(model), queue)
    }
}

struct Ready(Brought);

impl Source for Ready {
    fn plan(&self) -> Result<Plan, Failure> {
        let makes = match self.0 {
            Brought::Writer(..) => Makes::Texts,
            Brought::Embedder(_) => Makes::Vectors,
            Brought::Reranker(_) => Makes::Scores,
        };
        Ok(Plan { makes, ..Plan::default() })
    }
    fn load(&self) -> Result<Brought, Failure> {
        Ok(self.0.clone())
    }
}
