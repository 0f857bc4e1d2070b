//! OpenAI's API.
pub mod chat;
mod choice;
pub mod completions;
pub mod embeddings;
mod logprobs;
pub mod messages;
pub mod responses;
pub mod tools;

use crate::fields::{Field, Fields, OBJECT, field};
use crate::refusal::Refusal;
use crate::turn::End;
use crate::voice::Frame;
use rinfer_engine::request::Finish;
use serde_json::{Value, json};

/// Answers to one request.
const MOST: usize = 16;

/// What [`answers`] reads.
const N: Field =
    field("n", r#"{"type": "integer", "minimum": 1, "maximum": 16}"#, "How many answers");

/// What [`include_usage`] reads.
const STREAM_OPTIONS: Field =
    field("stream_options", OBJECT, "include_usage: a stream ends with what was counted");

/// `n`: how many answers.
fn answers(fields: &mut Fields) -> Result<usize, Refusal> {
    match fields.count("n")?.unwrap_or(1) {
        n @ 1..=MOST => Ok(n),
        n => Err(Refusal::field("n", format_args!("is {n}: allowed is 1 to {MOST}"))),
    }
}

/// Whether a stream is to end with what was counted.
fn include_usage(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<bool, Refusal> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    let include = options.flag("include_usage")?.unwrap_or(false);
    // Padding against eavesdroppers on the sizes of pieces: there is none.
    options.flag("include_obfuscation")?;
    options.finish(&[], ignored)?;
    Ok(include)
}

/// What ends a stream: an empty chunk with what was counted, if that was asked for, and that it ends.
fn done(counted: Option<(Value, Value)>) -> Vec<Frame> {
    let counted = counted.map(|(mut chunk, usage)| {
        chunk["usage"] = usage;
        Frame::data(&chunk)
    });
    let end = Frame { event: None, data: "[DONE]".into() };
    counted.into_iter().chain([end]).collect()
}

/// `finish_reason`.
fn reason(end: &End) -> &'static str {
    match end.finish {
        Finish::Length => "length",
        _ if end.calls > 0 => "tool_calls",
        _ => "stop",
    }
}

/// `usage` of all answers to a request, whose prompts are `prompts` different ones.
fn usage(ends: &[End], answers: usize) -> Value {
    let firsts = || ends.iter().step_by(answers.max(1));
    let prompt: usize = firsts().map(|end| end.usage.prompt).sum();
    let cached: usize = firsts().map(|end| end.usage.cached).sum();
    let generated: usize = ends.iter().map(|end| end.usage.generated).sum();
    let slowest =
        ends.iter().map(|end| end.timing).max_by_key(|timing| timing.all).unwrap_or_default();
    let ms = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    json!({
        "prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": cached},
        "timings": {
            "prompt_n": prompt - cached, "prompt_ms": ms(slowest.first), "predicted_n": generated,
            "predicted_ms": ms(slowest.all.saturating_sub(slowest.first)),
        },
    })
}
