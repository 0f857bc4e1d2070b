//! The models that are served, by name. One that is not loaded is brought when it is first asked for, and
//! those that nobody uses make room for it.
mod keep;
mod pool;
mod slot;
mod source;

pub use keep::Keep;
pub use source::{Brought, Failure, Offer, Source};

use crate::config::Config;
use crate::gate::Gate;
use crate::refusal::{Kind, Refusal};
use pool::{Pool, Using};
use rinfer_engine::model::Model;
use rinfer_engine::sample::Sampling;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Names that an error lists.
const LISTED: usize = 20;

/// A model that writes texts, as a request uses it: it stays loaded as long as this lives.
pub struct Served {
    /// What the request calls it.
    pub name: String,
    /// Its own name.
    pub(crate) root: String,
    /// The model.
    pub model: Model,
    /// What a request that says nothing is answered with.
    pub sampling: Sampling,
    pub(crate) gate: Gate,
    /// Given back last, when nothing here holds the model any more.
    _using: Using,
}

/// The same of any model.
pub struct Held {
    /// What the request calls it.
    pub name: String,
    /// Its own name.
    pub root: String,
    /// The model.
    pub model: Brought,
    pub(crate) gate: Gate,
    using: Using,
}

impl Held {
    /// As one that writes texts.
    pub(crate) fn writer(self) -> Result<Arc<Served>, Refusal> {
        let Held { name, root, model, gate, using } = self;
        match model {
            Brought::Writer(model, sampling) => {
                Ok(Arc::new(Served { name, root, model, sampling, gate, _using: using }))
            }
            other => Err(other.unfit(&name)),
        }
    }
}

/// All of them.
pub struct Models(Arc<Pool>);

/// Whether a model is loaded, and what it has if it is.
pub(crate) struct State {
    pub name: &'static str,
    pub context: Option<usize>,
    /// What requests that say nothing are answered with.
    pub sampling: Option<Sampling>,
    /// Bytes that it takes, or is about to.
    pub bytes: usize,
    /// Answers under way or waiting.
    pub inside: usize,
    /// Positions that are kept for later requests, and that there are in all.
    pub kept: usize,
    pub positions: usize,
    /// Requests that use it.
    pub users: usize,
    /// Since the last of them, if there is none.
    pub idle: Option<Duration>,
    pub keep: Option<Keep>,
}

