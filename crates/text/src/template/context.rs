//! A conversation as the variables of a template.
use super::marks::Marks;
use super::{DateTime, Template, json, python};
use crate::chat::{Chat, Content, Message, Part, Role, ToolCall};
use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// How lists, objects and nothing appear to a template; each is tried when the one before fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Exact,
    /// As they are, and nothing counts as an empty list.
    Lenient,
    /// As text, and nothing counts as an empty list.
    Text,
    /// The same, and a message without content has an empty one.
    Filled,
}

/// Builds the variables of one rendering.
pub(super) struct Builder<'a> {
    pub template: &'a Template,
    pub marks: Marks<'a>,
    pub form: Form,
    pub now: DateTime,
}

impl Builder<'_> {
    pub fn chat(&self, chat: &Chat) -> Vec<(String, Value)> {
        let tools: Vec<Value> = chat.tools.iter().map(|tool| self.json(&tool.0)).collect();
        let tools = if tools.is_empty() { Value::from(()) } else { Value::from(tools) };
        let messages: Vec<Value> = chat.messages.iter().map(|m| self.message(m)).collect();
        let vars = chat.vars.iter().map(|(name, v)| (name.clone(), self.json(v)));
        let tokens = &self.template.tokens;
        [("documents".to_owned(), Value::from(()))]
            .into_iter()
            .chain(vars)
            .chain(self.functions(chat))
            .chain(tokens.iter().map(|(name, token)| (name.clone(), Value::from(token.as_str()))))
            .chain([
                ("messages".to_owned(), Value::from(messages)),
                ("tools".to_owned(), tools),
                ("add_generation_prompt".to_owned(), Value::from(chat.add_generation_prompt)),
                (python::LENIENT.to_owned(), Value::from(self.form != Form::Exact)),
            ])
            .collect()
    }
    fn as_text(&self) -> bool {
        matches!(self.form, Form::Text | Form::Filled)
    }
    /// Variables of templates that were written before there were `tools`.
    fn functions(&self, chat: &Chat) -> Vec<(String, Value)> {
        if !self.template.wants_functions {
            return Vec::new();
        }
        let tools: Vec<&Json> = chat.tools.iter().map(|tool| &tool.0).collect();
        let text = serde_json::to_string_pretty(&tools).unwrap_or_default();
        let date = self.now.strftime("%Y-%m-%d %H:%M:%S GMT");
        let given = [("functions", self.text(&text, false)), ("datetime", Value::from(date))];
        let fresh = given.into_iter().filter(|(name, _)| !chat.vars.contains_key(*name));
        fresh.map(|(name, value)| (name.to_owned(), value)).collect()
    }
    fn message(&self, message: &Message) -> Value {
        let ours = message.role == Role::Assistant;
        let text = |text: &str| self.text(text, ours);
        let role = match message.role {
            Role::Developer if self.template.knows_developer => "developer",
            Role::System | Role::Developer => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let mut fields = vec![("role", Value::from(role))];
        fields.push(("content", self.content(message.content.as_ref(), ours)));
        if let Some(reasoning) = &message.reasoning_content {
            // Transformers offers it under each name that a template may know.
            let names = ["reasoning_content", "thinking", "reasoning"];
            fields.extend(names.map(|name| (name, text(reasoning))));
        }
        if !message.tool_calls.is_empty() {
            let calls: Vec<Value> = message.tool_calls.iter().map(|c| self.call(c)).collect();
            fields.push(("tool_calls", Value::from(calls)));
        }
        fields.extend(message.tool_call_id.iter().map(|id| ("tool_call_id", text(id))));
        fields.extend(message.name.iter().map(|name| ("name", text(name))));
        Value::from_pairs(fields)
    }
    fn content(&self, content: Option<&Content>, ours: bool) -> Value {
        match content {
            None if self.template.tests_content && self.form != Form::Filled => Value::from(()),
            None => Value::from(""),
            Some(Content::Parts(parts)) if !self.as_text() => {
                let text = parts.iter().map(|Part::Text { text }| self.mark(text, ours)).collect();
                let parts = parts.iter().map(|Part::Text { text }| {
                    Value::from_pairs([
                        ("type", Value::from("text")),
                        ("text", self.text(text, ours)),
                    ])
                });
                Dual::value(parts.collect(), text)
            }
            Some(content) => self.text(&content.text(), ours),
        }
    }
    fn call(&self, call: &ToolCall) -> Value {
        let function = Value::from_pairs([
            ("name", self.text(&call.function.name, false)),
            ("arguments", self.arguments(&call.function.arguments)),
        ]);
        let id = call.id.iter().map(|id| ("id", self.text(id, false)));
        Value::from_pairs(id.chain([("type", Value::from("function")), ("function", function)]))
    }
    /// Arguments given as JSON text are an object to a template that looks inside, and that very
    /// text to one that prints them.
    fn arguments(&self, arguments: &Json) -> Value {
        let (value, text) = match arguments {
            Json::Null => (Value::from_pairs::<_, &str, Value>([]), Some("{}".to_owned())),
            Json::String(text) if text.trim().is_empty() => return self.arguments(&Json::Null),
            Json::String(text) => match serde_json::from_str(text) {
                Ok(object @ Json::Object(_)) => (self.json(&object), Some(self.mark(text, false))),
                _ => return self.text(text, false),
            },
            object => (self.json(object), None),
        };
        match (self.as_text(), text) {
            (true, text) => Value::from(text.or(json::dumps(&value).ok())),
            (_, Some(text)) => Dual::value(value, text),
            (_, None) => value,
        }
    }
    fn json(&self, json: &Json) -> Value {
        convert(json, &|text| self.text(text, false))
    }
    fn text(&self, text: &str, ours: bool) -> Value {
        Value::from(self.mark(text, ours))
    }
    /// The assistant may write what the template itself looks for, such as the end of thinking.
    fn mark(&self, text: &str, ours: bool) -> String {
        let allowed = if ours { self.template.searched.as_slice() } else { &[] };
        self.marks.mark(text, allowed).into_owned()
    }
}

