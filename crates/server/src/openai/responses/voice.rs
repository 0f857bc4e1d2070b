//! Answers as OpenAI's responses: items of thoughts, text and calls, each announced, sent and closed.
use super::Store;
use crate::app::App;
use crate::refusal::{Dialect, Refusal};
use crate::turn::End;
use crate::voice::{Frame, Voice};
use rinfer_engine::request::Finish;
use rinfer_text::chat::Message;
use rinfer_text::reply::{Delta, Reply};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Tells an answer as a response.
pub struct Spoken {
    id: String,
    created: u64,
    model: String,
    /// What it repeats of the request.
    echo: Map<String, Value>,
    /// What items are named after.
    named: String,
    items: Vec<Item>,
    /// Whether the last item is still open.
    open: bool,
    end: Option<End>,
    failed: Option<Refusal>,
    /// Events so far.
    sent: u64,
    reply: Reply,
    /// What was said before, if it is to be kept.
    said: Option<Vec<Message>>,
    /// Messages that the model was not told.
    left_out: usize,
    store: Arc<Store>,
}

/// An item of the output.
enum Item {
    Reasoning(String),
    Message(String),
    Call { name: String, json: String },
}

impl Spoken {
    pub fn new(
        app: &App,
        model: String,
        echo: Map<String, Value>,
        said: Option<Vec<Message>>,
        left_out: usize,
    ) -> Spoken {
        Spoken {
            id: app.config.name("resp_"),
            created: (app.config.clock)(),
            model,
            echo,
            named: app.config.name(""),
            items: Vec::new(),
            open: false,
            end: None,
            failed: None,
            sent: 0,
            reply: Reply::default(),
            said,
            left_out,
            store: app.store.clone(),
        }
    }
    fn frame(&mut self, kind: &'static str, mut event: Value) -> Frame {
        event["type"] = kind.into();
        event["sequence_number"] = self.sent.into();
        self.sent += 1;
        Frame::named(kind, &event)
    }
    /// An event about the last item.
    fn about(&mut self, kind: &'static str, mut event: Value) -> Frame {
        let index = self.items.len() - 1;
        event["output_index"] = index.into();
        event["item_id"] = self.items[index].id(&self.named, index).into();
        self.frame(kind, event)
    }
    fn start(&mut self, item: Item, frames: &mut Vec<Frame>) {
        self.close("completed", frames);
        let index = self.items.len();
        let told = item.told(&self.named, index, "in_progress");
        let part = item.part();
        self.items.push(item);
        self.open = true;
        let added = json!({"output_index": index, "item": told});
        frames.push(self.frame("response.output_item.added", added));
        if let Some(part) = part {
            frames.push(
                self.about(
                    "response.content_part.added",
                    json!({"content_index": 0, "part": part}),
                ),
            );
        }
    }
    fn close(&mut self, status: &str, frames: &mut Vec<Frame>) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let index = self.items.len() - 1;
        let item = &self.items[index];
        let (kind, done) = match item {
            Item::Reasoning(text) => {
                ("response.reasoning_text.done", json!({"content_index": 0, "text": text}))
            }
            Item::Message(text) => (
                "response.output_text.done",
                json!({"content_index": 0, "text": text, "logprobs": []}),
            ),
            Item::Call { name, json } => {
                ("response.function_call_arguments.done", json!({"name": name, "arguments": json}))
            }
        };
        let (part, told) = (item.part(), item.told(&self.named, index, status));
        frames.push(self.about(kind, done));
        if let Some(part) = part {
            frames.push(
                self.about("response.content_part.done", json!({"content_index": 0, "part": part})),
            );
        }
        let done = json!({"output_index": index, "item": told});
        frames.push(self.frame("response.output_item.done", done));
    }
    fn say(&mut self, text: &str, frames: &mut Vec<Frame>) {
        if !(self.open && matches!(self.items.last(), Some(Item::Message(_)))) {
            self.start(Item::Message(String::new()), frames);
        }
        if let Some(Item::Message(all)) = self.items.last_mut() {
            *all += text;
        }
        let delta = json!({"content_index": 0, "delta": text, "logprobs": []});
        frames.push(self.about("response.output_text.delta", delta));
    }
    fn think(&mut self, text: &str, frames: &mut Vec<Frame>) {
        if !(self.open && matches!(self.items.last(), Some(Item::Reasoning(_)))) {
            self.start(Item::Reasoning(String::new()), frames);
        }
        if let Some(Item::Reasoning(all)) = self.items.last_mut() {
            *all += text;
        }
        frames.push(
            self.about("response.reasoning_text.delta", json!({"content_index": 0, "delta": text})),
        );
    }
    fn is_cut(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.finish == Finish::Length)
    }
    fn status(&self) -> &'static str {
        match (&self.failed, &self.end) {
            (Some(_), _) => "failed",
            (None, None) => "in_progress",
            (None, Some(_)) if self.is_cut() => "incomplete",
            (None, Some(_)) => "completed",
        }
    }
    fn response(&self) -> Value {
        let last = self.items.len().wrapping_sub(1);
        let told = |(i, item): (usize, &Item)| {
            let cut = i == last && self.is_cut();
            item.told(&self.named, i, if cut { "incomplete" } else { "completed" })
        };
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": self.status(),
            "background": false, "model": self.model, "error": null, "incomplete_details": null,
            "output": self.items.iter().enumerate().map(told).collect::<Value>(),
            "usage": null,
        });
        response.as_object_mut().into_iter().for_each(|all| all.extend(self.echo.clone()));
        if self.is_cut() {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        if let Some(refusal) = &self.failed {
            response["error"] = json!({"code": "server_error", "message": refusal.message});
        }
        if let Some(end) = &self.end {
            let usage = end.usage;
            response["usage"] = json!({
                "input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.generated,
                "output_tokens_details": {"reasoning_tokens": end.thoughts},
                "total_tokens": usage.prompt + usage.generated,
            });
            if self.left_out > 0 {
                response["usage"]["truncated_messages"] = self.left_out.into();
            }
        }
        response
    }
    /// The item's call is named as the conversation names it.
    fn keep(&mut self) {
        let Some(mut said) = self.said.take() else { return };
        let calls =
            self.items.iter().enumerate().filter(|(_, item)| matches!(item, Item::Call { .. }));
        let ids: Vec<String> = calls.map(|(i, _)| format!("call_{}_{i}", self.named)).collect();
        let reply = std::mem::take(&mut self.reply);
        said.push(reply.message(|i| ids.get(i).cloned().unwrap_or_default()));
        self.store.put(self.id.clone(), said);
    }
}

