//! A response's input: items, of which several may make one message.
use crate::fields::Fate::Inert;
use crate::fields::{Fates, Fields, expected};
use crate::openai::messages;
use crate::refusal::Refusal;
use rinfer_text::chat::{Content, Function, Message, Part, Role, ToolCall};
use serde_json::Value;

/// What an item may say and is not read.
const FATES: Fates = &[
    ("id", Inert("items are told by their order")),
    ("status", Inert("an item of the input is complete")),
    ("summary", Inert("thoughts are told whole")),
    ("encrypted_content", Inert("thoughts are not encrypted")),
    ("phase", Inert("a message is a message")),
    ("namespace", Inert("a function has one name")),
];

/// Adds a text or items to a conversation.
pub fn read(input: Value, to: &mut Vec<Message>, ignored: &mut Vec<String>) -> Result<(), Refusal> {
    let items = match input {
        Value::String(text) => {
            to.push(Message::new(Role::User, text));
            return Ok(());
        }
        Value::Array(items) => items,
        other => return Err(expected("input", "a string or a list of items", &other)),
    };
    for (i, value) in items.into_iter().enumerate() {
        item(Fields::of(value, &format!("input[{i}]"))?, to, ignored)?;
    }
    match to.is_empty() {
        true => Err(Refusal::field("input", "is empty: give at least one item")),
        false => Ok(()),
    }
}

fn item(mut item: Fields, to: &mut Vec<Message>, ignored: &mut Vec<String>) -> Result<(), Refusal> {
    let kind = item.text("type")?;
    match kind.as_deref().unwrap_or("message") {
        "message" => message(&mut item, to)?,
        "function_call" => {
            let id = item.text("call_id")?;
            let id = Some(item.needed("call_id", id)?);
            let name = item.text("name")?;
            let name = item.needed("name", name)?;
            let arguments = item.value("arguments").unwrap_or_default();
            let call = ToolCall { id, function: Function { name, arguments } };
            assistant(to).tool_calls.push(call);
        }
        "function_call_output" => {
            let id = item.text("call_id")?;
            let id = item.needed("call_id", id)?;
            let content = content(&mut item, "output")?;
            to.push(Message {
                tool_call_id: Some(id),
                content: Some(content),
                ..Message::new(Role::Tool, "")
            });
        }
        "reasoning" => {
            let parts = item.list("content")?.unwrap_or_default();
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            let text: String = texts.collect();
            if !text.is_empty() {
                assistant(to).reasoning_content.get_or_insert_default().push_str(&text);
            }
        }
        other => {
            let text = format!(
                "'{other}' is none of message, function_call, function_call_output, reasoning"
            );
            return Err(Refusal::field(item.path("type"), text));
        }
    }
    item.finish(FATES, ignored)
}

fn message(item: &mut Fields, to: &mut Vec<Message>) -> Result<(), Refusal> {
    let role = item.text("role")?;
    let role = match item.needed("role", role)?.as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => {
            let text = format!("'{other}' is none of system, developer, user, assistant");
            return Err(Refusal::field(item.path("role"), text));
        }
    };
    let said = content(item, "content")?;
    if role == Role::Assistant {
        let message = assistant(to);
        let before = message.content.take().map(|content| content.text()).unwrap_or_default();
        message.content = Some(Content::Text(before + &said.text()));
    } else {
        to.push(Message { content: Some(said), ..Message::new(role, "") });
    }
    Ok(())
}

fn content(item: &mut Fields, name: &str) -> Result<Content, Refusal> {
    let path = item.path(name);
    let value = item.value(name);
    match item.needed(name, value)? {
        Value::String(text) => Ok(Content::Text(text)),
        Value::Array(parts) => {
            let one = |(i, value)| messages::part(value, &format!("{path}[{i}]"));
            let parts: Vec<Part> =
                parts.into_iter().enumerate().map(one).collect::<Result<_, _>>()?;
            Ok(Content::Parts(parts))
        }
        other => Err(expected(&path, "a string or a list of parts", &other)),
    }
}

/// The assistant's message that the conversation ends with, or a new one: its thoughts, its text and
/// its calls are items of their own.
fn assistant(to: &mut Vec<Message>) -> &mut Message {
    if to.last().is_none_or(|last| last.role != Role::Assistant) {
        to.push(Message { content: None, ..Message::new(Role::Assistant, "") });
    }
    let last = to.len() - 1;
    &mut to[last]
}
