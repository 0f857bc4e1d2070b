//! What calls must look like, for whoever constrains them: plain data, from the same lists of
//! [`Op`]s that calls are read by.
use super::notation::{self, Notation};
use super::{Declared, Op, Opening, Syntax, Whole};
use serde_json::Value;

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// This text; tokens that it names are those.
    Text(String),
    /// Text that ends where this one first comes.
    Until(String),
    /// Any text, to the end of the answer.
    Rest,
    /// An object that satisfies a schema, by notations: its own, that of the values in it, and so
    /// on; the last is for all deeper.
    Object(Value, Vec<Notation>),
    /// These, one after another.
    All(Vec<Shape>),
    /// One of these.
    Any(Vec<Shape>),
    /// This, or nothing.
    Maybe(Box<Shape>),
    /// This, once or more.
    More(Box<Shape>),
}

/// Where calls may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere in what is said.
    Anywhere,
    /// Where an answer begins, or a call before it ended.
    First,
    /// In a message's header.
    Header,
    /// With a message's header, which has nothing else.
    WholeHeader,
}

/// How a text of calls begins, and what must follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// What begins it.
    pub open: String,
    /// Where that is so.
    pub place: Place,
    /// What follows, up to the end of the calls.
    pub rest: Shape,
}

pub(super) fn text(text: impl Into<String>) -> Shape {
    Shape::Text(text.into())
}

pub(super) fn json(tool: &Declared) -> Shape {
    Shape::Object(tool.parameters.clone(), vec![notation::json(&[])])
}

/// This, and as many more as follow, if it may be `many`.
fn several(one: Shape, between: &str, many: bool) -> Shape {
    if !many {
        return one;
    }
    let next = Shape::All(vec![text(between), one.clone()]);
    Shape::All(vec![one, Shape::Maybe(Box::new(Shape::More(Box::new(next))))])
}

impl Syntax {
    /// What calls of these tools must look like, one or, if it may be `many`, more in one text. Of ways
    /// to begin, the first is the one to take.
    pub fn shapes(&self, tools: &[Declared], many: bool) -> Vec<Calls> {
        if tools.is_empty() {
            return Vec::new();
        }
        let one = |(opening, ops): &(Opening, &[Op])| match (opening, *ops) {
            (Opening::Message(header), _) => messages(header, tools),
            (Opening::Tag(tag), [Op::Text(first), rest @ ..]) => {
                // The tag may be a part of the first text, or of what follows it.
                let begun = first.len().min(tag.len());
                let bracket = tag[begun..].starts_with('[');
                let rest = match rest {
                    [Op::List(body), after @ ..] if bracket => {
                        let list = listed(body, tools, many);
                        Shape::All(
                            [list].into_iter().chain(after.iter().filter_map(fixed)).collect(),
                        )
                    }
                    _ => sequence(rest, tools, many),
                };
                let rest = Shape::All(vec![text(&first[begun..]), rest]);
                vec![Calls { open: (*tag).into(), place: Place::Anywhere, rest }]
            }
            (Opening::Bare(_), ops) => bare(ops, tools),
            (Opening::Tag(_), _) => Vec::new(),
        };
        self.calls.iter().flat_map(one).collect()
    }

    /// An answer that is thoughts, if it has any, and calls that are messages. It begins where the first
    /// message's header does. None if calls are no messages.
    pub fn answer(&self, tools: &[Declared], many: bool) -> Option<Shape> {
        let header = self.calls.iter().find_map(|(opening, _)| match opening {
            Opening::Message(header) if !tools.is_empty() => Some(*header),
            _ => None,
        })?;
        let one = |calls: Calls| Shape::All(vec![text(calls.open), calls.rest]);
        let calls: Vec<Shape> = messages(header, tools).into_iter().map(one).collect();
        let call = Shape::All(vec![(header.before)(), Shape::Any(calls)]);
        Some(several(call, header.again.unwrap_or_default(), many && header.again.is_some()))
    }
}

/// How the header of a message to a tool is written.
pub struct Header {
    /// What is before the name, if that is always told with it.
    pub open: &'static str,
    /// What is between the name and the message.
    pub after: fn() -> Shape,
    /// What may come before the header in an answer that must be a call.
    pub before: fn() -> Shape,
    /// What is between two calls, if there may be two.
    pub again: Option<&'static str>,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("open", &self.open).finish_non_exhaustive()
    }
}

