//! `POST /v1/completions`: texts that go on.
use super::logprobs::Legacy;
use super::{N, STREAM_OPTIONS, answers, done, include_usage, reason, usage};
use crate::app::App;
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{COUNT, FLAG, Fates, Field, Fields, Spec, expected, field, needed};
use crate::models::Served;
use crate::refusal::{Dialect, Refusal};
use crate::request::{EVERY, STREAM, Wanted};
use crate::sampling::{self, CHAT, COMMON};
use crate::turn::{End, Job, Score, What};
use crate::voice::{Frame, Voice};
use rinfer_engine::batch::TokenId;
use rinfer_text::reply::Delta;
use serde_json::{Value, json};
use std::sync::Arc;

/// Tokens of an answer to a request that says nothing, as OpenAI has it.
const DEFAULT_TOKENS: usize = 16;
/// Tokens whose log-probabilities may be told beside the chosen one's.
const MOST_LOGPROBS: usize = 20;

/// What is documented and not read.
pub const FATES: Fates = &[
    ("suffix", Refused("the text between two others is not asked for here")),
    ("truncation", Refused("a text has no turns that could be left out: shorten it")),
    ("user", Inert("nobody is watched")),
];

/// What is read here alone.
const KNOWN: &[Field] = &[
    needed(
        "prompt",
        r#"{"type": ["string", "array"], "items": {"type": ["string", "integer", "array"]}, "minItems": 1}"#,
        "A text, a list of token ids, or a list of either",
    ),
    field("max_tokens", COUNT, "Tokens of the answer, at most; 16 if nobody says"),
    STREAM,
    field("echo", FLAG, "The answer begins with the prompt"),
    N,
    STREAM_OPTIONS,
    field(
        "logprobs",
        r#"{"type": "integer", "minimum": 0, "maximum": 20}"#,
        "Tells how probable each token was, and this many of the most probable ones",
    ),
    field("best_of", COUNT, "May only be n"),
];

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "Texts that go on",
    known: &[EVERY, COMMON, CHAT, KNOWN],
    fates: FATES,
    answer: "Completion",
    streams: Some("Completion"),
};

/// Reads a request.
pub fn read(
    app: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let prompt = fields.value("prompt");
    let prompts = prompts(fields.needed("prompt", prompt)?, served)?;
    let mut sampling = sampling::read(&mut fields, &served.sampling, &app.config)?;
    sampling.max_tokens.get_or_insert(DEFAULT_TOKENS);
    sampling::bound(&mut sampling, &mut fields, &["max_tokens"], &app.config)?;
    let stream = fields.flag("stream")?.unwrap_or(false);
    let echo = fields.flag("echo")?.unwrap_or(false);
    let (n, counts) = (answers(&mut fields)?, include_usage(&mut fields, ignored)?);
    let logprobs = logprobs(&mut fields, echo)?;
    if let Some(other) = fields.count("best_of")?.filter(|best| *best != n) {
        let text = format!(
            "is {other}, and not n, which is {n}: ask for several answers by n, and choose"
        );
        return Err(Refusal::field("best_of", text).code("unsupported_parameter"));
    }
    fields.close(&SPEC, ignored)?;
    let (prompts, texts): (Vec<_>, Vec<_>) = prompts.into_iter().unzip();
    let choices = texts.iter().flat_map(|text| {
        let echo = echo.then(|| text.clone());
        std::iter::repeat_with(move || Choice { echo: echo.clone(), ..Choice::default() }).take(n)
    });
    let voice = Completion {
        id: app.config.name("cmpl-"),
        created: (app.config.clock)(),
        model: served.name.clone(),
        counts,
        choices: choices.collect(),
        answers: n,
    };
    let job = Job { what: What::Texts(prompts, logprobs), sampling, n };
    Ok(Wanted::answer(served, job, voice, stream, 0))
}

