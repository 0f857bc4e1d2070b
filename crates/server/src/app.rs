//! The routes, and what they share.
use crate::config::Config;
use crate::fields::Spec;
use crate::generations::Generations;
use crate::hub::Pulls;
use crate::meters::Meters;
use crate::models::Models;
use crate::openai::responses::Store;
use crate::refusal::{Dialect, Kind, Refusal};
use crate::request::{self, Read, json};
use crate::serve::Stop;
use crate::{admin, anthropic, guard, openai, openapi, rerank, tokens, web};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use serde_json::{Value, json as object};
use std::sync::Arc;

/// What every request may use.
pub struct App {
    pub config: Config,
    pub models: Models,
    pub stop: Stop,
    pub meters: Meters,
    /// What responses may go on from.
    pub store: Arc<Store>,
    /// What is answered now.
    pub generations: Arc<Generations>,
    /// What the page has fetched.
    pub pulls: Pulls,
    pub started: u64,
}

/// What a request is called, in its response's header of that name and in the log.
#[derive(Clone)]
pub struct RequestId(pub String);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

impl App {
    /// Writes about what went wrong here, rather than with whoever asked.
    pub fn note(&self, id: &RequestId, refusal: &Refusal) {
        if refusal.kind == Kind::Failed {
            (self.config.log)(&format!("error: {}: {refusal}", id.0));
        }
    }
}

/// Routes that take an object.
pub const POSTS: &[(&str, Read, &Spec)] = &[
    ("/v1/chat/completions", Read::Writer(openai::chat::read), &openai::chat::SPEC),
    ("/v1/completions", Read::Writer(openai::completions::read), &openai::completions::SPEC),
    ("/v1/responses", Read::Writer(openai::responses::read), &openai::responses::SPEC),
    ("/v1/embeddings", Read::Once(openai::embeddings::read), &openai::embeddings::SPEC),
    ("/v1/rerank", Read::Once(rerank::read), &rerank::SPEC),
    ("/v1/messages", Read::Writer(anthropic::messages::read), &anthropic::messages::SPEC),
    ("/v1/messages/count_tokens", Read::Writer(anthropic::count::read), &anthropic::count::SPEC),
    ("/tokenize", Read::Writer(tokens::tokenize), &tokens::TOKENIZE),
    ("/detokenize", Read::Writer(tokens::detokenize), &tokens::DETOKENIZE),
    ("/apply-template", Read::Writer(tokens::apply_template), &tokens::APPLY_TEMPLATE),
];

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(document))
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model));
    for (path, read, _) in POSTS {
        router = router.route(path, posted(*read));
    }
    if app.config.web {
        router = router.merge(web::router());
    }
    router
        .merge(admin::router())
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(app.clone(), around))
        .with_state(app)
}

fn posted(read: Read) -> MethodRouter<Arc<App>> {
    post(move |State(app): State<Arc<App>>, request: Request| request::answer(app, request, read))
}

/// Around every request: who asks, what a browser is told, and what is noted.
async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let id = app.config.name("req_");
    parts.extensions.insert(RequestId(id.clone()));
    let dialect = Dialect::of(parts.uri.path());
    let allowed = guard::headers(&app.config, &parts.headers);
    let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
    let mut response = match guard::admit(&app.config, &parts)
        .and_then(|()| admin::admit(&app, parts.uri.path()))
        .and_then(|()| web::admit(&parts.headers, parts.uri.path()))
    {
        Err(refusal) => refusal.response(dialect),
        Ok(()) if method == Method::OPTIONS => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
    };
    response.headers_mut().extend(allowed);
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    app.meters.responded(response.status());
    (app.config.log)(&format!("{id} {method} {path} {}", response.status().as_u16()));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

async fn health() -> Response<Body> {
    json(&object!({"status": "ok"}))
}

async fn metrics(State(app): State<Arc<App>>) -> Response<Body> {
    let mut response = Response::new(Body::from(app.meters.text(&app.models)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn document() -> Response<Body> {
    json(&openapi::document())
}

async fn models(State(app): State<Arc<App>>) -> Response<Body> {
    let all = app.models.cards(app.started);
    let name = |served: Option<&Value>| served.map_or(Value::Null, |card| card["id"].clone());
    json(&object!({
        "object": "list", "data": all, "has_more": false,
        "first_id": name(all.first()), "last_id": name(all.last()),
    }))
}

async fn model(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response<Body> {
    match app.models.card(&id, app.started) {
        Ok(card) => json(&card),
        Err(refusal) => refusal.response(Dialect::OpenAi),
    }
}

async fn unknown(request: Request) -> Response<Body> {
    let path = request.uri().path();
    let meant = format!("/v1{path}");
    let instead = match path {
        "/" => "the page is there if the server is started with --web".to_owned(),
        _ if POSTS.iter().any(|(route, ..)| *route == meant) => format!("is {meant} meant?"),
        _ => "docs/server.md lists all".to_owned(),
    };
    let text = format!("there is no route {path}: {instead}");
    Refusal::new(Kind::NotFound, text).response(Dialect::of(path))
}

async fn other_method(request: Request) -> Response<Body> {
    let (method, path) = (request.method(), request.uri().path());
    let text = format!("{path} does not answer to {method}");
    Refusal::new(Kind::Method, text).response(Dialect::of(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Fate, Fates};
    use std::collections::BTreeSet;

    /// What is not read is documented, word for word, and nothing else is.
    #[test]
    fn fields_that_are_not_read_are_documented() {
        let text = include_str!("../../../docs/server.md");
        let routes: [(&str, Fates); 6] = [
            ("/v1/embeddings", openai::embeddings::FATES),
            ("/v1/rerank", rerank::FATES),
            ("/v1/chat/completions", openai::chat::FATES),
            ("/v1/completions", openai::completions::FATES),
            ("/v1/responses", openai::responses::FATES),
            ("/v1/messages", anthropic::messages::FATES),
        ];
        for (route, fates) in routes {
            let (_, section) = text.split_once(&format!("### `{route}`\n")).unwrap();
            let rows = section.split("\n#").next().unwrap().lines();
            let found: BTreeSet<String> =
                rows.filter(|row| row.starts_with("| `")).map(str::to_owned).collect();
            let row = |(name, fate): &(&str, Fate)| match fate {
                Fate::Refused(instead) => format!("| `{name}` | refused: {instead} |"),
                Fate::Inert(why) => format!("| `{name}` | no effect: {why} |"),
            };
            assert_eq!(found, fates.iter().map(row).collect(), "{route}");
        }
        for (path, ..) in POSTS {
            assert!(
                text.contains(&format!("`{path}`")) || text.contains(&format!("POST {path}`")),
                "{path}"
            );
        }
    }
}
