//! A conversation as callers hold it: messages, tool calls and tools, in the shape of OpenAI's API.
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// What a prompt is rendered from.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// Oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// Whether the prompt ends where the assistant is to speak.
    pub add_generation_prompt: bool,
    /// Further variables for the template, such as `enable_thinking` or `documents`. They count as
    /// message content: control tokens in them are text.
    pub vars: Map<String, Value>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; none where an assistant only calls tools.
    #[serde(default)]
    pub content: Option<Content>,
    /// What the assistant thought before it spoke.
    #[serde(default, alias = "reasoning", alias = "thinking")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tools the assistant calls.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The speaker's or the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, by another name: rendered as `system` by a template that has no `developer`.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    #[serde(alias = "function")]
    Tool,
}

/// A message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// A list of parts.
    Parts(Vec<Part>),
}

/// A part of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What the tool's answer refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The function and its arguments.
    pub function: Function,
}

/// A function and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The function's name.
    pub name: String,
    /// An object, or a string that holds one as JSON.
    #[serde(default)]
    pub arguments: Value,
}

/// A tool's declaration, `{"type": "function", "function": {"name", "description", "parameters"}}`,
/// as it was given: templates print it key by key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tool(pub Value);

impl Function {
    /// The arguments, if they are an object or a string that holds one; nothing is an empty one.
    pub fn object(&self) -> Option<Map<String, Value>> {
        match &self.arguments {
            Value::Null => Some(Map::new()),
            Value::String(text) if text.trim().is_empty() => Some(Map::new()),
            Value::String(text) => serde_json::from_str(text).ok(),
            Value::Object(object) => Some(object.clone()),
            _ => None,
        }
    }
}

impl Message {
    /// A message of plain text.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message {
            role,
            content: Some(Content::Text(content.into())),
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }
}

impl Content {
    /// The text, its parts joined.
    pub fn text(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                parts.iter().map(|Part::Text { text }| text.as_str()).collect()
            }
        }
    }
}

impl Tool {
    /// A function with a JSON Schema of its arguments.
    pub fn function(name: &str, description: &str, parameters: Value) -> Tool {
        Tool(serde_json::json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }))
    }
    /// The function's name, if the declaration has one.
    pub fn name(&self) -> Option<&str> {
        self.0.get("function").unwrap_or(&self.0).get("name")?.as_str()
    }
}

fn null_is_empty<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ToolCall>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}
