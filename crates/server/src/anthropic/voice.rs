//! Answers as Anthropic's messages: blocks of thoughts, text and calls, one after another.
use crate::refusal::{Dialect, Refusal};
use crate::turn::End;
use crate::voice::{Frame, Voice};
use rinfer_engine::request::Finish;
use rinfer_text::reply::Delta;
use serde_json::{Value, json};

/// Tells an answer as a message.
pub struct Spoken {
    id: String,
    model: String,
    /// What calls are named after.
    named: String,
    prompt: usize,
    blocks: Vec<Block>,
    /// Whether the last block is still open.
    open: bool,
    end: Option<End>,
    /// Messages that the model was not told.
    left_out: usize,
}

enum Block {
    Text(String),
    Thinking(String),
    Call { id: String, name: String, json: String },
}

impl Spoken {
    pub fn new(id: String, model: String, named: String, left_out: usize) -> Spoken {
        let (blocks, open) = (Vec::new(), false);
        Spoken { id, model, named, prompt: 0, blocks, open, end: None, left_out }
    }
    /// Closes the block that is open, and opens this one.
    fn start(&mut self, block: Block, frames: &mut Vec<Frame>) {
        self.close(frames);
        let start = json!({
            "type": "content_block_start", "index": self.blocks.len(), "content_block": block.started(),
        });
        frames.push(Frame::named("content_block_start", &start));
        self.blocks.push(block);
        self.open = true;
    }
    fn close(&mut self, frames: &mut Vec<Frame>) {
        if std::mem::take(&mut self.open) {
            let stop = json!({"type": "content_block_stop", "index": self.blocks.len() - 1});
            frames.push(Frame::named("content_block_stop", &stop));
        }
    }
    fn grow(&self, delta: &Value, frames: &mut Vec<Frame>) {
        let index = self.blocks.len() - 1;
        let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
        frames.push(Frame::named("content_block_delta", &event));
    }
    fn say(&mut self, text: &str, frames: &mut Vec<Frame>) {
        if !(self.open && matches!(self.blocks.last(), Some(Block::Text(_)))) {
            self.start(Block::Text(String::new()), frames);
        }
        if let Some(Block::Text(all)) = self.blocks.last_mut() {
            *all += text;
        }
        self.grow(&json!({"type": "text_delta", "text": text}), frames);
    }
    fn think(&mut self, text: &str, frames: &mut Vec<Frame>) {
        if !(self.open && matches!(self.blocks.last(), Some(Block::Thinking(_)))) {
            self.start(Block::Thinking(String::new()), frames);
        }
        if let Some(Block::Thinking(all)) = self.blocks.last_mut() {
            *all += text;
        }
        self.grow(&json!({"type": "thinking_delta", "thinking": text}), frames);
    }
    /// Why it ended, and the text that ended it.
    fn reason(&self) -> (Value, Value) {
        let Some(end) = &self.end else { return (Value::Null, Value::Null) };
        let reason = match (end.finish, &end.stop) {
            (Finish::Length, _) => "max_tokens",
            _ if end.calls > 0 => "tool_use",
            (_, Some(_)) => "stop_sequence",
            (_, None) => "end_turn",
        };
        let stop = end.stop.as_deref().filter(|_| reason == "stop_sequence");
        (reason.into(), stop.into())
    }
    fn usage(&self) -> Value {
        let usage = self.end.as_ref().map(|end| end.usage).unwrap_or_default();
        let prompt = if self.end.is_some() { usage.prompt } else { self.prompt };
        let mut told = json!({
            "input_tokens": prompt - usage.cached, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached, "output_tokens": usage.generated,
        });
        if self.left_out > 0 {
            told["truncated_messages"] = self.left_out.into();
        }
        told
    }
    fn message(&self) -> Value {
        let (reason, stop) = self.reason();
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": self.blocks.iter().map(Block::whole).collect::<Value>(),
            "stop_reason": reason, "stop_sequence": stop, "usage": self.usage(),
        })
    }
}

impl Block {
    fn started(&self) -> Value {
        match self {
            Block::Text(_) => json!({"type": "text", "text": ""}),
            Block::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Block::Call { id, name, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        }
    }
    fn whole(&self) -> Value {
        match self {
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": ""}),
            Block::Call { id, name, json } => {
                // One that was cut off has no input that is an object.
                let input = serde_json::from_str(json).unwrap_or_else(|_| json!({}));
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }
}

impl Voice for Spoken {
    fn begin(&mut self, prompt: usize) -> Vec<Frame> {
        self.prompt = prompt;
        let start = json!({"type": "message_start", "message": self.message()});
        vec![Frame::named("message_start", &start)]
    }
    fn delta(&mut self, _: usize, delta: Delta) -> Vec<Frame> {
        let mut frames = Vec::new();
        match delta {
            Delta::Content(text) => self.say(&text, &mut frames),
            Delta::Reasoning(text) => self.think(&text, &mut frames),
            Delta::Open { name, .. } => {
                let id = format!("{}_{}", self.named, self.blocks.len());
                self.start(Block::Call { id, name, json: String::new() }, &mut frames);
            }
            Delta::Arguments { json: text, .. } => {
                if let Some(Block::Call { json, .. }) = self.blocks.last_mut() {
                    *json += &text;
                    self.grow(
                        &json!({"type": "input_json_delta", "partial_json": text}),
                        &mut frames,
                    );
                }
            }
            Delta::Close { .. } => self.close(&mut frames),
            // Told as text, or a call that is not closed.
            Delta::Broken { .. } => {}
        }
        frames
    }
    fn end(&mut self, _: usize, end: End) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.close(&mut frames);
        self.end = Some(end);
        frames
    }
    fn finish(&mut self) -> Vec<Frame> {
        let (reason, stop) = self.reason();
        let delta = json!({
            "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": stop},
            "usage": self.usage(),
        });
        vec![
            Frame::named("message_delta", &delta),
            Frame::named("message_stop", &json!({"type": "message_stop"})),
        ]
    }
    fn fail(&mut self, refusal: &Refusal) -> Vec<Frame> {
        vec![Frame::named("error", &refusal.body(Dialect::Anthropic))]
    }
    fn idle(&self) -> Option<Frame> {
        Some(Frame::named("ping", &json!({"type": "ping"})))
    }
    fn whole(self: Box<Self>) -> Value {
        self.message()
    }
}
