//! Anthropic's messages, system texts and tools to the engine's.
use super::edits;
use crate::fields::Fate::{Inert, Refused};
use crate::fields::{Fates, Fields, expected};
use crate::refusal::Refusal;
use rinfer_engine::turn::{Ask, ToolChoice};
use rinfer_text::chat::{Content, Function, Message, Role, Tool, ToolCall};
use serde_json::{Value, json};

/// What a block may say that changes nothing here.
const BLOCK: Fates = &[
    ("cache_control", Inert("what was computed is kept while there is room")),
    ("citations", Inert("nothing is cited")),
    ("signature", Inert("thoughts are not signed")),
    ("is_error", Inert("the text says so")),
    ("caller", Inert("who called is the model")),
];

/// The conversation, its tools and what may be called.
pub fn read(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Ask, Refusal> {
    let mut messages = Vec::new();
    if let Some(system) = fields.value("system") {
        messages.push(Message::new(Role::System, text(system, "system", ignored)?));
    }
    let list = fields.list("messages")?;
    let list = fields.needed("messages", list)?;
    if list.is_empty() {
        return Err(Refusal::field("messages", "is empty: give at least one message"));
    }
    for (i, value) in list.into_iter().enumerate() {
        message(Fields::of(value, &format!("messages[{i}]"))?, &mut messages, ignored)?;
    }
    edits::read(fields, &mut messages, ignored)?;
    let tools = tools(fields, ignored)?;
    let (choice, single) = choice(fields, ignored)?;
    Ok(Ask { messages, tools, choice, single, ..Ask::default() })
}

/// A text, or blocks of it.
fn text(value: Value, at: &str, ignored: &mut Vec<String>) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text),
        Value::Array(blocks) => {
            let one = |(i, value)| {
                let mut block = Fields::of(value, &format!("{at}[{i}]"))?;
                let kind = kind(&mut block)?;
                if kind != "text" {
                    return Err(unreadable(&block, &kind));
                }
                let text = block.text("text")?;
                let text = block.needed("text", text)?;
                block.finish(BLOCK, ignored)?;
                Ok(text)
            };
            let texts: Vec<String> =
                blocks.into_iter().enumerate().map(one).collect::<Result<_, _>>()?;
            Ok(texts.join("\n"))
        }
        other => Err(expected(at, "a string or a list of blocks", &other)),
    }
}

fn kind(block: &mut Fields) -> Result<String, Refusal> {
    let kind = block.text("type")?;
    block.needed("type", kind)
}

fn unreadable(block: &Fields, kind: &str) -> Refusal {
    let problem = match kind {
        "image" => "is an image, and the model can't see: send text".into(),
        other => format!("is of type '{other}', which the model can't read: send text"),
    };
    Refusal::field(block.path("type"), problem)
}

/// One message becomes one, or several: results of tools are messages of their own.
fn message(
    mut fields: Fields,
    to: &mut Vec<Message>,
    ignored: &mut Vec<String>,
) -> Result<(), Refusal> {
    let given = fields.text("role")?;
    let role = match fields.needed("role", given)?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => {
            let text = format!("'{other}' is none of user, assistant, system");
            return Err(Refusal::field(fields.path("role"), text));
        }
    };
    let path = fields.path("content");
    let content = fields.value("content");
    let content = fields.needed("content", content)?;
    fields.finish(&[], ignored)?;
    let blocks = match content {
        Value::String(text) => {
            to.push(Message::new(role, text));
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        other => return Err(expected(&path, "a string or a list of blocks", &other)),
    };
    let mut said = Message::new(role, "");
    let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
    for (i, value) in blocks.into_iter().enumerate() {
        let mut block = Fields::of(value, &format!("{path}[{i}]"))?;
        match kind(&mut block)?.as_str() {
            "text" => texts.push({
                let text = block.text("text")?;
                block.needed("text", text)?
            }),
            "thinking" if role == Role::Assistant => thoughts.extend(block.text("thinking")?),
            // What only its author can read.
            "redacted_thinking" if role == Role::Assistant => drop(block.value("data")),
            "tool_use" if role == Role::Assistant => said.tool_calls.push(call(&mut block)?),
            "tool_result" if role == Role::User => to.push(result(&mut block, ignored)?),
            other => return Err(unreadable(&block, other)),
        }
        block.finish(BLOCK, ignored)?;
    }
    said.reasoning_content = Some(thoughts.join("\n")).filter(|text| !text.is_empty());
    said.content = match texts.join("\n") {
        text if text.is_empty() && !said.tool_calls.is_empty() => None,
        text => Some(Content::Text(text)),
    };
    // A message of results only says nothing itself.
    let empty = said.content.as_ref().is_some_and(|content| content.text().is_empty());
    if !(empty && role == Role::User && to.last().is_some_and(|last| last.role == Role::Tool)) {
        to.push(said);
    }
    Ok(())
}

fn call(block: &mut Fields) -> Result<ToolCall, Refusal> {
    let id = block.text("id")?;
    let name = block.text("name")?;
    let name = block.needed("name", name)?;
    let arguments = block.map("input")?.unwrap_or_default().into();
    Ok(ToolCall { id, function: Function { name, arguments } })
}

fn result(block: &mut Fields, ignored: &mut Vec<String>) -> Result<Message, Refusal> {
    let id = block.text("tool_use_id")?;
    let id = block.needed("tool_use_id", id)?;
    let path = block.path("content");
    let content =
        block.value("content").map(|content| text(content, &path, ignored)).transpose()?;
    Ok(Message { tool_call_id: Some(id), ..Message::new(Role::Tool, content.unwrap_or_default()) })
}

fn tools(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Vec<Tool>, Refusal> {
    let list = fields.list("tools")?.unwrap_or_default();
    let mut all = Vec::new();
    for (i, value) in list.into_iter().enumerate() {
        let at = format!("tools[{i}]");
        let mut tool = Fields::of(value, &at)?;
        // Agents offer tools that a server would run, or that only Anthropic's models know, to every server.
        if let Some(kind) = tool.text("type")?.filter(|kind| kind != "custom") {
            ignored.push(format!("{at} ({kind})"));
            continue;
        }
        let name = tool.text("name")?;
        let name = tool.needed("name", name)?;
        let description = tool.text("description")?;
        let schema = tool.map("input_schema")?;
        let schema = tool.needed("input_schema", schema)?;
        let fates = &[
            ("cache_control", Inert("what was computed is kept while there is room")),
            ("strict", Inert("calls are held to their schemas in any case")),
            ("eager_input_streaming", Inert("arguments are sent as they come")),
            ("input_examples", Refused("put examples into the description")),
        ];
        tool.finish(fates, ignored)?;
        let mut function = json!({"name": name});
        if let Some(description) = description {
            function["description"] = description.into();
        }
        function["parameters"] = schema.into();
        all.push(Tool(json!({"type": "function", "function": function})));
    }
    Ok(all)
}

fn choice(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<(ToolChoice, bool), Refusal> {
    let Some(mut given) = fields.object("tool_choice")? else {
        return Ok((ToolChoice::Auto, false));
    };
    let choice = match kind(&mut given)?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => {
            let name = given.text("name")?;
            ToolChoice::Named(given.needed("name", name)?)
        }
        other => {
            let text = format!("'{other}' is none of auto, any, tool, none");
            return Err(Refusal::field(given.path("type"), text));
        }
    };
    let one = given.flag("disable_parallel_tool_use")? == Some(true);
    given.finish(&[], ignored)?;
    Ok((choice, one))
}
