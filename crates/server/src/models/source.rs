//! Where a model comes from when it is asked for.
use rinfer_engine::model::Model;
use rinfer_engine::sample::Sampling;
use std::sync::Arc;

/// What can be loaded, any number of times.
pub trait Source: Send + Sync {
    /// Bytes of memory that the model takes once it is loaded, from its files' headers.
    ///
    /// # Errors
    /// Why that can't be known: then it can't be loaded, either.
    fn bytes(&self) -> Result<usize, Failure>;
    /// Loads it, and says what a request that says nothing is answered with.
    ///
    /// # Errors
    /// Why it can't be.
    fn load(&self) -> Result<(Model, Sampling), Failure>;
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
        Offer::new(vec![name], Ready { model, sampling }, queue)
    }
}

struct Ready {
    model: Model,
    sampling: Sampling,
}

impl Source for Ready {
    fn bytes(&self) -> Result<usize, Failure> {
        Ok(0)
    }
    fn load(&self) -> Result<(Model, Sampling), Failure> {
        Ok((self.model.clone(), self.sampling.clone()))
    }
}
