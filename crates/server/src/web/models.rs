//! What the page shows of models, and how it has one loaded and unloaded.
use super::hub;
use crate::admin;
use crate::app::{App, RequestId};
use crate::models::{Failure, Makes, Offer, Plan};
use crate::refusal::{Kind, Refusal};
use crate::request::json;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::Response;
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::Duration;

/// How long answers of a model that is to be unloaded may go on.
const DRAIN: Duration = Duration::from_secs(2);

pub async fn list(State(app): State<Arc<App>>) -> Response<Body> {
    let reader = app.clone();
    let caches = tokio::task::spawn_blocking(move || {
        let unfinished = hub::open(&reader).map_or_else(|_| Vec::new(), |hub| hub.unfinished());
        let part = |(name, bytes)| object!({"name": name, "bytes": bytes});
        (fetched(&reader), unfinished.into_iter().map(part).collect::<Vec<_>>())
    });
    let (here, unfinished) = caches.await.unwrap_or_default();
    let here: Vec<&String> = here.iter().map(|offer| &offer.names[0]).collect();
    let (memory, used) = app.models.used();
    json(&object!({
        "models": app.models.shown(), "here": here, "memory": memory, "used": used, "hub": about(&app),
        "pulls": app.pulls.shown(), "unfinished": unfinished,
    }))
}

/// Where models can be had, and what to begin with, or why not here.
fn about(app: &App) -> Value {
    match hub::open(app) {
        Ok(hub) => {
            let suggested = hub.suggested();
            object!({"place": hub.place(), "closed": hub.closed(), "suggested": suggested})
        }
        Err(why) => object!({"closed": why, "suggested": []}),
    }
}

/// What was fetched and is not served yet.
fn fetched(app: &App) -> Vec<Offer> {
    let Ok(hub) = hub::open(app) else { return Vec::new() };
    let new = |offer: &Offer| !app.models.has(&offer.names[0]);
    hub.here().into_iter().filter(new).collect()
}

/// Serves a model that was fetched; false if there is none of this name.
pub fn offer(app: &App, name: &str) -> bool {
    let found = fetched(app).into_iter().find(|offer| offer.names[0] == name);
    // Who was quicker has offered it.
    found.is_some_and(|offer| app.models.add(offer).is_ok()) || app.models.has(name)
}

/// The name in a request, of a model that is served from now on if it is here at all.
async fn named(app: &Arc<App>, request: Request) -> Result<String, Refusal> {
    let name = admin::only(app, request, "model").await?;
    if !app.models.has(&name) {
        let (app, name) = (app.clone(), name.clone());
        let offered = tokio::task::spawn_blocking(move || offer(&app, &name)).await;
        offered.map_err(|_| Refusal::panicked("cache"))?;
    }
    Ok(name)
}

pub async fn load(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let name = named(&app, request).await?;
        let served = app.models.acquire(Some(&name), None).await?;
        Ok(object!({"model": served.root, "state": "loaded"}))
    };
    admin::told(&app, &id, done.await)
}

pub async fn unload(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let name = named(&app, request).await?;
        if app.models.unload(&name, DRAIN).await? {
            return Ok(object!({"model": name, "state": "unloaded"}));
        }
        let text = format!("'{name}' is writing answers: stop them first");
        Err(Refusal::new(Kind::Invalid, text).code("model_in_use"))
    };
    admin::told(&app, &id, done.await)
}

/// What a model takes of memory, from its files' headers.
pub async fn plan(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let name = admin::only(&app, request, "model").await?;
        let reader = app.clone();
        let planned = tokio::task::spawn_blocking(move || {
            let new = fetched(&reader).into_iter().find(|offer| offer.names[0] == name);
            let source = match new {
                Some(offer) => offer.source,
                None => reader.models.offer(&name)?.source.clone(),
            };
            let refused = |failure: Failure| {
                Refusal::new(Kind::Invalid, failure.told).code("model_not_loadable")
            };
            source.plan().map(|plan| shown(&plan)).map_err(refused)
        });
        planned.await.map_err(|_| Refusal::panicked("plan"))?
    };
    admin::told(&app, &id, done.await)
}

fn shown(plan: &Plan) -> Value {
    let makes = match plan.makes {
        Makes::Texts => "texts",
        Makes::Vectors => "vectors",
        Makes::Scores => "scores",
    };
    object!({
        "weights": plan.weights, "state": plan.state, "scratch": plan.scratch, "total": plan.total(),
        "context": plan.context, "positions": plan.positions, "answers": plan.answers,
        "makes": makes,
    })
}
