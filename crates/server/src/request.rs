//! From an HTTP request to a response: what all routes have in common.
use crate::app::{App, RequestId};
use crate::body;
use crate::fields::{FLAG, Field, Fields, TEXT, field};
use crate::models::{Held, Keep, Served};
use crate::refusal::{Dialect, Kind, Refusal};
use crate::turn::{self, Job};
use crate::voice::{Telling, Voice};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response, header};
use rinfer_engine::request::Cancel;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names the fields of a request that no API documents.
const IGNORED: HeaderName = HeaderName::from_static("x-rinfer-ignored");

/// Bytes of names in it: clients read headers up to some size only.
const MOST_NAMED: usize = 2000;

/// Says how many messages of a conversation the model was not told.
const TRUNCATED: HeaderName = HeaderName::from_static("x-rinfer-truncated");

/// What every route for models takes.
pub const EVERY: &[Field] = &[
    field("model", TEXT, "A name of /v1/models; may be left out where there is one"),
    field(
        "keep_alive",
        r#"{"type": ["number", "string"]}"#,
        "How long the model stays loaded when nobody uses it: seconds, or a time such as 5m; below 0 is for ever",
    ),
];

/// What all answers take that can be told as they come.
pub const STREAM: Field =
    field("stream", FLAG, "Tells the answer as it comes, as server-sent events");

/// What a request asks for.
pub enum Wanted {
    /// Something that is known at once.
    Value(Value),
    /// An answer of a model.
    Answer(Box<Asked>),
}

/// An answer that is asked for.
pub struct Asked {
    pub served: Arc<Served>,
    pub job: Job,
    /// Who tells it.
    pub voice: Box<dyn Voice>,
    /// Whether it is told as it comes.
    pub stream: bool,
    /// Messages that the model is not told.
    pub left_out: usize,
}

impl Wanted {
    /// An answer to `job`, told by `voice`, as it comes if it is a `stream`.
    pub fn answer(
        served: &Arc<Served>,
        job: Job,
        voice: impl Voice + 'static,
        stream: bool,
        left_out: usize,
    ) -> Wanted {
        let (served, voice) = (served.clone(), Box::new(voice));
        Wanted::Answer(Box::new(Asked { served, job, voice, stream, left_out }))
    }
}

/// What a request is found to ask for.
type Found = Result<Wanted, Refusal>;

/// Reads a route's request for a model. Names of fields that nobody documents are added to the list.
#[derive(Clone, Copy)]
pub enum Read {
    /// For one that writes texts.
    Writer(fn(&App, &Arc<Served>, Fields, &mut Vec<String>) -> Found),
    /// For one that makes something of texts at once, until nobody waits for it.
    Once(fn(&Held, Fields, &mut Vec<String>, &Cancel) -> Found),
}

/// Whoever waits for what is made at once: a client that leaves drops it.
#[derive(Default)]
struct Waiting(Cancel);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Answers a request whose body is an object.
pub async fn answer(app: Arc<App>, request: Request<Body>, read: Read) -> Response<Body> {
    let dialect = Dialect::of(request.uri().path());
    let id = request
        .extensions()
        .get::<RequestId>()
        .cloned()
        .unwrap_or_else(|| RequestId(String::new()));
    match respond(&app, request, &id, read).await {
        Ok(response) => response,
        Err(refusal) => {
            app.note(&id, &refusal);
            refusal.response(dialect)
        }
    }
}

async fn respond(
    app: &Arc<App>,
    request: Request<Body>,
    id: &RequestId,
    read: Read,
) -> Result<Response<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    let object = body::object(&app.config, &parts.headers, body).await?;
    let mut fields = Fields::new(object);
    let keep = Keep::read(&mut fields)?;
    let name = fields.text("model")?;
    let held = tokio::select! {
        held = app.models.acquire(name.as_deref(), keep) => held?,
        () = app.stop.draining() => return Err(Refusal::new(Kind::Stopping, "the server is about to end")),
    };
    // Prompts are rendered and read as tokens on the way: no work for the threads that serve.
    let reader = app.clone();
    let waiting = Waiting::default();
    let cancel = waiting.0.clone();
    let work = move || {
        let mut ignored = Vec::new();
        let wanted = match read {
            Read::Writer(read) => read(&reader, &held.writer()?, fields, &mut ignored),
            Read::Once(read) => read(&held, fields, &mut ignored, &cancel),
        };
        wanted.map(|wanted| (wanted, ignored))
    };
    let read = tokio::task::spawn_blocking(work).await;
    let (wanted, ignored) = read.map_err(|_| Refusal::panicked("request"))??;
    if app.config.strict && !ignored.is_empty() {
        let text = format!(
            "is not a field of this API; known to no version of it: {}",
            ignored.join(", ")
        );
        return Err(Refusal::field(&ignored[0], text).code("unknown_parameter"));
    }
    let mut response = match wanted {
        Wanted::Value(value) => json(&value),
        Wanted::Answer(asked) => {
            let path = parts.uri.path().to_owned();
            tell(app, *asked, id, path).await?
        }
    };
    if let Some(names) = listed(&ignored) {
        response.headers_mut().insert(IGNORED, names);
    }
    Ok(response)
}

/// Names as a header can have them: escaped as in JSON, and after [`MOST_NAMED`] bytes how many more there are.
fn listed(names: &[String]) -> Option<HeaderValue> {
    let mut text = String::new();
    for (i, name) in names.iter().enumerate() {
        let name: String = name.chars().map(shown).collect();
        let left = names.len() - i;
        if text.len() + name.len() > MOST_NAMED {
            text += &if i == 0 { format!("{left} names") } else { format!(", and {left} more") };
            break;
        }
        text += if i == 0 { "" } else { ", " };
        text += &name;
    }
    HeaderValue::from_str(&text).ok().filter(|_| !names.is_empty())
}

fn shown(c: char) -> String {
    match c {
        ' '..='~' => c.into(),
        _ => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    }
}

/// Begins an answer and tells it.
async fn tell(
    app: &Arc<App>,
    asked: Asked,
    id: &RequestId,
    path: String,
) -> Result<Response<Body>, Refusal> {
    let Asked { served, job, voice, stream, left_out } = asked;
    if app.stop.is_set() {
        return Err(Refusal::new(Kind::Stopping, "the server is about to end"));
    }
    let generation = app.generations.begin(id.0.clone(), &served, path, stream);
    let answers = turn::begin(&served, job).await?;
    let (stop, counts) = (app.stop.clone(), app.clone());
    let count = Box::new(move |end: &turn::End| counts.meters.answered(end));
    let broken = BTreeMap::new();
    let telling = Telling { answers, voice, stop, count, broken, generation };
    let mut response = telling.respond(stream).await?;
    if left_out > 0 {
        response.headers_mut().insert(TRUNCATED, left_out.into());
    }
    Ok(response)
}

/// A response of JSON.
pub fn json(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn names_are_what_a_header_can_have() {
        let listed = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            listed(&names).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(listed(&[]), None);
        assert_eq!(
            listed(&["a", "gr\u{f6}\u{df}e\n", "\u{1f600}"]).unwrap(),
            "a, gr\\u00f6\\u00dfe\\u000a, \\ud83d\\ude00"
        );
        let long = "x".repeat(5000);
        assert_eq!(listed(&["a", &long, "b"]).unwrap(), "a, and 2 more");
        assert_eq!(listed(&[&long]).unwrap(), "1 names");
        assert!(listed(&vec!["name"; 9999]).unwrap().len() < 2100);
    }
}
