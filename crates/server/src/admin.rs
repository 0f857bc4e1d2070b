//! `/admin/…`: what is loaded and what is answered, and an end to both. There with `--admin`, for whoever
//! has a key.
use crate::app::{App, RequestId};
use crate::body;
use crate::fields::Fields;
use crate::refusal::{Dialect, Kind, Refusal};
use crate::request::json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::Response;
use axum::routing::{get, post};
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a model's answers may go on when it is to be unloaded.
const DRAIN: usize = 60;
/// How long those that were ended may take to be gone.
const END: Duration = Duration::from_secs(10);
/// How often those that are there are ended until then.
const AGAIN: Duration = Duration::from_millis(100);

/// The routes.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/admin/models", get(models))
        .route("/admin/models/load", post(load))
        .route("/admin/models/unload", post(unload))
        .route("/admin/models/save", post(save))
        .route("/admin/generations", get(generations))
        .route("/admin/generations/cancel", post(cancel))
}

/// Whether the routes are there.
pub fn admit(app: &App, path: &str) -> Result<(), Refusal> {
    if app.config.admin || !path.starts_with("/admin/") {
        return Ok(());
    }
    let text = "this server has no administration: start it with --admin and --api-key";
    Err(Refusal::new(Kind::Forbidden, text).code("admin_disabled"))
}

async fn models(State(app): State<Arc<App>>) -> Response<Body> {
    json(&object!({"models": app.models.report(), "memory": app.config.memory}))
}

async fn generations(State(app): State<Arc<App>>) -> Response<Body> {
    json(&object!({"generations": app.generations.list()}))
}

async fn load(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let name = only(&app, request, "model").await?;
        let served = app.models.acquire(Some(&name), None).await?;
        Ok(object!({"model": served.root, "state": "loaded"}))
    };
    told(&app, &id, done.await)
}

async fn unload(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let mut fields = fields(&app, request).await?;
        let name = needed(&mut fields, "model")?;
        let drain = fields.count("drain")?.unwrap_or(DRAIN);
        finish(fields)?;
        let drain = Duration::from_secs(drain as u64);
        let mut ended = 0;
        if !app.models.unload(&name, drain).await? {
            let deadline = Instant::now() + END;
            loop {
                // Requests that were being read when others were told to end have begun since.
                ended += app.generations.cancel_of(&app.models.root(&name)?);
                if app.models.unload(&name, AGAIN).await? {
                    break;
                }
                if Instant::now() > deadline {
                    let text = format!("'{name}' is still used: its answers were told to end");
                    return Err(Refusal::new(Kind::Failed, text).code("model_in_use"));
                }
            }
        }
        Ok(object!({"model": app.models.root(&name)?, "state": "unloaded", "cancelled": ended}))
    };
    told(&app, &id, done.await)
}

async fn save(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let name = only(&app, request, "model").await?;
        let served = app.models.acquire(Some(&name), None).await?.writer()?;
        let (models, model) = (app.clone(), served.root.clone());
        let saved = tokio::task::spawn_blocking(move || models.models.save(&served));
        match saved.await.map_err(|_| Refusal::panicked("save"))?? {
            Some(positions) => Ok(object!({"model": model, "positions": positions})),
            None => {
                let text =
                    "there is no place for what models keep: start the server with --sessions";
                Err(Refusal::new(Kind::Invalid, text).code("no_sessions"))
            }
        }
    };
    told(&app, &id, done.await)
}

async fn cancel(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let other = only(&app, request, "id").await?;
        match app.generations.cancel(&other) {
            true => Ok(object!({"id": other, "cancelled": true})),
            false => {
                let text = format!(
                    "no request '{other}' is answered now: /admin/generations lists those that are"
                );
                Err(Refusal { param: Some("id".into()), ..Refusal::new(Kind::NotFound, text) })
            }
        }
    };
    told(&app, &id, done.await)
}

/// The one field of a request that has no other.
pub async fn only(app: &App, request: Request, name: &str) -> Result<String, Refusal> {
    let mut fields = fields(app, request).await?;
    let text = needed(&mut fields, name)?;
    finish(fields)?;
    Ok(text)
}

async fn fields(app: &App, request: Request) -> Result<Fields, Refusal> {
    let (parts, body) = request.into_parts();
    Ok(Fields::new(body::object(&app.config, &parts.headers, body).await?))
}

fn needed(fields: &mut Fields, name: &str) -> Result<String, Refusal> {
    let text = fields.text(name)?;
    fields.needed(name, text)
}

/// What an administrator says is meant: nothing of it is ignored.
fn finish(fields: Fields) -> Result<(), Refusal> {
    let mut unknown = Vec::new();
    fields.finish(&[], &mut unknown)?;
    match unknown.into_iter().next() {
        None => Ok(()),
        Some(name) => {
            Err(Refusal::field(name, "is not a field of this route").code("unknown_parameter"))
        }
    }
}

pub fn told(app: &App, id: &RequestId, done: Result<Value, Refusal>) -> Response<Body> {
    match done {
        Ok(value) => json(&value),
        Err(refusal) => {
            app.note(id, &refusal);
            refusal.response(Dialect::OpenAi)
        }
    }
}