fn messages(header: &Header, tools: &[Declared]) -> Vec<Calls> {
    let named = |tool: &Declared| Shape::All(vec![text(&*tool.name), (header.after)(), json(tool)]);
    if !header.open.is_empty() {
        let rest = Shape::Any(tools.iter().map(named).collect());
        return vec![Calls { open: header.open.into(), place: Place::Header, rest }];
    }
    // The name begins the call.
    let one = |tool: &Declared| {
        let Shape::Text(after) = (header.after)() else { return None };
        let open = [&*tool.name, &after].concat();
        Some(Calls { open, place: Place::WholeHeader, rest: json(tool) })
    };
    tools.iter().filter_map(one).collect()
}

/// Objects without a tag, after what stands between two.
fn bare(ops: &[Op], tools: &[Declared]) -> Vec<Calls> {
    let Some(at) = ops.iter().position(|op| matches!(op, Op::Object { .. })) else {
        return Vec::new();
    };
    let Op::Object { name, arguments, .. } = &ops[at] else { return Vec::new() };
    let before: String = ops[..at].iter().map(|op| fixed_text(op).unwrap_or_default()).collect();
    let one = |tool: &Declared| {
        let name = Value::from(tool.name.as_str()).to_string();
        let middle = format!("{}, {}: ", &name[1..], Value::from(arguments[0]));
        Shape::All(vec![text(middle), json(tool), text("}")])
    };
    let rest: Vec<Shape> = tools.iter().filter(|tool| !tool.built_in).map(one).collect();
    if rest.is_empty() {
        return Vec::new();
    }
    let rest = Shape::Any(rest);
    let key = Value::from(name[0]);
    let opens = [format!("{before}{{{key}: \""), format!("{before}{{{key}:\"")];
    let calls = |open: String| Calls { open, place: Place::First, rest: rest.clone() };
    opens.into_iter().map(calls).collect()
}

fn sequence(ops: &[Op], tools: &[Declared], many: bool) -> Shape {
    let loops = |op: &Op| matches!(op, Op::Until(..) | Op::List(_) | Op::Whole(_));
    let Some(at) = ops.iter().position(loops) else {
        return Shape::Any(tools.iter().map(|tool| call(ops, tool)).collect());
    };
    let mut parts: Vec<Shape> = ops[..at].iter().filter_map(fixed).collect();
    match &ops[at] {
        Op::Until(body, end) => {
            let one = sequence(body, tools, false);
            parts.push(if many { Shape::More(Box::new(one)) } else { one });
            parts.push(text(*end));
        }
        Op::List(body) => parts.extend([text("["), listed(body, tools, many)]),
        Op::Whole(whole) => parts.push(written(whole, tools, many)),
        _ => {}
    }
    parts.extend(ops[at + 1..].iter().filter_map(fixed));
    Shape::All(parts)
}

/// A list whose bracket is behind.
fn listed(body: &[Op], tools: &[Declared], many: bool) -> Shape {
    Shape::All(vec![several(sequence(body, tools, false), ", ", many), text("]")])
}

/// Calls in a notation of their own.
fn written(whole: &Whole, tools: &[Declared], many: bool) -> Shape {
    let one = Shape::Any(tools.iter().flat_map(whole.shapes).collect());
    let (open, between, close) = whole.around;
    let calls = several(one, between.unwrap_or_default(), many && between.is_some());
    Shape::All(vec![text(open), calls, text([close, whole.until].concat())])
}

fn fixed_text(op: &Op) -> Option<&'static str> {
    match op {
        Op::Text(text) | Op::Space(text) => Some(text),
        _ => None,
    }
}

fn fixed(op: &Op) -> Option<Shape> {
    fixed_text(op).map(text)
}

fn call(ops: &[Op], tool: &Declared) -> Shape {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut parts = Vec::new();
    let wrapped = |before: String| [text(before), json(tool), text("}")];
    for op in ops {
        match op {
            Op::Text(_) | Op::Space(_) => parts.extend(fixed(op)),
            Op::Name(name) => parts.push(text([name.around.0, &tool.name, name.around.1].concat())),
            Op::Json => parts.push(json(tool)),
            Op::Object { name, arguments, .. } => {
                let (key, value) = (quoted(name[0]), quoted(&tool.name));
                parts.extend(wrapped(format!("{{{key}: {value}, {}: ", quoted(arguments[0]))));
            }
            Op::Keyed => parts.extend(wrapped(format!("{{{}: ", quoted(&tool.name)))),
            Op::Params(tags) => {
                let notations = notation::tagged(tags, tool);
                parts.push(Shape::Object(tool.parameters.clone(), notations));
            }
            Op::End | Op::Whole(_) | Op::Until(..) | Op::List(_) => {}
        }
    }
    Shape::All(parts)
}
