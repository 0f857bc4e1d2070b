//! Log-probabilities as OpenAI has them.
use crate::turn::Score;
use serde_json::{Map, Value, json};

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

/// Of tokens, as completions have them: lists of their texts, their log-probabilities, the most probable
/// tokens at each place, and where each begins in the answer, in characters.
#[derive(Default)]
pub struct Legacy {
    scores: Vec<Score>,
    starts: Vec<usize>,
    /// Whole characters so far, and the bytes of one that is not whole.
    chars: usize,
    part: Vec<u8>,
    /// How many of the tokens a stream has sent.
    told: usize,
}

impl Legacy {
    pub fn push(&mut self, scores: Vec<Score>) {
        for score in scores {
            self.starts.push(self.chars);
            self.part.extend(&score.bytes);
            while let Some((chars, bytes)) = whole(&self.part) {
                self.chars += chars;
                self.part.drain(..bytes);
            }
            self.scores.push(score);
        }
    }
    /// Of the tokens that were not told yet; null if there are none.
    pub fn untold(&mut self) -> Value {
        let from = std::mem::replace(&mut self.told, self.scores.len());
        self.object(from)
    }
    /// Of all tokens; null if there are none.
    pub fn all(&self) -> Value {
        self.object(0)
    }
    fn object(&self, from: usize) -> Value {
        let scores = &self.scores[from..];
        if scores.is_empty() {
            return Value::Null;
        }
        let logprob = |logprob: f32| json!(logprob.max(LEAST));
        let top = |score: &Score| -> Map<String, Value> {
            let mut top: Map<String, Value> =
                score.top.iter().map(|(bytes, p)| (named(bytes), logprob(*p))).collect();
            // What was chosen is there in any case.
            top.entry(named(&score.bytes)).or_insert_with(|| logprob(score.logprob));
            top
        };
        json!({
            "tokens": scores.iter().map(|score| named(&score.bytes)).collect::<Vec<_>>(),
            "token_logprobs": scores.iter().map(|score| logprob(score.logprob)).collect::<Value>(),
            "top_logprobs": scores.iter().map(top).collect::<Vec<_>>(),
            "text_offset": self.starts[from..],
        })
    }
}

/// A token's text; of one that is part of a character its bytes, as OpenAI writes them.
fn named(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let hex = |byte: &u8| format!("\\x{byte:02x}");
            format!("bytes:{}", bytes.iter().map(hex).collect::<String>())
        }
    }
}

/// The characters that bytes begin with, or one that they can't be, and how many bytes that is; none if
/// more must come.
fn whole(bytes: &[u8]) -> Option<(usize, usize)> {
    match std::str::from_utf8(bytes) {
        Ok("") => None,
        Ok(text) => Some((text.chars().count(), bytes.len())),
        Err(error) if error.valid_up_to() > 0 => {
            let text = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            Some((text.chars().count(), error.valid_up_to()))
        }
        Err(error) => error.error_len().map(|length| (1, length)),
    }
}
