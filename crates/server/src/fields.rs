//! A request's object, field by field. What is documented is read, refused by name, or without
//! effect and said to be; what is not is named to whoever asked.
use crate::refusal::Refusal;
use serde_json::{Map, Value};

/// What becomes of a documented field that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is refused: what to do instead.
    Refused(&'static str),
    /// It changes nothing here: why.
    Inert(&'static str),
}

/// The fields of an API's request that are not read, and what becomes of them.
pub type Fates = &'static [(&'static str, Fate)];

/// The fields of an object that have not been read yet.
#[derive(Debug)]
pub struct Fields {
    /// The object's path in the request, with a point after it; empty at the top.
    at: String,
    left: Map<String, Value>,
    /// What was asked for, so that the tables are held to it.
    #[cfg(debug_assertions)]
    asked: Vec<String>,
}

/// A field that is read.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    /// What it may be, as a JSON Schema.
    pub schema: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Whether it must be there.
    pub needed: bool,
}

/// One that may be there.
pub const fn field(name: &'static str, schema: &'static str, about: &'static str) -> Field {
    Field { name, schema, about, needed: false }
}

/// One that must be there.
pub const fn needed(name: &'static str, schema: &'static str, about: &'static str) -> Field {
    Field { name, schema, about, needed: true }
}

pub const TEXT: &str = r#"{"type": "string"}"#;
pub const FLAG: &str = r#"{"type": "boolean"}"#;
pub const COUNT: &str = r#"{"type": "integer", "minimum": 0}"#;
pub const LIST: &str = r#"{"type": "array"}"#;
pub const OBJECT: &str = r#"{"type": "object"}"#;

/// What a route takes and gives.
pub struct Spec {
    pub about: &'static str,
    /// The fields that are read, in groups: all of them, whatever the request has.
    pub known: &'static [&'static [Field]],
    /// Those that are documented and not read.
    pub fates: Fates,
    /// The schema of a whole answer, by its name in the document of all routes.
    pub answer: &'static str,
    /// That of an event of a stream, if there are streams.
    pub streams: Option<&'static str>,
}

type Read<T> = Result<Option<T>, Refusal>;

impl Fields {
    /// Of a request.
    pub fn new(object: Map<String, Value>) -> Fields {
        Fields::at(String::new(), object)
    }
    fn at(at: String, left: Map<String, Value>) -> Fields {
        Fields {
            at,
            left,
            #[cfg(debug_assertions)]
            asked: Vec::new(),
        }
    }
    /// Of a value at a place in the request.
    pub fn of(value: Value, at: &str) -> Result<Fields, Refusal> {
        match value {
            Value::Object(left) => Ok(Fields::at(format!("{at}."), left)),
            other => Err(expected(at, "an object", &other)),
        }
    }
    /// A field's path in the request.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.at)
    }
    /// A field that is not read yet; null is none.
    pub fn peek(&self, name: &str) -> Option<&Value> {
        self.left.get(name).filter(|value| !value.is_null())
    }
    /// A field of any type; null is none.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        #[cfg(debug_assertions)]
        self.asked.push(name.to_owned());
        // The order of what is left is the order in which it is named.
        self.left.shift_remove(name).filter(|value| !value.is_null())
    }
    fn read<T>(&mut self, name: &str, what: &str, of: impl Fn(&Value) -> Option<T>) -> Read<T> {
        let Some(value) = self.value(name) else { return Ok(None) };
        of(&value).map(Some).ok_or_else(|| expected(&self.path(name), what, &value))
    }
    pub fn text(&mut self, name: &str) -> Read<String> {
        self.read(name, "a string", |v| v.as_str().map(str::to_owned))
    }
    pub fn flag(&mut self, name: &str) -> Read<bool> {
        self.read(name, "true or false", Value::as_bool)
    }
    pub fn number(&mut self, name: &str) -> Read<f32> {
        self.read(name, "a number", |v| v.as_f64().map(|n| n as f32))
    }
    /// A whole number, 0 or more.
    pub fn count(&mut self, name: &str) -> Read<usize> {
        let whole = |v: &Value| {
            let float = v.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n));
            v.as_u64().or(float.map(|n| n as u64)).map(|n| n as usize)
        };
        self.read(name, "a whole number, 0 or more", whole)
    }
    /// Any whole number of 64 bits; those below 0 count from the top.
    pub fn seed(&mut self, name: &str) -> Read<u64> {
        self.read(name, "a whole number", |v| v.as_u64().or(v.as_i64().map(|n| n as u64)))
    }
    pub fn list(&mut self, name: &str) -> Read<Vec<Value>> {
        self.read(name, "a list", |v| v.as_array().cloned())
    }
    pub fn object(&mut self, name: &str) -> Read<Fields> {
        let path = self.path(name);
        self.value(name).map(|value| Fields::of(value, &path)).transpose()
    }
    pub fn map(&mut self, name: &str) -> Read<Map<String, Value>> {
        self.read(name, "an object", |v| v.as_object().cloned())
    }
    /// A field that there must be.
    pub fn needed<T>(&self, name: &str, found: Option<T>) -> Result<T, Refusal> {
        found.ok_or_else(|| Refusal::field(self.path(name), "is missing"))
    }
    /// The end of a route's own object: as [`Fields::finish`]. What was asked for is what the table says.
    pub fn close(self, spec: &Spec, ignored: &mut Vec<String>) -> Result<(), Refusal> {
        #[cfg(debug_assertions)]
        {
            use std::collections::BTreeSet;
            let asked: BTreeSet<&str> = self.asked.iter().map(String::as_str).collect();
            let known = spec.known.iter().copied().flatten().map(|field| field.name).collect();
            assert_eq!(asked, known, "the table of fields and what is read of them differ");
        }
        self.finish(spec.fates, ignored)
    }
    /// Refuses what may not be; names of what is left that nobody documents go to `ignored`.
    pub fn finish(self, fates: Fates, ignored: &mut Vec<String>) -> Result<(), Refusal> {
        for (name, value) in &self.left {
            match fates.iter().find(|(known, _)| known == name) {
                Some((_, Fate::Inert(_))) => {}
                Some((_, Fate::Refused(_))) if value.is_null() || is_default(value) => {}
                Some((_, Fate::Refused(instead))) => {
                    let problem = format_args!("is not supported: {instead}");
                    return Err(
                        Refusal::field(self.path(name), problem).code("unsupported_parameter")
                    );
                }
                None => ignored.push(self.path(name)),
            }
        }
        Ok(())
    }
}

/// Whether a value asks for nothing: clients send such.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A value that is of another type than it must be.
pub fn expected(path: &str, what: &str, found: &Value) -> Refusal {
    let mut text = match found {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    };
    if text.len() > 60 {
        text = format!("{}…", text.chars().take(60).collect::<String>());
    }
    Refusal::field(path, format_args!("expected {what}, found {text}"))
}
