//! What the page shows of models, and how it has one unloaded; to load one is what an administrator does.
use crate::admin;
use crate::app::{App, RequestId};
use crate::refusal::{Kind, Refusal};
use crate::request::json;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::Response;
use serde_json::json as object;
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

pub async fn unload(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let mut fields = admin::fields(&app, request).await?;
        let name = admin::needed(&mut fields, "model")?;
        admin::finish(fields)?;
        if app.models.unload(&name, DRAIN).await? {
            return Ok(object!({"model": name, "state": "unloaded"}));
        }
        let text = format!("'{name}' is writing answers: stop them first");
        Err(Refusal::new(Kind::Invalid, text).code("model_in_use"))
    };
    admin::told(&app, &id, done.await)
}