impl Models {
    /// Each with names of its own. `config` says how much memory they may take together, and how long.
    ///
    /// # Errors
    /// The name that is given twice.
    pub fn new(offers: Vec<Offer>, config: &Config) -> Result<Models, String> {
        let names: Vec<&String> = offers.iter().flat_map(|offer| &offer.names).collect();
        let twice = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name));
        match twice {
            Some((_, name)) => Err((*name).clone()),
            None => Ok(Models(Arc::new(Pool::new(offers, config)))),
        }
    }
    /// Loads one now, rather than when it is first asked for.
    ///
    /// # Errors
    /// Why it can't be.
    pub fn load(&self, name: &str) -> Result<(), Failure> {
        let index = self.find(Some(name)).map_err(|refusal| Failure::told(refusal.message))?;
        self.0.load(index)
    }
    /// The one of this name, loaded. Who names none means the only one. Dropping the future gives up.
    pub(crate) async fn acquire(
        &self,
        name: Option<&str>,
        keep: Option<Keep>,
    ) -> Result<Held, Refusal> {
        let index = self.find(name)?;
        let (loaded, using) = self.0.acquire(index, keep).await?;
        let root = self.0.offers()[index].names[0].clone();
        let name = name.unwrap_or(&root).to_owned();
        Ok(Held { name, root, model: loaded.model, gate: loaded.gate, using })
    }
    /// Unloads what was idle for as long as it is kept, for ever.
    pub(crate) async fn reap(&self) {
        self.0.reap().await;
    }
    /// The first name of each, and how it is.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, State)> {
        self.0.offers().iter().zip(self.0.states()).map(|(offer, state)| (&*offer.names[0], state))
    }
    /// Unloads one when nobody uses it any more, for which it waits; false if it still is used then.
    pub(crate) async fn unload(&self, name: &str, wait: Duration) -> Result<bool, Refusal> {
        Ok(self.0.unload(self.find(Some(name))?, wait).await)
    }
    /// Writes what a loaded model keeps. Returns how many positions that are, if there is a place for them.
    pub(crate) fn save(&self, served: &Served) -> Result<Option<usize>, Refusal> {
        self.0.save(self.find(Some(&served.name))?, &served.model)
    }
    /// Writes what all keep that are loaded.
    pub(crate) fn save_all(&self) {
        self.0.save_all();
    }
    /// A model's own name.
    pub(crate) fn root(&self, name: &str) -> Result<&str, Refusal> {
        Ok(&self.0.offers()[self.find(Some(name))?].names[0])
    }
    /// As who administers the server is shown them.
    pub(crate) fn report(&self) -> Vec<Value> {
        let seconds = |time: Duration| time.as_secs_f64();
        let one = |(offer, state): (&Offer, State)| {
            let keep = match state.keep {
                Some(Keep::For(time)) => json!(seconds(time)),
                Some(Keep::Forever) => json!(-1),
                None => Value::Null,
            };
            json!({
                "id": offer.names[0], "aliases": offer.names[1..], "state": state.name,
                "bytes": state.bytes, "context_length": state.context, "requests": state.users,
                "answers": state.inside, "idle_seconds": state.idle.map(seconds), "keep_alive": keep,
            })
        };
        self.0.offers().iter().zip(self.0.states()).map(one).collect()
    }
    /// As the server's own page shows them. Files of those that are not loaded are opened for what they take.
    pub(crate) fn shown(&self) -> Vec<Value> {
        let one = |(offer, state): (&Offer, State)| {
            let bytes = if state.bytes > 0 { Ok(state.bytes) } else { offer.source.bytes() };
            let (bytes, problem) = match bytes {
                Ok(bytes) => (Some(bytes), None),
                Err(failure) => (None, Some(failure.told)),
            };
            let defaults = state.sampling.map(|s| {
                json!({
                    "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k, "min_p": s.min_p,
                    "repeat_penalty": s.repeat_penalty, "presence_penalty": s.presence_penalty,
                    "frequency_penalty": s.frequency_penalty, "max_tokens": s.max_tokens,
                })
            });
            json!({
                "id": offer.names[0], "state": state.name, "context": state.context, "bytes": bytes,
                "problem": problem, "defaults": defaults, "sees": false,
            })
        };
        self.0.offers().iter().zip(self.0.states()).map(one).collect()
    }
    /// As both APIs list them: each under each of its names.
    pub(crate) fn cards(&self, created: u64) -> Vec<Value> {
        let all = self.0.offers().iter().zip(self.0.states());
        let cards = all.flat_map(|(offer, state)| {
            offer.names.iter().map(move |name| card(name, offer, &state, created))
        });
        cards.collect()
    }
    /// As both APIs show one.
    pub(crate) fn card(&self, name: &str, created: u64) -> Result<Value, Refusal> {
        let index = self.find(Some(name))?;
        let states = self.0.states();
        Ok(card(name, &self.0.offers()[index], &states[index], created))
    }
    fn find(&self, name: Option<&str>) -> Result<usize, Refusal> {
        let offers = self.0.offers();
        let Some(name) = name else {
            return match offers {
                [_] => Ok(0),
                _ => Err(Refusal::field(
                    "model",
                    format_args!("is missing: it is one of {}", self.names()),
                )),
            };
        };
        // Names are compared, never joined to a path.
        let found = offers.iter().position(|offer| offer.names.iter().any(|own| own == name));
        found.ok_or_else(|| {
            let text = format!("there is no model '{name}' here: there is {}", self.names());
            let refusal =
                Refusal { param: Some("model".into()), ..Refusal::new(Kind::NotFound, text) };
            refusal.code("model_not_found")
        })
    }
    fn names(&self) -> String {
        let names = || self.0.offers().iter().flat_map(|offer| &offer.names);
        let listed: Vec<String> = names().take(LISTED).map(|name| format!("'{name}'")).collect();
        let more = names().count() - listed.len();
        let more = if more > 0 {
            format!(" and {more} more, which /v1/models lists")
        } else {
            String::new()
        };
        listed.join(", ") + &more
    }
}

fn card(name: &str, offer: &Offer, state: &State, created: u64) -> Value {
    json!({
        "id": name, "object": "model", "created": created, "owned_by": "rinfer",
        "type": "model", "display_name": name, "created_at": crate::anthropic::date(created),
        "root": offer.names[0], "state": state.name, "context_length": state.context,
    })
}
