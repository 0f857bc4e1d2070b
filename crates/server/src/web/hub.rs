//! The page's search for models and how it has them fetched: the only way on which a server has anybody asked, and only
//! when its user does that.
use crate::admin;
use crate::app::{App, RequestId};
use crate::hub::{Hub, Pull};
use crate::refusal::{Dialect, Kind, Refusal};
use crate::voice::{Frame, events};
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// How often the page is told how far a fetch is.
const PACE: Duration = Duration::from_millis(200);
/// Letters of a search or reference; no name is as long.
const MOST: usize = 400;

/// Where models can be had, or why not here.
pub fn open(app: &App) -> Result<&Arc<dyn Hub>, String> {
    let Some(hub) = &app.config.hub else {
        return Err("this program was built without pull: give the server models' files".into());
    };
    if !app.config.keys.is_empty() && !app.config.admin {
        let text = "whoever has a key could fill the disk: start the server with --admin to get models here";
        return Err(text.into());
    }
    Ok(hub)
}

/// The same, if it may be asked.
fn asked(app: &App) -> Result<&Arc<dyn Hub>, Refusal> {
    let hub = open(app).and_then(|hub| hub.closed().map_or(Ok(hub), Err));
    hub.map_err(|why| Refusal::new(Kind::Forbidden, why).code("hub_closed"))
}

pub async fn search(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let found = ask(&app, request, "words", |hub, words| {
        Ok(json!({"repositories": hub.search(words).map_err(refused)?}))
    });
    admin::told(&app, &id, found.await)
}

pub async fn contents(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let found = ask(&app, request, "repository", |hub, name| {
        Ok(json!(hub.contents(name).map_err(refused)?))
    });
    admin::told(&app, &id, found.await)
}

pub async fn pull(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let begun = async {
        let reference = field(&app, request, "reference").await?;
        let (hub, to) = (asked(&app)?, app.clone());
        let text = reference.clone();
        // Who leaves does not end it: the page may come back.
        app.pulls.begin(hub, reference, move |pulled| match pulled {
            Ok(name) => _ = super::models::offer(&to, name),
            Err(failure) => (to.config.log)(&format!("{text} was not fetched: {}", failure.whole)),
        })
    };
    match begun.await {
        Ok(pull) => {
            let (sender, frames) = channel(4);
            tokio::spawn(tell(app, pull, sender));
            events(frames)
        }
        Err(refusal) => {
            app.note(&id, &refusal);
            refusal.response(Dialect::OpenAi)
        }
    }
}

pub async fn cancel(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let reference = field(&app, request, "reference").await?;
        if app.pulls.cancel(&reference) {
            return Ok(json!({"reference": reference, "cancelled": true}));
        }
        let text = format!("'{reference}' is not fetched now");
        Err(Refusal { param: Some("reference".into()), ..Refusal::new(Kind::NotFound, text) })
    };
    admin::told(&app, &id, done.await)
}

/// Has the hub asked for something, on a thread of its own.
async fn ask(
    app: &Arc<App>,
    request: Request,
    name: &'static str,
    work: fn(&dyn Hub, &str) -> Result<Value, Refusal>,
) -> Result<Value, Refusal> {
    let text = field(app, request, name).await?;
    let hub = asked(app)?.clone();
    let found = tokio::task::spawn_blocking(move || work(&*hub, &text)).await;
    found.map_err(|_| Refusal::panicked("search"))?
}

/// The one field of a request, which is a line.
async fn field(app: &App, request: Request, name: &str) -> Result<String, Refusal> {
    let text = admin::only(app, request, name).await?;
    match text.trim() {
        text if text.is_empty() || text.chars().any(char::is_control) || text.len() > MOST => {
            Err(Refusal::field(name, format_args!("must be a line of 1 to {MOST} bytes")))
        }
        text => Ok(text.to_owned()),
    }
}

/// What the hub's answer, or the lack of one, means for who asked: it is none of the server's own faults.
fn refused(failure: crate::models::Failure) -> Refusal {
    Refusal::new(Kind::Upstream, failure.told).code("hub_failed")
}

/// Tells how far a fetch is, until it is over or nobody listens.
async fn tell(app: Arc<App>, pull: Arc<Pull>, to: Sender<Bytes>) {
    let mut changes = pull.subscribe();
    loop {
        changes.borrow_and_update();
        let over = pull.is_over();
        if to.send(Frame::data(&pull.shown()).bytes()).await.is_err() || over {
            return;
        }
        tokio::select! {
            () = to.closed() => return,
            () = app.stop.draining() => {
                let text = "the server ends: what came is kept, and fetching goes on from there";
                let refusal = Refusal::new(Kind::Stopping, text).body(Dialect::OpenAi);
                let _ = to.send(Frame::data(&refusal).bytes()).await;
                return;
            }
            () = async { let _ = changes.changed().await; tokio::time::sleep(PACE).await } => {}
        }
    }
}
