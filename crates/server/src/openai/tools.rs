//! OpenAI's tools and what may be called.
use crate::fields::{Fields, expected};
use crate::refusal::Refusal;
use rinfer_engine::turn::ToolChoice;
use rinfer_text::chat::Tool;
use serde_json::{Value, json};

/// `tools`, as models are shown them: without what only the API is told.
pub fn read(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Vec<Tool>, Refusal> {
    let list = fields.list("tools")?.unwrap_or_default();
    let one = |(i, value)| {
        let mut tool = Fields::of(value, &format!("tools[{i}]"))?;
        let kind = tool.text("type")?;
        let kind = tool.needed("type", kind)?;
        if kind != "function" {
            let text = format!("'{kind}' is not function, which is the only kind of tools here");
            return Err(Refusal::field(tool.path("type"), text));
        }
        let function = tool.object("function")?;
        let function = tool.needed("function", function)?;
        tool.finish(&[], ignored)?;
        declare(function, ignored)
    };
    list.into_iter().enumerate().map(one).collect()
}

/// A function's declaration.
pub fn declare(mut function: Fields, ignored: &mut Vec<String>) -> Result<Tool, Refusal> {
    let name = function.text("name")?;
    let name = function.needed("name", name)?;
    let description = function.text("description")?;
    let path = function.path("parameters");
    let parameters =
        function.value("parameters").unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    if !parameters.is_object() {
        return Err(expected(&path, "a JSON Schema of an object", &parameters));
    }
    // Calls are held to their schemas in any case.
    function.flag("strict")?;
    function.finish(&[], ignored)?;
    let mut declared = json!({"type": "function", "function": {"name": name}});
    if let Some(description) = description {
        declared["function"]["description"] = description.into();
    }
    declared["function"]["parameters"] = parameters;
    Ok(Tool(declared))
}

/// `tool_choice`.
pub fn choice(fields: &mut Fields) -> Result<ToolChoice, Refusal> {
    let path = fields.path("tool_choice");
    let Some(value) = fields.value("tool_choice") else { return Ok(ToolChoice::Auto) };
    match &value {
        Value::String(word) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" | "any" => Ok(ToolChoice::Required),
            other => {
                Err(Refusal::field(path, format_args!("'{other}' is none of auto, none, required")))
            }
        },
        Value::Object(_) => {
            let name = value.pointer("/function/name").or_else(|| value.get("name"));
            let named = name.and_then(Value::as_str).filter(|_| value["type"] == "function");
            let named = named.map(|name| ToolChoice::Named(name.into()));
            named.ok_or_else(|| {
                expected(&path, "{\"type\": \"function\", \"function\": {\"name\": …}}", &value)
            })
        }
        other => Err(expected(&path, "a word or an object", other)),
    }
}
