//! What the page shows of models, and how it has them loaded and unloaded.
use crate::app::App;
use crate::body;
use crate::fields::Fields;
use crate::refusal::{Dialect, Kind, Refusal};
use crate::request::json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::Duration;

/// How long answers of a model that is to be unloaded may go on.
const DRAIN: Duration = Duration::from_secs(2);

pub async fn list(State(app): State<Arc<App>>) -> Response<Body> {
    // What a model takes is read from its files' headers.
    let reader = app.clone();
    let models = tokio::task::spawn_blocking(move || reader.models.shown()).await;
    json(&object!({"models": models.unwrap_or_default(), "memory": app.config.memory}))
}

pub async fn load(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let done = async {
        let name = named(&app, request).await?;
        let served = app.models.acquire(Some(&name), None).await?;
        Ok(object!({"model": served.name, "state": "loaded"}))
    };
    told(done.await)
}

pub async fn unload(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let done = async {
        let name = named(&app, request).await?;
        if app.models.unload(&name, DRAIN).await? {
            return Ok(object!({"model": name, "state": "unloaded"}));
        }
        let text = format!("'{name}' is writing answers: stop them first");
        Err(Refusal::new(Kind::Invalid, text).code("model_in_use"))
    };
    told(done.await)
}

async fn named(app: &App, request: Request) -> Result<String, Refusal> {
    let (parts, body) = request.into_parts();
    let mut fields = Fields::new(body::object(&app.config, &parts.headers, body).await?);
    let name = fields.text("model")?;
    fields.needed("model", name)
}

fn told(done: Result<Value, Refusal>) -> Response<Body> {
    match done {
        Ok(value) => json(&value),
        Err(refusal) => refusal.response(Dialect::OpenAi),
    }
}
