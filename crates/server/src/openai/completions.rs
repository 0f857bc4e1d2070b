//! `POST /v1/completions`: texts that go on.
use super::{answers, done, include_usage, reason, usage};
use crate::app::App;
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{Fates, Fields, expected};
use crate::models::Served;
use crate::refusal::{Dialect, Refusal};
use crate::request::{Asked, Wanted};
use crate::sampling;
use crate::turn::{End, Job, What};
use crate::voice::{Frame, Voice};
use rinfer_text::reply::Delta;
use serde_json::{Value, json};
use std::sync::Arc;

/// Tokens of an answer to a request that says nothing, as OpenAI has it.
const DEFAULT_TOKENS: usize = 16;

/// What is documented and not read.
pub const FATES: Fates = &[
    ("best_of", Refused("ask for several answers by n, and choose")),
    ("logprobs", Refused("log-probabilities are not given here")),
    ("suffix", Refused("the text between two others is not asked for here")),
    ("user", Inert("nobody is watched")),
];

/// Reads a request.
pub fn read(
    app: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let texts = texts(fields.value("prompt"))?;
    let mut sampling = sampling::read(&mut fields, &served.sampling, &app.config)?;
    let asked = fields.count("max_tokens")?.or(sampling.max_tokens).unwrap_or(DEFAULT_TOKENS);
    sampling::bound(&mut sampling, [Some(asked)], &app.config);
    let stream = fields.flag("stream")?.unwrap_or(false);
    let echo = fields.flag("echo")?.unwrap_or(false);
    let (n, counts) = (answers(&mut fields)?, include_usage(&mut fields, ignored)?);
    fields.finish(FATES, ignored)?;
    let choices = texts.iter().flat_map(|text| {
        std::iter::repeat_with(|| Choice { echo: echo.then(|| text.clone()), ..Choice::default() })
            .take(n)
    });
    let voice = Completion {
        id: app.config.name("cmpl-"),
        created: (app.config.clock)(),
        model: served.name.clone(),
        counts,
        choices: choices.collect(),
        answers: n,
    };
    let job = Job { what: What::Texts(texts), sampling, n };
    Ok(Wanted::Answer(Box::new(Asked {
        served: served.clone(),
        job,
        voice: Box::new(voice),
        stream,
    })))
}

/// `prompt`: a text or several.
fn texts(prompt: Option<Value>) -> Result<Vec<String>, Refusal> {
    let what = "a string or a list of strings";
    let all = match prompt {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) if !list.is_empty() => {
            let text = |v: Value| match v {
                Value::String(text) => Ok(text),
                other => Err(expected("prompt", what, &other)),
            };
            list.into_iter().map(text).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(expected("prompt", what, &other)),
        None => return Err(Refusal::field("prompt", "is missing")),
    };
    Ok(all)
}

/// An answer as far as it was told.
#[derive(Default)]
struct Choice {
    /// The prompt, if it is to come first.
    echo: Option<String>,
    text: String,
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
    fn frame(&self, i: usize, text: &str, reason: Option<&str>) -> Frame {
        let mut chunk = self.object(json!([choice(i, text, reason)]));
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

fn choice(i: usize, text: &str, reason: Option<&str>) -> Value {
    json!({"index": i, "text": text, "logprobs": null, "finish_reason": reason})
}

impl Voice for Completion {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        for choice in &mut self.choices {
            choice.text.extend(choice.echo.take());
        }
        let echoed = |(i, choice): (usize, &Choice)| {
            (!choice.text.is_empty()).then(|| self.frame(i, &choice.text, None))
        };
        self.choices.iter().enumerate().filter_map(echoed).collect()
    }
    fn delta(&mut self, i: usize, delta: Delta) -> Vec<Frame> {
        // There are no thoughts or calls in a text.
        let Delta::Content(text) = delta else { return Vec::new() };
        self.choices[i].text += &text;
        vec![self.frame(i, &text, None)]
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
        let one = |(i, c): (usize, &Choice)| choice(i, &c.text, c.end.as_ref().map(reason));
        let mut whole = self.object(self.choices.iter().enumerate().map(one).collect());
        whole["usage"] = self.usage();
        whole
    }
}
