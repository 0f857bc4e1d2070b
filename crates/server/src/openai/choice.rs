//! One answer as OpenAI's chat API has it: what it says, thinks and calls, and how a part of that is
//! sent. The whole message is the sum of what was sent.
use super::{logprobs, reason};
use crate::turn::{End, Score};
use rinfer_text::reply::Delta;
use serde_json::{Map, Value, json};

/// An answer as far as it was told.
#[derive(Default)]
pub struct Choice {
    content: String,
    reasoning: String,
    calls: Vec<Call>,
    scores: Vec<Score>,
    /// How many of those a stream has sent.
    told: usize,
    pub end: Option<End>,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Choice {
    /// Takes a part, and returns the delta that sends it.
    /// `named` is what its calls are named after.
    pub fn push(&mut self, delta: Delta, named: &str) -> Option<Value> {
        match delta {
            Delta::Content(text) => {
                self.content += &text;
                Some(json!({"content": text}))
            }
            Delta::Reasoning(text) => {
                self.reasoning += &text;
                Some(json!({"reasoning_content": text}))
            }
            Delta::Open { name, .. } => {
                let id = format!("{named}_{}", self.calls.len());
                let call = Call { id, name, arguments: String::new() };
                let told = json!({"tool_calls": [{
                    "index": self.calls.len(), "id": call.id, "type": "function",
                    "function": {"name": call.name, "arguments": ""},
                }]});
                self.calls.push(call);
                Some(told)
            }
            Delta::Arguments { json, .. } => {
                let index = self.calls.len().saturating_sub(1);
                self.calls.iter_mut().last().map(|call| {
                    call.arguments += &json;
                    json!({"tool_calls": [{"index": index, "function": {"arguments": json}}]})
                })
            }
            Delta::Close { .. } | Delta::Broken { .. } => None,
        }
    }
    /// Takes how probable the tokens were that are said next.
    pub fn score(&mut self, scores: Vec<Score>) {
        self.scores.extend(scores);
    }
    /// Of the tokens that were not told yet.
    pub fn untold(&mut self) -> Value {
        let from = std::mem::replace(&mut self.told, self.scores.len());
        of_tokens(&self.scores[from..])
    }
    /// Of all tokens.
    pub fn logprobs(&self) -> Value {
        of_tokens(&self.scores)
    }
    /// The whole message.
    pub fn message(&self) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let only_calls = self.content.is_empty() && !self.calls.is_empty();
        let content = if only_calls { Value::Null } else { self.content.as_str().into() };
        message.insert("content".into(), content);
        if !self.reasoning.is_empty() {
            message.insert("reasoning_content".into(), self.reasoning.as_str().into());
        }
        message.insert("refusal".into(), Value::Null);
        if !self.calls.is_empty() {
            let call = |call: &Call| {
                json!({
                    "id": call.id, "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                })
            };
            message.insert("tool_calls".into(), self.calls.iter().map(call).collect());
        }
        message.into()
    }
    pub fn reason(&self) -> &'static str {
        self.end.as_ref().map_or("stop", reason)
    }
}

fn of_tokens(scores: &[Score]) -> Value {
    if scores.is_empty() { Value::Null } else { logprobs::content(scores) }
}