/// JSON as a template's value, unmarked.
pub(super) fn plain(json: &Json) -> Value {
    convert(json, &|text| Value::from(text))
}

fn convert(json: &Json, text: &dyn Fn(&str) -> Value) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(v) => Value::from(*v),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Value::from(n),
            (_, Some(n)) => Value::from(n),
            _ => Value::from(n.as_f64()),
        },
        Json::String(s) => text(s),
        Json::Array(items) => items.iter().map(|item| convert(item, text)).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (text(key), convert(value, text))))
        }
    }
}

/// The characters beyond the first planes' letters that a conversation uses.
pub(super) fn characters(chat: &Chat) -> BTreeSet<char> {
    let mut used = BTreeSet::new();
    strings(chat, &mut |text| used.extend(text.chars().filter(|c| *c >= '\u{FDD0}')));
    used
}

/// A conversation's bytes of text, and some for each message.
pub(super) fn size(chat: &Chat) -> usize {
    let mut bytes = 100 * chat.messages.len();
    strings(chat, &mut |text| bytes += text.len());
    bytes
}

fn strings(chat: &Chat, each: &mut dyn FnMut(&str)) {
    for message in &chat.messages {
        match &message.content {
            Some(Content::Text(text)) => each(text),
            Some(Content::Parts(parts)) => parts.iter().for_each(|Part::Text { text }| each(text)),
            None => {}
        }
        let names = [&message.reasoning_content, &message.tool_call_id, &message.name];
        names.into_iter().flatten().for_each(|text| each(text));
        for call in &message.tool_calls {
            call.id.iter().chain([&call.function.name]).for_each(|text| each(text));
            json_strings(&call.function.arguments, each);
            // Escapes in JSON text become characters when it is parsed.
            if let Json::String(text) = &call.function.arguments
                && let Ok(json) = serde_json::from_str(text)
            {
                json_strings(&json, each);
            }
        }
    }
    chat.tools.iter().for_each(|tool| json_strings(&tool.0, each));
    chat.vars.values().for_each(|json| json_strings(json, each));
}

fn json_strings(json: &Json, each: &mut dyn FnMut(&str)) {
    match json {
        Json::String(text) => each(text),
        Json::Array(items) => items.iter().for_each(|item| json_strings(item, each)),
        Json::Object(map) => map.iter().for_each(|(key, value)| {
            each(key);
            json_strings(value, each);
        }),
        _ => {}
    }
}

/// A list or an object to a template that looks inside, text to one that prints it.
#[derive(Debug)]
struct Dual {
    inside: DynObject,
    text: String,
}

impl Dual {
    fn value(inside: Value, text: String) -> Value {
        match inside.as_object() {
            Some(object) => Value::from_object(Dual { inside: object.clone(), text }),
            None => Value::from(text),
        }
    }
}

impl Object for Dual {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.inside.repr()
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.inside.get_value(key)
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.inside.enumerate()
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
