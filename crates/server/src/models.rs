//! The models that are served, by name.
use crate::gate::Gate;
use crate::refusal::{Kind, Refusal};
use rinfer_engine::model::Model;
use rinfer_engine::sample::Sampling;
use serde_json::{Value, json};
use std::sync::Arc;

/// A model that is served.
pub struct Served {
    /// What requests call it.
    pub name: String,
    /// The model.
    pub model: Model,
    /// What a request that says nothing is answered with.
    pub sampling: Sampling,
    pub(crate) gate: Gate,
}

impl Served {
    /// Under a name, with a queue of so many requests.
    pub fn new(name: String, model: Model, sampling: Sampling, queue: usize) -> Served {
        let gate = Gate::new(model.limits().slots, queue);
        Served { name, model, sampling, gate }
    }
    /// As both APIs list it.
    pub(crate) fn card(&self, created: u64) -> Value {
        json!({
            "id": self.name, "object": "model", "created": created, "owned_by": "rinfer",
            "type": "model", "display_name": self.name, "created_at": crate::anthropic::date(created),
            "context_length": self.model.limits().context,
        })
    }
}

/// All of them.
pub struct Models(Vec<Arc<Served>>);

impl Models {
    /// At least one, each with a name of its own.
    ///
    /// # Errors
    /// The name that is given twice.
    pub fn new(all: Vec<Served>) -> Result<Models, String> {
        let twice =
            |(i, one): (usize, &Served)| all[..i].iter().any(|other| other.name == one.name);
        match all.iter().enumerate().find(|pair| twice(*pair)) {
            Some((_, served)) => Err(served.name.clone()),
            None => Ok(Models(all.into_iter().map(Arc::new).collect())),
        }
    }
    pub(crate) fn all(&self) -> &[Arc<Served>] {
        &self.0
    }
    /// The one of this name. Who names none means the only one.
    pub(crate) fn get(&self, name: Option<&str>) -> Result<&Arc<Served>, Refusal> {
        match (name, &self.0[..]) {
            (None, [only]) => Ok(only),
            (None, _) => Err(Refusal::field(
                "model",
                format_args!("is missing: it is one of {}", self.names()),
            )),
            (Some(name), all) => all.iter().find(|served| served.name == name).ok_or_else(|| {
                let text = format!("there is no model '{name}' here: there is {}", self.names());
                let refusal =
                    Refusal { param: Some("model".into()), ..Refusal::new(Kind::NotFound, text) };
                refusal.code("model_not_found")
            }),
        }
    }
    fn names(&self) -> String {
        self.0.iter().map(|served| format!("'{}'", served.name)).collect::<Vec<_>>().join(", ")
    }
}