/// `prompt`: a text or its tokens, or a list of either. Each as tokens and as a text.
fn prompts(prompt: Value, served: &Served) -> Result<Vec<(Vec<TokenId>, String)>, Refusal> {
    const WHAT: &str = "a string, a list of token ids, or a list of either";
    let language = served.model.language();
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let one = |at: &str, value: &Value| match value {
        Value::String(text) => Ok((language.encode(text), text.clone())),
        Value::Array(ids) if !ids.is_empty() => {
            let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
            let ids = ids.ok_or_else(|| expected(at, WHAT, value))?;
            let text = language.tokenizer.decode(&ids, true);
            Ok((ids.into_iter().map(TokenId).collect(), text))
        }
        other => Err(expected(at, WHAT, other)),
    };
    match &prompt {
        Value::Array(list) if list.iter().any(|value| value.is_string() || value.is_array()) => {
            let each = list.iter().enumerate();
            each.map(|(i, value)| one(&format!("prompt[{i}]"), value)).collect()
        }
        single => Ok(vec![one("prompt", single)?]),
    }
}

/// `logprobs`: how many tokens are told beside the chosen one.
fn logprobs(fields: &mut Fields, echo: bool) -> Result<Option<usize>, Refusal> {
    match fields.count("logprobs")? {
        Some(n) if n > MOST_LOGPROBS => {
            Err(Refusal::field("logprobs", format_args!("is {n}: allowed is 0 to {MOST_LOGPROBS}")))
        }
        Some(_) if echo => {
            let text = "of a prompt's tokens are not given: leave out echo or this";
            Err(Refusal::field("logprobs", text).code("unsupported_parameter"))
        }
        asked => Ok(asked),
    }
}

/// An answer as far as it was told.
#[derive(Default)]
struct Choice {
    /// The prompt, if it is to come first.
    echo: Option<String>,
    text: String,
    scores: Legacy,
    end: Option<End>,
}

/// Tells answers as completions.
struct Completion {
    id: String,
    created: u64,
    model: String,
    counts: bool,
    choices: Vec<Choice>,
    /// Answers to each prompt.
    answers: usize,
}

impl Completion {
    fn object(&self, choices: Value) -> Value {
        json!({
            "id": self.id, "object": "text_completion", "created": self.created, "model": self.model,
            "choices": choices,
        })
    }
    fn frame(&mut self, i: usize, text: &str, reason: Option<&str>) -> Frame {
        let logprobs = self.choices[i].scores.untold();
        let mut chunk = self.object(json!([choice(i, text, logprobs, reason)]));
        if self.counts {
            chunk["usage"] = Value::Null;
        }
        Frame::data(&chunk)
    }
    fn usage(&self) -> Value {
        let ends: Vec<End> = self.choices.iter().filter_map(|choice| choice.end.clone()).collect();
        usage(&ends, self.answers)
    }
}

fn choice(i: usize, text: &str, logprobs: Value, reason: Option<&str>) -> Value {
    json!({"index": i, "text": text, "logprobs": logprobs, "finish_reason": reason})
}

impl Voice for Completion {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        for i in 0..self.choices.len() {
            let Some(echo) = self.choices[i].echo.take() else { continue };
            frames.push(self.frame(i, &echo, None));
            self.choices[i].text = echo;
        }
        frames
    }
    fn delta(&mut self, i: usize, delta: Delta) -> Vec<Frame> {
        // There are no thoughts or calls in a text.
        let Delta::Content(text) = delta else { return Vec::new() };
        self.choices[i].text += &text;
        vec![self.frame(i, &text, None)]
    }
    fn scores(&mut self, i: usize, scores: Vec<Score>) {
        self.choices[i].scores.push(scores);
    }
    fn end(&mut self, i: usize, end: End) -> Vec<Frame> {
        let frame = self.frame(i, "", Some(reason(&end)));
        self.choices[i].end = Some(end);
        vec![frame]
    }
    fn finish(&mut self) -> Vec<Frame> {
        done(self.counts.then(|| (self.object(json!([])), self.usage())))
    }
    fn fail(&mut self, refusal: &Refusal) -> Vec<Frame> {
        vec![Frame::data(&refusal.body(Dialect::OpenAi))]
    }
    fn whole(self: Box<Self>) -> Value {
        let one = |(i, c): (usize, &Choice)| {
            choice(i, &c.text, c.scores.all(), c.end.as_ref().map(reason))
        };
        let mut whole = self.object(self.choices.iter().enumerate().map(one).collect());
        whole["usage"] = self.usage();
        whole
    }
}
