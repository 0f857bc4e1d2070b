//! What a tool's JSON Schema says of a parameter: which types its values may have, for syntaxes
//! that write values without their types.
use super::Syntax;
use crate::chat::Tool;
use serde_json::{Map, Value, json};

/// References that lead on to others; more are a circle.
const MAX_DEPTH: usize = 32;

/// The tools that a model may call.
#[derive(Clone, Debug, Default)]
pub struct Tools(Vec<Declared>);

/// A tool's name and its parameters' JSON Schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The name to call it by.
    pub name: String,
    /// A JSON Schema of an object.
    pub parameters: Value,
    /// Whether it is one that the model knows without being shown it.
    pub built_in: bool,
}

impl Tools {
    /// Of declarations; one without a name can't be called.
    pub fn new(tools: &[Tool]) -> Tools {
        let declared = |tool: &Tool| {
            let function = tool.0.get("function").unwrap_or(&tool.0);
            let parameters = function.get("parameters").or_else(|| function.get("input_schema"));
            let parameters = parameters.filter(|v| v.is_object()).cloned();
            let parameters =
                parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
            Some(Declared { name: tool.name()?.to_owned(), parameters, built_in: false })
        };
        Tools(tools.iter().filter_map(declared).collect())
    }
    /// With those that a model was made to call and that the template's variables name, if they are
    /// not declared.
    pub fn with_built_in(mut self, syntax: &Syntax, vars: &Map<String, Value>) -> Tools {
        let more = syntax.built_in(vars).into_iter();
        let more: Vec<Declared> = more.filter(|tool| self.get(&tool.name).is_none()).collect();
        self.0.extend(more);
        self
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// All, in their order.
    pub fn all(&self) -> &[Declared] {
        &self.0
    }
    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Declared> {
        self.0.iter().find(|tool| tool.name == name)
    }
    /// The types of a tool's parameter: any, if nothing is known of it.
    pub(crate) fn types(&self, tool: &str, parameter: &str) -> Types {
        let types = self.get(tool).and_then(|tool| property_types(&tool.parameters, parameter));
        types.unwrap_or(Types::ANY)
    }
}

/// The types that a schema leaves to a property of its objects; none if it says nothing of it.
pub(crate) fn property_types(root: &Value, name: &str) -> Option<Types> {
    types_in(root, root, name, 0)
}

fn types_in(root: &Value, schema: &Value, name: &str, depth: usize) -> Option<Types> {
    let schema = schema.as_object().filter(|_| depth <= MAX_DEPTH)?;
    let own = schema.get("properties").and_then(|all| all.get(name));
    let other = schema.get("additionalProperties").filter(|v| v.is_object());
    let referred = schema.get("$ref").and_then(|at| resolve(root, at));
    let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let within = |inner: &Value| types_in(root, inner, name, depth + 1);
    let either = |key: &str| list(key).filter_map(within).reduce(|a, b| Types(a.0 | b.0));
    let all = own.map(|own| Types::of(root, own)).into_iter();
    let all = all.chain(referred.into_iter().chain(list("allOf")).filter_map(within));
    let all = all.chain(["anyOf", "oneOf"].into_iter().filter_map(either));
    all.reduce(|a, b| Types(a.0 & b.0)).or(other.map(|other| Types::of(root, other)))
}

/// A parameter's schema, wherever the schema of all has it.
pub(crate) fn property<'a>(
    root: &'a Value,
    schema: &'a Value,
    name: &str,
    depth: usize,
) -> Option<&'a Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(found) = schema.get("properties").and_then(|all| all.get(name)) {
        return Some(found);
    }
    let referred = schema.get("$ref").and_then(|at| resolve(root, at));
    let branches = ["allOf", "anyOf", "oneOf"].into_iter();
    let branches = branches.filter_map(|key| schema.get(key)?.as_array()).flatten();
    let mut inner = referred.into_iter().chain(branches);
    let other = || schema.get("additionalProperties").filter(|v| v.is_object());
    inner.find_map(|inner| property(root, inner, name, depth + 1)).or_else(other)
}

pub(crate) fn resolve<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    root.pointer(reference.as_str()?.strip_prefix('#')?)
}

