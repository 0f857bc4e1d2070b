//! `<|tool_call>call:NAME{key:value,…}<tool_call|>`: JSON with bare keys, and with `<|"|>` for quotes.
use super::notation;
use super::shape::text;
use super::{Call, Declared, Op, Opening, Read, Shape, Syntax, Tools, Whole, plain};
use serde_json::{Map, Value};

pub const GEMMA: Syntax = Syntax {
    name: "gemma4",
    models: "Gemma 4",
    calls: &[(
        Opening::Tag("<|tool_call>"),
        &[
            Op::Text("<|tool_call>"),
            Op::Whole(Whole { until: END, read, write, around: ("", None, ""), shapes }),
        ],
    )],
    marks: &["<|tool_call>call:"],
    tokens: &["<|tool_call>", "<tool_call|>", "<|\"|>"],
};

const QUOTE: &str = "<|\"|>";
const END: &str = "<tool_call|>";

fn shapes(tool: &Declared) -> Vec<Shape> {
    let notation = notation::bare_keys(QUOTE, &[QUOTE, END]);
    let arguments = Shape::Object(tool.parameters.clone(), notation);
    vec![Shape::All(vec![text(["call:", &tool.name].concat()), arguments])]
}

fn read(text: &str, _: &Tools) -> Option<Vec<Read>> {
    let (name, rest) = text.trim().strip_prefix("call:")?.split_once('{')?;
    let mut reader = Reader { rest, depth: 0 };
    let arguments = reader.object()?;
    reader.rest.trim().is_empty().then_some(())?;
    Some(vec![(plain(name)?.to_owned(), arguments.to_string())])
}

fn write(calls: &[Call<'_>]) -> String {
    let one = |(name, arguments): &Call<'_>| format!("call:{name}{{{}}}", pairs(arguments));
    calls.iter().map(one).collect::<Vec<_>>().join("<tool_call|><|tool_call>")
}

fn pairs(map: &Map<String, Value>) -> String {
    let pair = |(key, value): (&String, &Value)| format!("{key}:{}", written(value));
    map.iter().map(pair).collect::<Vec<_>>().join(",")
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{QUOTE}{text}{QUOTE}"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => format!("{{{}}}", pairs(map)),
        other => other.to_string(),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
    fn object(&mut self) -> Option<Value> {
        let mut pairs = Map::new();
        while !self.takes("}") {
            let key = match self.takes(QUOTE) {
                true => self.until(QUOTE)?,
                false => {
                    let (key, rest) = self.rest.split_once(':')?;
                    self.rest = &self.rest[self.rest.len() - rest.len() - 1..];
                    key.trim().to_owned()
                }
            };
            if !self.takes(":") {
                return None;
            }
            pairs.insert(key, self.value()?);
            if !self.takes(",") {
                return self.takes("}").then_some(Value::Object(pairs));
            }
        }
        Some(Value::Object(pairs))
    }
    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        let value = if self.takes(QUOTE) {
            Value::String(self.until(QUOTE)?)
        } else if self.takes("{") {
            self.object()?
        } else if self.takes("[") {
            self.list()?
        } else {
            let end = self.rest.find([',', '}', ']']).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            serde_json::from_str(word.trim()).ok()?
        };
        self.depth -= 1;
        Some(value)
    }
    fn list(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        while !self.takes("]") {
            items.push(self.value()?);
            if !self.takes(",") {
                return self.takes("]").then_some(Value::Array(items));
            }
        }
        Some(Value::Array(items))
    }
    fn until(&mut self, end: &str) -> Option<String> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text.to_owned())
    }
}
