//! Calls as a model would write them, from the same list of [`Op`]s that they are read by.
use super::{Call, Op, Opening, Params, Syntax};
use serde_json::{Map, Value};

impl Syntax {
    /// The text of calls; none if they are messages of their own, which only the template writes.
    /// Nothing that is no part of the syntax is escaped: text that has the syntax's own end in it
    /// can't be written in one that has no escapes.
    pub fn write(&self, calls: &[Call<'_>]) -> Option<String> {
        (!self.by_message()).then(|| self.written(calls))
    }
    fn written(&self, calls: &[Call<'_>]) -> String {
        let mut out = String::new();
        let mut left = calls;
        while !left.is_empty() {
            let first =
                self.calls.iter().position(|(opening, _)| !matches!(opening, Opening::Bare(';')));
            let again =
                self.calls.iter().position(|(opening, _)| matches!(opening, Opening::Bare(';')));
            let which = if left.len() == calls.len() { first } else { again.or(first) };
            let Some((_, ops)) = which.and_then(|at| self.calls.get(at)) else { break };
            if !out.is_empty() && again.is_none() {
                out.push('\n');
            }
            write(ops, &mut left, &mut out);
        }
        out
    }
}

fn write(ops: &[Op], calls: &mut &[Call<'_>], out: &mut String) {
    let empty = Map::new();
    for op in ops {
        let (name, arguments) = calls.first().copied().unwrap_or(("", &empty));
        let quoted = |text: &str| Value::from(text).to_string();
        let object = || Value::Object(arguments.clone()).to_string();
        match op {
            Op::Text(text) | Op::Space(text) => out.push_str(text),
            Op::Name(op) => out.extend([op.around.0, name, op.around.1]),
            Op::Json => out.push_str(&object()),
            Op::Object { name: key, arguments: keys, .. } => {
                let (key, keys) = (quoted(key[0]), quoted(keys[0]));
                *out += &format!("{{{key}: {}, {keys}: {}}}", quoted(name), object());
            }
            Op::Keyed => *out += &format!("{{{}: {}}}", quoted(name), object()),
            Op::Params(tags) => {
                arguments.iter().for_each(|(k, v)| out.push_str(&param(tags, k, v)))
            }
            Op::Whole(whole) => {
                out.push_str(&(whole.write)(calls));
                out.push_str(whole.until);
                *calls = &[];
            }
            Op::End => *calls = calls.get(1..).unwrap_or_default(),
            Op::Until(body, end) => {
                while !calls.is_empty() {
                    write(body, calls, out);
                }
                out.push_str(end);
            }
            Op::List(body) => {
                out.push('[');
                while !calls.is_empty() {
                    write(body, calls, out);
                    out.push_str(if calls.is_empty() { "" } else { ", " });
                }
                out.push(']');
            }
        }
    }
}

fn param(tags: &Params, key: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let attribute = tags.attributes.map(|(text, json)| if value.is_string() { text } else { json });
    let attribute = attribute.map_or(String::new(), |a| format!(" {a}"));
    let cdata = tags.cdata && value.is_string() && text.contains(['<', '&', '\n']);
    let text = if cdata { format!("<![CDATA[{text}]]>") } else { text };
    let (gap, after) = tags.spaces;
    let Params { open, key_end, value, close, pad, .. } = tags;
    format!("{open}{key}{key_end}{attribute}{gap}{value}{pad}{text}{pad}{close}{after}")
}
