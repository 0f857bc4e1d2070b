//! `POST /v1/chat/completions`.
use super::choice::Choice;
use super::{N, STREAM_OPTIONS, answers, done, include_usage, messages, tools, usage};
use crate::app::App;
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{COUNT, FLAG, Fates, Field, Fields, OBJECT, Spec, field, needed};
use crate::models::Served;
use crate::refusal::{Dialect, Refusal};
use crate::request::{EVERY, STREAM, Wanted};
use crate::sampling::{self, CHAT, COMMON};
use crate::shorten::{self, TRUNCATION};
use crate::turn::{End, Job, Score, What};
use crate::voice::{Frame, Voice};
use rinfer_engine::turn::Ask;
use rinfer_text::reply::Delta;
use serde_json::{Value, json};
use std::sync::Arc;

/// What is documented and not read.
pub const FATES: Fates = &[
    ("audio", Refused("answers are text")),
    ("function_call", Refused("use tool_choice")),
    ("functions", Refused("use tools")),
    ("metadata", Inert("nothing is kept")),
    ("prediction", Refused("no text can be predicted")),
    ("prompt_cache_key", Inert("what was computed is found by its tokens")),
    ("prompt_cache_retention", Inert("what was computed is kept while there is room")),
    ("safety_identifier", Inert("nobody is watched")),
    ("service_tier", Inert("there is one")),
    ("store", Inert("nothing is kept")),
    ("user", Inert("nobody is watched")),
    ("verbosity", Inert("the model has no such setting")),
    ("web_search_options", Refused("nothing is fetched")),
];

/// Tokens whose log-probabilities may be told beside the chosen one's.
const MOST_LOGPROBS: usize = 20;

