//! `POST /v1/responses`.
mod items;
mod store;
mod voice;

pub use store::Store;

use super::tools;
use crate::app::App;
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{COUNT, FLAG, Fates, Field, Fields, OBJECT, Spec, TEXT, field, needed};
use crate::models::Served;
use crate::refusal::{Kind, Refusal};
use crate::request::{EVERY, STREAM, Wanted};
use crate::sampling::{self, COMMON};
use crate::shorten::{self, TRUNCATION};
use crate::turn::{Job, What};
use rinfer_engine::turn::Ask;
use rinfer_text::chat::{Content, Message, Role, Tool};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use voice::Spoken;

/// What is documented and not read.
pub const FATES: Fates = &[
    ("background", Refused("an answer is told to whoever asked for it")),
    ("context_management", Refused("use truncation")),
    ("conversation", Refused("use previous_response_id, or send the conversation")),
    ("include", Inert("all that there is is in the response")),
    ("max_tool_calls", Inert("the server runs no tools of its own")),
    ("prompt", Refused("send the prompt's text")),
    ("prompt_cache_key", Inert("what was computed is found by its tokens")),
    ("prompt_cache_retention", Inert("what was computed is kept while there is room")),
    ("safety_identifier", Inert("nobody is watched")),
    ("service_tier", Inert("there is one")),
    ("stream_options", Inert("streams have no padding")),
    ("top_logprobs", Refused("log-probabilities are not given here")),
    ("user", Inert("nobody is watched")),
];

/// What is said about thoughts and not read.
const REASONING: Fates = &[
    ("generate_summary", Inert("thoughts are told whole")),
    ("summary", Inert("thoughts are told whole")),
];

/// What a response repeats of its request.
const REPEATED: [&str; 13] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

/// What is read here alone.
const KNOWN: &[Field] = &[
    needed(
        "input",
        r#"{"type": ["string", "array"], "items": {"type": "object"}, "minItems": 1}"#,
        "A text, or items of a conversation",
    ),
    field("instructions", TEXT, "What the model is told first"),
    field("previous_response_id", TEXT, "The response whose conversation goes on"),
    field("store", FLAG, "false: it is not kept for that"),
    field("metadata", OBJECT, "Is repeated in the response"),
    field("text", OBJECT, "format: holds the answer to JSON, or to a JSON Schema"),
    field("max_output_tokens", COUNT, "Tokens of the answer, at most"),
    field("chat_template_kwargs", OBJECT, "Variables for the chat template"),
    field("reasoning", OBJECT, "effort: whether the model thinks first"),
    TRUNCATION,
    field(
        "tools",
        r#"{"type": "array", "items": {"type": "object"}}"#,
        "Functions that the model may call; tools of other kinds are named as ignored",
    ),
    field("tool_choice", r#"{"type": ["string", "object"]}"#, "Whether it may call them, or must"),
    field("parallel_tool_calls", FLAG, "false: at most one call"),
    STREAM,
];

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "OpenAI's responses",
    known: &[EVERY, COMMON, KNOWN],
    fates: FATES,
    answer: "Response",
    streams: Some("ResponseEvent"),
};

/// Reads a request.
pub fn read(
    app: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let echo = echo(&fields);
    let store = fields.flag("store")?.unwrap_or(true);
    let mut said = previous(app, &mut fields)?;
    let input = fields.value("input");
    items::read(fields.needed("input", input)?, &mut said, ignored)?;
    let mut messages = said.clone();
    if let Some(text) = fields.text("instructions")? {
        messages.insert(0, Message::new(Role::System, text));
    }
    join_instructions(&mut messages);
    fields.map("metadata")?;
    let format = match fields.object("text")? {
        Some(mut text) => {
            let format = text.object("format")?;
            text.finish(&[("verbosity", Inert("the model has no such setting"))], ignored)?;
            format
        }
        None => None,
    };
    let form = format.map(sampling::format).transpose()?.flatten();
    let form = form.map(|form| ("text.format", form));
    let mut sampling = sampling::common(&mut fields, &served.sampling, &app.config, form)?;
    sampling::bound(&mut sampling, &mut fields, &["max_output_tokens"], &app.config)?;
    let mut vars = fields.map("chat_template_kwargs")?.unwrap_or_default();
    if let Some(mut reasoning) = fields.object("reasoning")? {
        sampling::effort(&mut sampling, &mut vars, &mut reasoning, "effort")?;
        reasoning.finish(REASONING, ignored)?;
    }
    let shortened = shorten::read(&mut fields)?;
    let (tools, choice) = (declared(&mut fields, ignored)?, tools::choice(&mut fields)?);
    let single = fields.flag("parallel_tool_calls")? == Some(false);
    let stream = fields.flag("stream")?.unwrap_or(false);
    fields.close(&SPEC, ignored)?;
    let mut ask = Ask { messages, tools, choice, single, vars, ..Ask::default() };
    let left_out = shortened.fit(served, &mut ask, &sampling)?;
    let said = store.then_some(said);
    let voice = Spoken::new(app, served.name.clone(), echo, said, left_out);
    let job = Job { what: What::Turn(ask), sampling, n: 1 };
    Ok(Wanted::answer(served, job, voice, stream, left_out))
}

/// What the response repeats, and what it says where the request says nothing.
fn echo(fields: &Fields) -> Map<String, Value> {
    let defaults = json!({
        "instructions": null, "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": {"effort": null, "summary": null}, "store": true,
        "temperature": null, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
        "top_p": null, "truncation": "disabled",
    });
    let value = |name: &str| fields.peek(name).unwrap_or(&defaults[name]).clone();
    REPEATED.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}

/// The conversation that the request goes on from.
fn previous(app: &App, fields: &mut Fields) -> Result<Vec<Message>, Refusal> {
    let Some(id) = fields.text("previous_response_id")? else { return Ok(Vec::new()) };
    app.store.get(&id).ok_or_else(|| {
        let text = format!(
            "previous_response_id: there is no response '{id}' here (any more): send the conversation as input"
        );
        let refusal = Refusal { param: Some("previous_response_id".into()), ..Refusal::new(Kind::NotFound, text) };
        refusal.code("previous_response_not_found")
    })
}

/// Instructions that begin a conversation are one message: most templates have one place for them.
fn join_instructions(messages: &mut Vec<Message>) {
    let is_told = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
    let texts: Vec<String> = messages
        .iter()
        .take_while(is_told)
        .filter_map(|m| m.content.as_ref().map(Content::text))
        .collect();
    if texts.len() > 1 {
        messages.splice(..texts.len(), [Message::new(Role::System, texts.join("\n\n"))]);
    }
}

/// `tools`. Those that a server would run are named as ignored: agents offer them to every server.
fn declared(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Vec<Tool>, Refusal> {
    let list = fields.list("tools")?.unwrap_or_default();
    let mut all = Vec::new();
    for (i, value) in list.into_iter().enumerate() {
        let at = format!("tools[{i}]");
        let mut tool = Fields::of(value, &at)?;
        let kind = tool.text("type")?;
        match tool.needed("type", kind)?.as_str() {
            "function" => all.push(tools::declare(tool, ignored)?),
            other => ignored.push(format!("{at} ({other})")),
        }
    }
    Ok(all)
}