impl Item {
    fn id(&self, named: &str, index: usize) -> String {
        let prefix = match self {
            Item::Reasoning(_) => "rs",
            Item::Message(_) => "msg",
            Item::Call { .. } => "fc",
        };
        format!("{prefix}_{named}_{index}")
    }
    /// The part that its text is.
    fn part(&self) -> Option<Value> {
        match self {
            Item::Reasoning(text) => Some(json!({"type": "reasoning_text", "text": text})),
            Item::Message(text) => Some(
                json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
            ),
            Item::Call { .. } => None,
        }
    }
    fn told(&self, named: &str, index: usize, status: &str) -> Value {
        let id = self.id(named, index);
        let content = || -> Value {
            // One that has just begun has no part yet.
            let empty = status == "in_progress";
            self.part().filter(|_| !empty).into_iter().collect()
        };
        match self {
            Item::Reasoning(_) => {
                json!({"id": id, "type": "reasoning", "summary": [], "content": content(), "status": status})
            }
            Item::Message(_) => json!({
                "id": id, "type": "message", "role": "assistant", "content": content(), "status": status,
            }),
            Item::Call { name, json } => json!({
                "id": id, "type": "function_call", "call_id": format!("call_{named}_{index}"), "name": name,
                "arguments": json, "status": status,
            }),
        }
    }
}

impl Voice for Spoken {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        let response = self.response();
        ["response.created", "response.in_progress"]
            .map(|kind| self.frame(kind, json!({"response": response})))
            .into()
    }
    fn delta(&mut self, _: usize, delta: Delta) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.reply.push(&delta);
        match delta {
            Delta::Content(text) => self.say(&text, &mut frames),
            Delta::Reasoning(text) => self.think(&text, &mut frames),
            Delta::Open { name, .. } => {
                self.start(Item::Call { name, json: String::new() }, &mut frames);
            }
            Delta::Arguments { json: text, .. } => {
                if let Some(Item::Call { json, .. }) = self.items.last_mut() {
                    *json += &text;
                    frames.push(
                        self.about(
                            "response.function_call_arguments.delta",
                            json!({"delta": text}),
                        ),
                    );
                }
            }
            Delta::Close { .. } => self.close("completed", &mut frames),
            // Told as text, or a call that is not closed.
            Delta::Broken { .. } => {}
        }
        frames
    }
    fn end(&mut self, _: usize, end: End) -> Vec<Frame> {
        let mut frames = Vec::new();
        let status = if end.finish == Finish::Length { "incomplete" } else { "completed" };
        self.close(status, &mut frames);
        self.end = Some(end);
        frames
    }
    fn finish(&mut self) -> Vec<Frame> {
        self.keep();
        let kind = if self.is_cut() { "response.incomplete" } else { "response.completed" };
        let response = self.response();
        vec![self.frame(kind, json!({"response": response}))]
    }
    fn fail(&mut self, refusal: &Refusal) -> Vec<Frame> {
        self.failed = Some(refusal.clone());
        let response = self.response();
        let error = refusal.body(Dialect::OpenAi)["error"].clone();
        let error =
            json!({"code": error["code"], "message": error["message"], "param": error["param"]});
        vec![
            self.frame("error", error),
            self.frame("response.failed", json!({"response": response})),
        ]
    }
    fn whole(self: Box<Self>) -> Value {
        self.response()
    }
}
