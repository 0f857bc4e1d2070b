//! `POST /v1/messages`.
use super::read;
use super::voice::Spoken;
use crate::app::App;
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{COUNT, Fates, Field, Fields, OBJECT, Spec, field, needed};
use crate::models::Served;
use crate::refusal::Refusal;
use crate::request::{EVERY, STREAM, Wanted};
use crate::sampling::{self, COMMON, Form};
use crate::shorten::{self, TRUNCATION};
use crate::turn::{Job, What};
use rinfer_engine::sample::{Sampling, Think};
use std::sync::Arc;

/// What is documented and not read.
pub const FATES: Fates = &[
    ("cache_control", Inert("what was computed is kept while there is room")),
    ("container", Refused("nothing is run here")),
    ("inference_geo", Inert("there is one place")),
    ("mcp_servers", Refused("nothing is fetched")),
    ("metadata", Inert("nothing is kept")),
    ("service_tier", Inert("there is one")),
];

/// What is read of a conversation, here and where its tokens are counted.
pub const ASKED: &[Field] = &[
    needed(
        "messages",
        r#"{"type": "array", "items": {"type": "object"}, "minItems": 1}"#,
        "The conversation, oldest first",
    ),
    field(
        "system",
        r#"{"type": ["string", "array"], "items": {"type": "object"}}"#,
        "What the model is told first",
    ),
    field(
        "tools",
        r#"{"type": "array", "items": {"type": "object"}}"#,
        "Functions that the model may call",
    ),
    field("tool_choice", OBJECT, "Whether it may call them, or must"),
    field("thinking", OBJECT, "Whether the model thinks first, and how many tokens"),
    field("context_management", OBJECT, "edits: clear_thinking_20251015 leaves out older thoughts"),
];

/// What is read here alone.
const KNOWN: &[Field] = &[
    needed("max_tokens", COUNT, "Tokens of the answer, at most"),
    field(
        "stop_sequences",
        r#"{"type": "array", "items": {"type": "string"}}"#,
        "Texts that end the answer and are not part of it",
    ),
    field("output_config", OBJECT, "format: holds the answer to a JSON Schema"),
    field("output_format", OBJECT, "The older place of output_config.format"),
    STREAM,
    TRUNCATION,
];

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "Anthropic's messages",
    known: &[EVERY, COMMON, ASKED, KNOWN],
    fates: FATES,
    answer: "Message",
    streams: Some("MessageEvent"),
};

/// Reads a request.
pub fn read(
    app: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let mut ask = read::read(&mut fields, ignored)?;
    fields.needed("max_tokens", fields.peek("max_tokens"))?;
    let stops = fields.list("stop_sequences")?.unwrap_or_default();
    let stops = sampling::stops("stop_sequences", stops)?;
    let thinking = thinking(&mut fields, ignored)?;
    let form = output(&mut fields, ignored)?;
    let mut sampling = sampling::common(&mut fields, &served.sampling, &app.config, form)?;
    sampling::bound(&mut sampling, &mut fields, &["max_tokens"], &app.config)?;
    sampling.stop.extend(stops);
    if let Some((think, budget)) = thinking {
        (sampling.think, sampling.think_budget) = (think, budget.or(sampling.think_budget));
    }
    let stream = fields.flag("stream")?.unwrap_or(false);
    let shortened = shorten::read(&mut fields)?;
    fields.close(&SPEC, ignored)?;
    let left_out = shortened.fit(served, &mut ask, &sampling)?;
    let (id, named) = (app.config.name("msg_"), app.config.name("toolu_"));
    let voice = Spoken::new(id, served.name.clone(), named, left_out);
    let job = Job { what: What::Turn(ask), sampling, n: 1 };
    Ok(Wanted::answer(served, job, voice, stream, left_out))
}

/// Whether there are thoughts, and how many tokens of them.
fn thinking(
    fields: &mut Fields,
    ignored: &mut Vec<String>,
) -> Result<Option<(Think, Option<usize>)>, Refusal> {
    let Some(mut given) = fields.object("thinking")? else { return Ok(None) };
    let kind = given.text("type")?;
    let think = match given.needed("type", kind)?.as_str() {
        "enabled" => Think::On,
        "adaptive" => Think::Auto,
        "disabled" => Think::Off,
        other => {
            let text = format!("'{other}' is none of enabled, adaptive, disabled");
            return Err(Refusal::field(given.path("type"), text));
        }
    };
    let budget = given.count("budget_tokens")?;
    given.finish(&[("display", Inert("thoughts are shown"))], ignored)?;
    Ok(Some((think, budget)))
}

/// `output_config.format`, and its older place `output_format`: a schema.
fn output(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Option<Form>, Refusal> {
    const NAMES: [&str; 2] = ["output_config.format", "output_format"];
    let older = fields.object("output_format")?;
    let mut newer = None;
    if let Some(mut config) = fields.object("output_config")? {
        newer = config.object("format")?;
        config.finish(&[("effort", Inert("the model has no such setting"))], ignored)?;
    }
    let (name, mut format) = match (newer, older) {
        (None, None) => return Ok(None),
        (Some(format), None) => (NAMES[0], format),
        (None, Some(format)) => (NAMES[1], format),
        (Some(_), Some(_)) => {
            let problem =
                format!("holds the answer to a form, and so does {}: give one of them", NAMES[0]);
            return Err(Refusal::field(NAMES[1], problem));
        }
    };
    let kind = format.text("type")?;
    match format.needed("type", kind)?.as_str() {
        "json_schema" => sampling::schema(&mut format).map(|schema| Some((name, schema))),
        other => {
            Err(Refusal::field(format.path("type"), format_args!("'{other}' is not json_schema")))
        }
    }
}

/// How thoughts are asked for where only that is said.
pub fn only_thinking(
    fields: &mut Fields,
    own: &Sampling,
    ignored: &mut Vec<String>,
) -> Result<Sampling, Refusal> {
    let think = thinking(fields, ignored)?.map_or(own.think, |(think, _)| think);
    Ok(Sampling { think, ..own.clone() })
}
