//! What a call must look like, for whoever constrains one: plain data, from the same list of
//! [`Op`]s that calls are read by.
use super::schema::{Types, property};
use super::{Declared, Op, Opening, Params, Syntax};
use serde_json::{Map, Value};

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// This text; tokens that it names are those.
    Text(String),
    /// Text that ends where this one first comes.
    Until(String),
    /// JSON that satisfies this schema.
    Json(Value),
    /// These, one after another.
    All(Vec<Shape>),
    /// One of these.
    Any(Vec<Shape>),
    /// This, or nothing.
    Maybe(Box<Shape>),
    /// This, once or more.
    More(Box<Shape>),
}

/// How a text of calls begins, and what must follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// What begins it.
    pub open: String,
    /// Whether that is so only where an answer begins, or a call before it ended.
    pub first: bool,
    /// What follows, up to the end of the calls.
    pub rest: Shape,
}

impl Syntax {
    /// What calls of these tools must look like; none if they are in a notation that is not
    /// described, or messages.
    pub fn shape(&self, tools: &[Declared]) -> Option<Calls> {
        let (opening, ops) = self.calls.first().filter(|_| !tools.is_empty())?;
        match (opening, ops) {
            (Opening::Tag(tag), [Op::Text(text), rest @ ..]) => {
                // The tag may be a part of the first text, or of what follows it.
                let begun = text.len().min(tag.len());
                let left = Shape::Text(text[begun..].to_owned());
                let rest = match tag[begun..].strip_prefix('[') {
                    Some("") => after_bracket(rest, tools)?,
                    _ => sequence(rest, tools)?,
                };
                Some(Calls {
                    open: (*tag).into(),
                    first: false,
                    rest: Shape::All(vec![left, rest]),
                })
            }
            (Opening::Bare(_), [Op::Object { name, arguments, .. }, ..]) => {
                let open = format!("{{{}: \"", Value::from(name[0]));
                let one = |tool: &Declared| {
                    let name = Value::from(tool.name.as_str()).to_string();
                    let text = format!("{}, {}: ", &name[1..], Value::from(arguments[0]));
                    let parameters = Shape::Json(tool.parameters.clone());
                    Shape::All(vec![Shape::Text(text), parameters, Shape::Text("}".into())])
                };
                let rest = Shape::Any(tools.iter().map(one).collect());
                Some(Calls { open, first: true, rest })
            }
            _ => None,
        }
    }
}

fn sequence(ops: &[Op], tools: &[Declared]) -> Option<Shape> {
    let loops = ops.iter().position(|op| matches!(op, Op::Until(..) | Op::List(_)));
    let Some(at) = loops else {
        let all: Option<Vec<Shape>> = tools.iter().map(|tool| call(ops, tool)).collect();
        return Some(Shape::Any(all?));
    };
    let mut parts: Vec<Shape> = ops[..at].iter().filter_map(text).collect();
    match &ops[at] {
        Op::Until(body, end) => {
            parts.push(Shape::More(Box::new(sequence(body, tools)?)));
            parts.push(Shape::Text((*end).into()));
        }
        Op::List(_) => {
            parts.push(Shape::Text("[".into()));
            parts.push(after_bracket(&ops[at..=at], tools)?);
        }
        _ => return None,
    }
    parts.extend(ops[at + 1..].iter().filter_map(text));
    Some(Shape::All(parts))
}

/// A list whose bracket is behind.
fn after_bracket(ops: &[Op], tools: &[Declared]) -> Option<Shape> {
    let [Op::List(body), rest @ ..] = ops else { return None };
    let item = sequence(body, tools)?;
    let next = Shape::All(vec![Shape::Text(", ".into()), item.clone()]);
    let more = Shape::Maybe(Box::new(Shape::More(Box::new(next))));
    let mut parts = vec![item, more, Shape::Text("]".into())];
    parts.extend(rest.iter().filter_map(text));
    Some(Shape::All(parts))
}

fn text(op: &Op) -> Option<Shape> {
    match op {
        Op::Text(text) | Op::Space(text) => Some(Shape::Text((*text).into())),
        _ => None,
    }
}

fn call(ops: &[Op], tool: &Declared) -> Option<Shape> {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut parts = Vec::new();
    let wrapped = |before: String| {
        let arguments = Shape::Json(tool.parameters.clone());
        [Shape::Text(before), arguments, Shape::Text("}".into())]
    };
    for op in ops {
        match op {
            Op::Text(_) | Op::Space(_) => parts.extend(text(op)),
            Op::Name(name) => {
                parts.push(Shape::Text([name.around.0, &tool.name, name.around.1].concat()));
            }
            Op::Json => parts.push(Shape::Json(tool.parameters.clone())),
            Op::Object { name, arguments, .. } => {
                let (key, value) = (quoted(name[0]), quoted(&tool.name));
                parts.extend(wrapped(format!("{{{key}: {value}, {}: ", quoted(arguments[0]))));
            }
            Op::Keyed => parts.extend(wrapped(format!("{{{}: ", quoted(&tool.name)))),
            Op::Params(tags) => parts.extend(params(tags, tool)?),
            Op::End => {}
            Op::Whole(_) | Op::Until(..) | Op::List(_) => return None,
        }
    }
    Some(Shape::All(parts))
}

/// Each declared parameter once, in the schema's order, those that are required always.
fn params(tags: &Params, tool: &Declared) -> Option<Vec<Shape>> {
    let root = &tool.parameters;
    let declared = match root.get("properties") {
        Some(declared) => declared.as_object()?.clone(),
        None => Map::new(),
    };
    let required: Vec<&str> = root
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if required.iter().any(|key| !declared.contains_key(*key)) {
        return None;
    }
    let one = |key: &String| {
        let schema = property(root, root, key, 0).unwrap_or(&Value::Bool(true));
        let shape = param(tags, key, root, schema);
        if required.contains(&key.as_str()) { shape } else { Shape::Maybe(Box::new(shape)) }
    };
    Some(declared.keys().map(one).collect())
}

fn param(tags: &Params, key: &str, root: &Value, schema: &Value) -> Shape {
    let types = Types::of(root, schema);
    let is_text = types == Types::STRING;
    let attribute = tags.attributes.map(|(text, json)| if is_text { text } else { json });
    let attribute = attribute.map_or(String::new(), |a| format!(" {a}"));
    let Params { open, key_end, value, close, pad, spaces: (gap, after), .. } = tags;
    let before = format!("{open}{key}{key_end}{attribute}{gap}{value}{pad}");
    let end = Shape::Text(format!("{pad}{close}{after}"));
    let choices = schema.get("enum").and_then(Value::as_array).filter(|_| is_text);
    let parts = match choices {
        Some(choices) => {
            let texts =
                choices.iter().filter_map(Value::as_str).map(|text| Shape::Text(text.into()));
            vec![Shape::Text(before), Shape::Any(texts.collect()), end]
        }
        None if is_text => {
            let (until, after) = (Shape::Until((*close).into()), Shape::Text((*after).into()));
            vec![Shape::Text(before), until, after]
        }
        None => vec![Shape::Text(before), Shape::Json(whole(root, schema)), end],
    };
    Shape::All(parts)
}

/// A part of a schema by itself: with the definitions that it may refer to.
fn whole(root: &Value, schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut() {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = root.get(key).filter(|_| !map.contains_key(key)) {
                map.insert(key.to_owned(), definitions.clone());
            }
        }
    }
    schema
}
