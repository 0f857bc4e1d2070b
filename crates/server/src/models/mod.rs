//! The models that are served, by name. One that is not loaded is brought when it is first asked for, and
//! those that nobody uses make room for it.
mod keep;
mod pool;
mod slot;
mod source;

pub use keep::Keep;
pub use source::{Brought, Failure, Makes, Offer, Plan, Source};

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
pub struct Models {
    pool: Arc<Pool>,
    /// How many there were at the start.
    given: usize,
    /// Whether there is a page on which there may be more.
    web: bool,
}

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
            None => {
                let (given, web) = (offers.len(), config.web);
                Ok(Models { pool: Arc::new(Pool::new(offers, config)), given, web })
            }
        }
    }
    /// Loads one now, rather than when it is first asked for.
    ///
    /// # Errors
    /// Why it can't be.
    pub fn load(&self, name: &str) -> Result<(), Failure> {
        let index = self.find(Some(name)).map_err(|refusal| Failure::told(refusal.message))?;
        self.pool.load(index)
    }
    /// The one of this name, loaded. Who names none means the only one. Dropping the future gives up.
    pub(crate) async fn acquire(
        &self,
        name: Option<&str>,
        keep: Option<Keep>,
    ) -> Result<Held, Refusal> {
        let index = self.find(name)?;
        let (loaded, using) = self.pool.acquire(index, keep).await?;
        let root = self.pool.offers()[index].names[0].clone();
        let name = name.unwrap_or(&root).to_owned();
        Ok(Held { name, root, model: loaded.model, gate: loaded.gate, using })
    }
    /// Unloads what was idle for as long as it is kept, for ever.
    pub(crate) async fn reap(&self) {
        self.pool.reap().await;
    }
    /// The first name of each, and how it is.
    pub(crate) fn states(&self) -> Vec<(String, State)> {
        let named = |(offer, state): (Arc<Offer>, State)| (offer.names[0].clone(), state);
        self.pool.states().into_iter().map(named).collect()
    }
    /// Offers one more, unless one of its names is another's: that is returned.
    pub(crate) fn add(&self, offer: Offer) -> Result<(), String> {
        self.pool.add(offer)
    }
    /// Whether there is one of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(Some(name)).is_ok()
    }
    /// One of this name, as it is offered.
    pub(crate) fn offer(&self, name: &str) -> Result<Arc<Offer>, Refusal> {
        Ok(self.pool.offers()[self.find(Some(name))?].clone())
    }
    /// Unloads one when nobody uses it any more, for which it waits; false if it still is used then.
    pub(crate) async fn unload(&self, name: &str, wait: Duration) -> Result<bool, Refusal> {
        Ok(self.pool.unload(self.find(Some(name))?, wait).await)
    }
    /// Writes what a loaded model keeps. Returns how many positions that are, if there is a place for them.
    pub(crate) fn save(&self, served: &Served) -> Result<Option<usize>, Refusal> {
        self.pool.save(self.find(Some(&served.name))?, &served.model)
    }
    /// Writes what all keep that are loaded.
    pub(crate) fn save_all(&self) {
        self.pool.save_all();
    }
    /// A model's own name.
    pub(crate) fn root(&self, name: &str) -> Result<String, Refusal> {
        Ok(self.offer(name)?.names[0].clone())
    }
    /// As who administers the server is shown them.
    pub(crate) fn report(&self) -> Vec<Value> {
        let seconds = |time: Duration| time.as_secs_f64();
        let one = |(offer, state): (Arc<Offer>, State)| {
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
        self.pool.states().into_iter().map(one).collect()
    }
    /// As the server's own page shows them.
    pub(crate) fn shown(&self) -> Vec<Value> {
        let one = |(offer, state): (Arc<Offer>, State)| {
            let defaults = state.sampling.map(|s| {
                json!({
                    "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k, "min_p": s.min_p,
                    "repeat_penalty": s.repeat_penalty, "presence_penalty": s.presence_penalty,
                    "frequency_penalty": s.frequency_penalty, "max_tokens": s.max_tokens,
                })
            });
            json!({
                "id": offer.names[0], "state": state.name, "context": state.context, "bytes": state.bytes,
                "answers": state.inside, "defaults": defaults, "sees": false,
            })
        };
        self.pool.states().into_iter().map(one).collect()
    }
    /// Bytes that loaded models may take together, and that those take which can't be unloaded now.
    pub(crate) fn used(&self) -> (Option<usize>, usize) {
        self.pool.used()
    }
    /// As both APIs list them: each under each of its names.
    pub(crate) fn cards(&self, created: u64) -> Vec<Value> {
        let each = |(offer, state): (Arc<Offer>, State)| {
            let cards = offer.names.iter().map(|name| card(name, &offer, &state, created));
            cards.collect::<Vec<_>>()
        };
        self.pool.states().into_iter().flat_map(each).collect()
    }
    /// As both APIs show one.
    pub(crate) fn card(&self, name: &str, created: u64) -> Result<Value, Refusal> {
        let index = self.find(Some(name))?;
        let (offer, state) = &self.pool.states()[index];
        Ok(card(name, offer, state, created))
    }
    fn find(&self, name: Option<&str>) -> Result<usize, Refusal> {
        let offers = self.pool.offers();
        if offers.is_empty() {
            let page = if self.web { "get one on its page, under Models, or " } else { "" };
            let text = format!(
                "there is no model here: {page}start the server with one, as rinfer serve MODEL"
            );
            return Err(Refusal::new(Kind::NotFound, text).code("model_not_found"));
        }
        let Some(name) = name else {
            // Whoever relies on the only one is not to notice that the page has got another.
            return match (offers.len(), self.given) {
                (1, _) | (_, 1) => Ok(0),
                _ => Err(Refusal::field(
                    "model",
                    format_args!("is missing: it is one of {}", names(&offers)),
                )),
            };
        };
        // Names are compared, never joined to a path.
        let found = offers.iter().position(|offer| offer.names.iter().any(|own| own == name));
        found.ok_or_else(|| {
            let text = format!("there is no model '{name}' here: there is {}", names(&offers));
            let refusal =
                Refusal { param: Some("model".into()), ..Refusal::new(Kind::NotFound, text) };
            refusal.code("model_not_found")
        })
    }
}

/// Their names, or as many as an error lists.
fn names(offers: &[Arc<Offer>]) -> String {
    let names = || offers.iter().flat_map(|offer| &offer.names);
    let listed: Vec<String> = names().take(LISTED).map(|name| format!("'{name}'")).collect();
    let more = names().count() - listed.len();
    let more =
        if more > 0 { format!(" and {more} more, which /v1/models lists") } else { String::new() };
    listed.join(", ") + &more
}

fn card(name: &str, offer: &Offer, state: &State, created: u64) -> Value {
    json!({
        "id": name, "object": "model", "created": created, "owned_by": "rinfer",
        "type": "model", "display_name": name, "created_at": crate::anthropic::date(created),
        "root": offer.names[0], "state": state.name, "context_length": state.context,
    })
}