/// What is read here alone.
const KNOWN: &[Field] = &[
    needed(
        "messages",
        r#"{"type": "array", "items": {"type": "object"}, "minItems": 1}"#,
        "The conversation, oldest first",
    ),
    field("max_tokens", COUNT, "Tokens of the answer, at most"),
    field("max_completion_tokens", COUNT, "The same; the smaller holds"),
    field(
        "reasoning_effort",
        r#"{"type": "string", "enum": ["none", "minimal", "low", "medium", "high", "xhigh"]}"#,
        "Whether the model thinks first",
    ),
    field("chat_template_kwargs", OBJECT, "Variables for the chat template"),
    field(
        "tools",
        r#"{"type": "array", "items": {"type": "object"}}"#,
        "Functions that the model may call",
    ),
    field("tool_choice", r#"{"type": ["string", "object"]}"#, "Whether it may call them, or must"),
    field("parallel_tool_calls", FLAG, "false: at most one call"),
    field("modalities", r#"{"type": "array", "items": {"const": "text"}}"#, "Answers are text"),
    STREAM,
    N,
    STREAM_OPTIONS,
    field("logprobs", FLAG, "Tells how probable each token was"),
    field(
        "top_logprobs",
        r#"{"type": "integer", "minimum": 0, "maximum": 20}"#,
        "And this many of the most probable ones; needs logprobs",
    ),
    TRUNCATION,
];

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "OpenAI's chat completions",
    known: &[EVERY, COMMON, CHAT, KNOWN],
    fates: FATES,
    answer: "ChatCompletion",
    streams: Some("ChatCompletionChunk"),
};

/// Reads a request.
pub fn read(
    app: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let list = fields.list("messages")?;
    let messages = messages::read(fields.needed("messages", list)?, ignored)?;
    let mut sampling = sampling::read(&mut fields, &served.sampling, &app.config)?;
    let limits = ["max_tokens", "max_completion_tokens"];
    sampling::bound(&mut sampling, &mut fields, &limits, &app.config)?;
    let mut vars = fields.map("chat_template_kwargs")?.unwrap_or_default();
    sampling::effort(&mut sampling, &mut vars, &mut fields, "reasoning_effort")?;
    let tools = tools::read(&mut fields, ignored)?;
    let choice = tools::choice(&mut fields)?;
    let single = fields.flag("parallel_tool_calls")? == Some(false);
    if let Some(other) =
        fields.list("modalities")?.and_then(|all| all.into_iter().find(|m| m != "text"))
    {
        return Err(Refusal::field(
            "modalities",
            format_args!("{other} is not text: answers are text"),
        ));
    }
    let stream = fields.flag("stream")?.unwrap_or(false);
    let (n, counts) = (answers(&mut fields)?, include_usage(&mut fields, ignored)?);
    let logprobs = logprobs(&mut fields)?;
    let shortened = shorten::read(&mut fields)?;
    fields.close(&SPEC, ignored)?;
    let mut ask = Ask { messages, tools, choice, single, vars, logprobs };
    let left_out = shortened.fit(served, &mut ask, &sampling)?;
    let voice = Chat {
        id: app.config.name("chatcmpl-"),
        created: (app.config.clock)(),
        model: served.name.clone(),
        counts,
        left_out,
        choices: (0..n).map(|_| Choice::default()).collect(),
        names: (0..n).map(|_| app.config.name("call_")).collect(),
    };
    let job = Job { what: What::Turn(ask), sampling, n };
    Ok(Wanted::answer(served, job, voice, stream, left_out))
}

/// Tokens whose log-probabilities are told beside the chosen one's, if any are told.
fn logprobs(fields: &mut Fields) -> Result<Option<usize>, Refusal> {
    let told = fields.flag("logprobs")?.unwrap_or(false);
    match fields.count("top_logprobs")? {
        Some(n) if n > MOST_LOGPROBS => {
            let text = format!("is {n}: allowed is 0 to {MOST_LOGPROBS}");
            Err(Refusal::field("top_logprobs", text))
        }
        Some(_) if !told => Err(Refusal::field("top_logprobs", "needs logprobs to be true")),
        top => Ok(told.then(|| top.unwrap_or(0))),
    }
}

/// Tells answers as chat completions.
struct Chat {
    id: String,
    created: u64,
    model: String,
    /// Whether a stream ends with what was counted.
    counts: bool,
    /// Messages that the model was not told.
    left_out: usize,
    choices: Vec<Choice>,
    /// What each answer's calls are named after.
    names: Vec<String>,
}

impl Chat {
    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created,
            "model": self.model, "choices": choices,
        });
        if self.counts {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
    /// Deltas as chunks. How probable the tokens of a text were goes with it.
    fn deltas(&mut self, i: usize, deltas: impl IntoIterator<Item = Value>) -> Vec<Frame> {
        let mut frames = Vec::new();
        for delta in deltas {
            let said = delta["content"].as_str().is_some_and(|text| !text.is_empty());
            let logprobs = if said { self.choices[i].untold() } else { Value::Null };
            let choice =
                json!({"index": i, "delta": delta, "logprobs": logprobs, "finish_reason": null});
            frames.push(Frame::data(&self.chunk(json!([choice]))));
        }
        frames
    }
    fn usage(&self) -> Value {
        let ends: Vec<End> = self.choices.iter().filter_map(|choice| choice.end.clone()).collect();
        let mut usage = usage(&ends, self.choices.len());
        if self.left_out > 0 {
            usage["truncated_messages"] = self.left_out.into();
        }
        usage
    }
}

impl Voice for Chat {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        let first = json!({"role": "assistant", "content": ""});
        (0..self.choices.len()).flat_map(|i| self.deltas(i, [first.clone()])).collect()
    }
    fn delta(&mut self, i: usize, delta: Delta) -> Vec<Frame> {
        let delta = self.choices[i].push(delta, &self.names[i]);
        self.deltas(i, delta)
    }
    fn scores(&mut self, i: usize, scores: Vec<Score>) {
        self.choices[i].score(scores);
    }
    fn end(&mut self, i: usize, end: End) -> Vec<Frame> {
        self.choices[i].end = Some(end);
        let reason = self.choices[i].reason();
        let logprobs = self.choices[i].untold();
        let last = json!({"index": i, "delta": {}, "logprobs": logprobs, "finish_reason": reason});
        vec![Frame::data(&self.chunk(json!([last])))]
    }
    fn finish(&mut self) -> Vec<Frame> {
        done(self.counts.then(|| (self.chunk(json!([])), self.usage())))
    }
    fn fail(&mut self, refusal: &Refusal) -> Vec<Frame> {
        vec![Frame::data(&refusal.body(Dialect::OpenAi))]
    }
    fn whole(self: Box<Self>) -> Value {
        let choice = |(i, choice): (usize, &Choice)| {
            json!({
                "index": i, "message": choice.message(), "logprobs": choice.logprobs(),
                "finish_reason": choice.reason(),
            })
        };
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": self.choices.iter().enumerate().map(choice).collect::<Value>(),
            "usage": self.usage(),
        })
    }
}
