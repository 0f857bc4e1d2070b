//! Log-probabilities as OpenAI has them.
use crate::turn::Score;
use serde_json::{Value, json};

/// What stands for minus infinity, which JSON has not.
const LEAST: f32 = -9999.0;

/// Of tokens, as a chat completion has them.
pub fn content(scores: &[Score]) -> Value {
    let entry = |bytes: &[u8], logprob: f32| {
        json!({
            "token": String::from_utf8_lossy(bytes), "logprob": logprob.max(LEAST), "bytes": bytes,
        })
    };
    let one = |score: &Score| {
        let mut told = entry(&score.bytes, score.logprob);
        let top = score.top.iter().map(|(bytes, logprob)| entry(bytes, *logprob));
        told["top_logprobs"] = top.collect();
        told
    };
    json!({"content": scores.iter().map(one).collect::<Value>(), "refusal": null})
}
