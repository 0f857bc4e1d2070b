//! OpenAI's messages to the engine's. What a message may not be is refused by its place.
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{Fates, Fields, expected};
use crate::refusal::Refusal;
use rinfer_text::chat::{Content, Function, Message, Part, Role, ToolCall};
use serde_json::Value;

/// What a message may say and is not read.
const FATES: Fates = &[
    ("annotations", Inert("they are not part of what is said")),
    ("audio", Refused("the model can't hear")),
    ("function_call", Refused("use tool_calls")),
    ("refusal", Inert("a refusal that was said is in the content")),
];

/// All of them.
pub fn read(list: Vec<Value>, ignored: &mut Vec<String>) -> Result<Vec<Message>, Refusal> {
    if list.is_empty() {
        return Err(Refusal::field("messages", "is empty: give at least one message"));
    }
    let one = |(i, value)| message(Fields::of(value, &format!("messages[{i}]"))?, ignored);
    list.into_iter().enumerate().map(one).collect()
}

fn message(mut fields: Fields, ignored: &mut Vec<String>) -> Result<Message, Refusal> {
    let given = fields.text("role")?;
    let role = match fields.needed("role", given)?.as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        other => {
            let text = format!("'{other}' is none of system, developer, user, assistant, tool");
            return Err(Refusal::field(fields.path("role"), text));
        }
    };
    let content = content(&mut fields)?;
    if role == Role::Tool && content.is_none() {
        return Err(Refusal::field(
            fields.path("content"),
            "is missing: a tool's message has its result",
        ));
    }
    let reasoning = ["reasoning_content", "reasoning"].into_iter().map(|name| fields.text(name));
    let reasoning = reasoning.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().next();
    let message = Message {
        role,
        content: content
            .or_else(|| (role != Role::Assistant).then(|| Content::Text(String::new()))),
        reasoning_content: reasoning.filter(|text| !text.is_empty()),
        tool_calls: calls(&mut fields, ignored)?,
        tool_call_id: fields.text("tool_call_id")?,
        name: fields.text("name")?,
    };
    fields.finish(FATES, ignored)?;
    Ok(message)
}

/// A text, or its parts.
fn content(fields: &mut Fields) -> Result<Option<Content>, Refusal> {
    let path = fields.path("content");
    match fields.value("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(Content::Text(text))),
        Some(Value::Array(parts)) => {
            let one = |(i, value)| part(value, &format!("{path}[{i}]"));
            let parts: Vec<Part> =
                parts.into_iter().enumerate().map(one).collect::<Result<_, _>>()?;
            Ok(Some(Content::Parts(parts)))
        }
        Some(other) => Err(expected(&path, "a string or a list of parts", &other)),
    }
}

/// A part that is text.
pub fn part(value: Value, at: &str) -> Result<Part, Refusal> {
    let mut fields = Fields::of(value, at)?;
    let kind = fields.text("type")?;
    let kind = fields.needed("type", kind)?;
    let name = match kind.as_str() {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        "image_url" | "input_image" | "image" => {
            return Err(Refusal::field(at, "is an image, and the model can't see: send text"));
        }
        other => {
            let problem = format!("is of type '{other}', which the model can't read: send text");
            return Err(Refusal::field(at, problem));
        }
    };
    let text = fields.text(name)?;
    Ok(Part::Text { text: fields.needed(name, text)? })
}

fn calls(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Vec<ToolCall>, Refusal> {
    let path = fields.path("tool_calls");
    let list = fields.list("tool_calls")?.unwrap_or_default();
    let one = |(i, value)| {
        let mut call = Fields::of(value, &format!("{path}[{i}]"))?;
        let id = call.text("id")?;
        if let Some(kind) = call.text("type")?.filter(|kind| kind != "function") {
            let text = format!("'{kind}' is not function");
            return Err(Refusal::field(call.path("type"), text));
        }
        // The place among the calls, which parts of a stream have.
        call.count("index")?;
        let function = call.object("function")?;
        let mut function = call.needed("function", function)?;
        let name = function.text("name")?;
        let name = function.needed("name", name)?;
        let arguments = function.value("arguments").unwrap_or_default();
        function.finish(&[], ignored)?;
        call.finish(&[], ignored)?;
        Ok(ToolCall { id, function: Function { name, arguments } })
    };
    list.into_iter().enumerate().map(one).collect()
}
