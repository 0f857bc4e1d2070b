//! What templates expect of Python: loops, generators, `indent`, and methods of strings.
use super::source::{EACH, ESCAPE, STORE, STORE_IN};
use minijinja::value::{Enumerator, Kwargs, Object, ObjectExt, ObjectRepr, Rest};
use minijinja::value::{Tuple, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use std::borrow::Cow;
use std::sync::Arc;

/// The variable that makes nothing and generators behave as empty and as full lists, where
/// Python refuses them.
pub(super) const LENIENT: &str = "__lenient";

/// Deeper values are refused, and so are values that may contain themselves.
pub(super) const MAX_DEPTH: usize = 200;

pub(super) type Args = Rest<ValueOrKwargs>;
type Test = Option<String>;

/// Adds everything to the environment.
pub(super) fn add_to(env: &mut Environment) {
    env.set_unknown_method_callback(method);
    env.add_function("raise_exception", raise_exception);
    env.add_filter("tojson", super::json::tojson);
    env.add_filter("indent", indent);
    env.add_filter(EACH, each);
    env.add_filter(STORE, store);
    env.add_filter(STORE_IN, store_in);
    env.add_filter(ESCAPE, escape);
    env.add_filter("map", |s: &mut State, v: Value, args: Args| {
        filters::map(s, v, args).map(generator)
    });
    env.add_filter("select", |s: &mut State, v: Value, test: Test, args: Args| {
        filters::select(s, v, test.map(Cow::from), args).map(generator)
    });
    env.add_filter("reject", |s: &mut State, v: Value, test: Test, args: Args| {
        filters::reject(s, v, test.map(Cow::from), args).map(generator)
    });
    env.add_filter("selectattr", |s: &mut State, v: Value, a: String, t: Test, args: Args| {
        filters::selectattr(s, v, a.into(), t.map(Cow::from), args).map(generator)
    });
    env.add_filter("rejectattr", |s: &mut State, v: Value, a: String, t: Test, args: Args| {
        filters::rejectattr(s, v, a.into(), t.map(Cow::from), args).map(generator)
    });
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
}

/// The text of a template's own refusal, carried by an engine error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

fn raise_exception(message: String) -> Result<Value, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, "raise_exception was called");
    Err(error.with_source(Raised(message)))
}

pub(super) fn refused(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail.into())
}

pub(super) fn is_lenient(state: &State) -> bool {
    state.lookup(LENIENT).is_some_and(|v| v.is_true())
}

/// What a loop goes over.
fn each(state: &State, value: Value) -> Result<Value, Error> {
    if value.is_none() && !is_lenient(state) {
        return Err(refused("None is not iterable"));
    }
    Ok(value)
}

/// What a variable is set to: anything that is not too deep. Namespaces alone can be changed, so
/// that no value contains itself if none contains a namespace.
fn store(state: &State, value: Value) -> Result<Value, Error> {
    match is_namespace(&value) {
        true => measure_items(state, &value, 1)?,
        false => measure(state, &value, 0)?,
    }
    Ok(value)
}

/// What an attribute of a namespace is set to.
fn store_in(state: &State, value: Value) -> Result<Value, Error> {
    measure(state, &value, 1)?;
    Ok(value)
}

fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("Namespace"))
}

fn measure(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(refused(format!("a value of more than {MAX_DEPTH} levels")));
    }
    if is_namespace(value) {
        return Err(refused("a namespace inside of another value"));
    }
    match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
            measure_items(state, value, depth + 1)
        }
        _ => Ok(()),
    }
}

fn measure_items(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    state.consume_fuel(1 + value.len().unwrap_or(0) as u64 / 2)?;
    let is_map = value.kind() == ValueKind::Map;
    for item in value.try_iter()?.checked() {
        let item = item?;
        measure(state, &if is_map { value.get_item(&item)? } else { item }, depth)?;
    }
    Ok(())
}

/// What is added to a `|safe` string, as Python's markupsafe escapes it.
fn escape(value: &Value) -> Value {
    if value.is_safe() {
        return value.clone();
    }
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    Value::from_safe_string(out)
}

/// What `map` and its like return: no list, and so nothing that JSON could hold.
#[derive(Debug)]
pub(super) struct Generator(Vec<Value>);

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_enumerator(|this| Box::new(this.0.iter().cloned()))
    }
}

fn generator(values: Vec<Value>) -> Value {
    Value::from_object(Generator(values))
}

/// Jinja's `indent`, which keeps the line break at the end.
fn indent(text: &str, args: Args) -> Result<String, Error> {
    let args = args.into_values();
    let (args, kwargs) = from_args::<(&[Value], Kwargs)>(&args)?;
    let option = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        Ok(args.get(i).cloned().or(kwargs.get::<Option<Value>>(name)?))
    };
    let margin = margin(option(0, "width")?.unwrap_or(Value::from(4)))?;
    let first = option(1, "first")?.is_some_and(|v| v.is_true());
    let blank = option(2, "blank")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let text = format!("{text}\n");
    let mut out = String::new();
    for (i, line) in split_lines(&text, false).into_iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i == 0 && first) || (i > 0 && (blank || !line.is_empty())) {
            out.push_str(&margin);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// A margin given as a number of spaces or as text.
pub(super) fn margin(value: Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    match usize::try_from(value.clone()) {
        Ok(n) if n <= 64 => Ok(" ".repeat(n)),
        _ => Err(refused(format!("an indentation of {value}: expected 0 to 64 spaces"))),
    }
}

/// Python's methods that the engine's own compatibility layer lacks or does differently.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args);
    };
    match name {
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            Ok(split_lines(text, keep.unwrap_or(false)).into_iter().map(Value::from).collect())
        }
        "rsplit" => {
            let (by, most): (Option<&str>, Option<i64>) = from_args(args)?;
            Ok(rsplit(text, by, most)?.into_iter().map(Value::from).collect())
        }
        "partition" | "rpartition" => {
            let (by,): (&str,) = from_args(args)?;
            if by.is_empty() {
                return Err(refused("empty separator"));
            }
            let from_left = name == "partition";
            let at = if from_left { text.find(by) } else { text.rfind(by) };
            let parts = match at {
                Some(at) => [&text[..at], by, &text[at + by.len()..]],
                None if from_left => [text, "", ""],
                None => ["", "", text],
            };
            Ok(Value::from(Tuple::from(parts.map(Value::from))))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn rsplit<'a>(text: &'a str, by: Option<&str>, most: Option<i64>) -> Result<Vec<&'a str>, Error> {
    let most = usize::try_from(most.unwrap_or(-1)).map_or(usize::MAX, |n| n.saturating_add(1));
    let mut parts: Vec<&str> = match by {
        Some("") => return Err(refused("empty separator")),
        Some(by) => text.rsplitn(most, by).collect(),
        None => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_end());
            while !rest.is_empty() {
                let cut = rest.rfind(char::is_whitespace).filter(|_| parts.len() + 1 < most);
                let after =
                    cut.map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
                parts.push(&rest[after..]);
                rest = cut.map_or("", |at| rest[..at].trim_end());
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts)
}

/// Python's lines, which end at more than line feeds.
fn split_lines(text: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    let is_end =
        |c| matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    while let Some(at) = rest.find(is_end) {
        let end = rest[at..].chars().next().map_or(1, char::len_utf8);
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { end };
        lines.push(&rest[..if keep { end } else { at }]);
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}