/// Types that a value may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub const STRING: Types = Types(1);
    const NULL: Types = Types(2);
    pub const TEXT_OR_NULL: Types = Types(3);
    const BOOLEAN: Types = Types(4);
    const INTEGER: Types = Types(8);
    const NUMBER: Types = Types(16 | 8);
    const ARRAY: Types = Types(32);
    const OBJECT: Types = Types(64);
    const NONE: Types = Types(0);
    pub const NOT_STRING: Types = Types(126);
    pub const ANY: Types = Types(127);

    pub fn of(root: &Value, schema: &Value) -> Types {
        Types::within(root, schema, 0)
    }
    fn within(root: &Value, schema: &Value, depth: usize) -> Types {
        let Some(schema) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else {
            return Types::ANY;
        };
        let mut types = Types::ANY;
        let mut both = |other: Types| types = Types(types.0 & other.0);
        match schema.get("type") {
            Some(Value::String(name)) => both(Types::named(name)),
            Some(Value::Array(names)) => {
                both(any(names, |n| Types::named(n.as_str().unwrap_or(""))))
            }
            _ => {}
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            both(any(values, Types::of_value));
        }
        schema.get("const").into_iter().for_each(|value| both(Types::of_value(value)));
        if let Some(inner) = schema.get("$ref").and_then(|at| resolve(root, at)) {
            both(Types::within(root, inner, depth + 1));
        }
        for branches in ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array())
        {
            both(any(branches, |inner| Types::within(root, inner, depth + 1)));
        }
        for inner in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            both(Types::within(root, inner, depth + 1));
        }
        types
    }
    fn named(name: &str) -> Types {
        match name.to_ascii_lowercase().as_str() {
            "string" => Types::STRING,
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => Types::ANY,
        }
    }
    pub fn of_value(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Number(n) if n.is_f64() => Types(16),
            Value::Number(_) => Types::INTEGER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }
    pub fn is_object(self) -> bool {
        self == Types::OBJECT
    }
    pub fn has_array(self) -> bool {
        self.0 & Types::ARRAY.0 != 0
    }
    pub fn has_object(self) -> bool {
        self.0 & Types::OBJECT.0 != 0
    }
    /// Whether these are all the other's too.
    pub fn within_all(self, other: Types) -> bool {
        self.0 & !other.0 == 0
    }
}

fn any(values: &[Value], types: impl Fn(&Value) -> Types) -> Types {
    values.iter().map(types).fold(Types::NONE, |a, b| Types(a.0 | b.0))
}

/// The value that `text`, written without quotes, stands for: of a type that is not a string if it
/// can be read so, in JSON or else in Python's notation, and the text itself otherwise.
pub(crate) fn typed(text: &str, types: Types) -> String {
    let quoted = || Value::String(text.to_owned()).to_string();
    if types == Types::STRING {
        return quoted();
    }
    let trimmed = text.trim();
    if let Ok(value) = serde_json::from_str::<Value>(trimmed) {
        let found = Types::of_value(&value);
        // A string in quotes is one where a string is only one of the possible types.
        if found.within_all(types) {
            return trimmed.to_owned();
        }
        return quoted();
    }
    match super::python::literal(trimmed) {
        Some(value) if !value.is_string() && Types::of_value(&value).within_all(types) => {
            value.to_string()
        }
        _ => quoted(),
    }
}

/// An object of arguments by their names; none if one is given twice.
pub(crate) fn object(pairs: impl IntoIterator<Item = (String, Value)>) -> Option<Value> {
    let mut object = Map::new();
    for (key, value) in pairs {
        if object.insert(key, value).is_some() {
            return None;
        }
    }
    Some(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: Value, text: &str, want: &str) {
        let tool = Tool::function(
            "f",
            "",
            json!({"properties": {"x": schema}, "$defs": {
            "colour": {"enum": ["red", 3]}, "round": {"$ref": "#/$defs/round"}}}),
        );
        assert_eq!(typed(text, Tools::new(&[tool]).types("f", "x")), want, "{text:?}");
    }

    #[test]
    fn text_has_the_type_that_the_schema_says() {
        check(json!({"type": "string"}), "3", "\"3\"");
        check(json!({"type": "string"}), " a\"b\n", r#"" a\"b\n""#);
        check(json!({"type": "integer"}), " 3 ", "3");
        check(json!({"type": "integer"}), "3.5", "\"3.5\"");
        check(json!({"type": "number"}), "1e3", "1e3");
        check(json!({"type": "boolean"}), "True", "true");
        check(json!({"type": "boolean"}), "false", "false");
        check(json!({"type": "array"}), "['src', 'a b']", r#"["src","a b"]"#);
        check(json!({"type": "array"}), r#"["a", 1]"#, r#"["a", 1]"#);
        check(json!({"type": "object"}), "{'a': None}", r#"{"a":null}"#);
        check(json!({"type": ["string", "null"]}), "null", "null");
        check(json!({"type": ["string", "null"]}), "None", "null");
        check(json!({"type": ["string", "null"]}), "none", "\"none\"");
        check(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "7", "7");
        check(json!({"$ref": "#/$defs/colour"}), "3", "3");
        check(json!({"$ref": "#/$defs/colour"}), "red", "\"red\"");
        check(json!({"$ref": "#/$defs/round"}), "7", "7");
        check(json!({"enum": ["7"]}), "7", "\"7\"");
        check(json!({}), "[1]", "[1]");
        check(json!(true), "x y", "\"x y\"");
        assert_eq!(typed("7", Tools::default().types("g", "x")), "7");
    }

    #[test]
    fn parameters_are_found_where_schemas_keep_them() {
        let parameters = json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {
            "x": {"type": "string"}}}}, "additionalProperties": {"type": "integer"}});
        let tools = Tools::new(&[Tool::function("f", "", parameters)]);
        assert_eq!(tools.types("f", "x"), Types::STRING);
        assert_eq!(tools.types("f", "y"), Types::INTEGER);
    }
}
