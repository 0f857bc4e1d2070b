//! Python's notation, which some templates write values and calls in.
use serde_json::{Number, Value};

/// Lists inside one another; more is no call's arguments.
const MAX_DEPTH: usize = 64;

/// A call: the function's name, its arguments by position and those by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub name: String,
    pub positional: Vec<Value>,
    pub named: Vec<(String, Value)>,
}

/// The value of a literal, which may also have JSON's words.
pub(crate) fn literal(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text, depth: 0 };
    let value = reader.value()?;
    reader.ends().then_some(value)
}

/// A value as a literal.
pub(crate) fn write(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(n) => n.to_string(),
        Value::String(text) => {
            let quoted = value.to_string();
            // JSON's escapes are Python's, but for a slash, which it does not write.
            if text.contains(['"', '\'']) { quoted } else { quoted.replace('"', "'") }
        }
        Value::Array(items) => format!("[{}]", list(items.iter().map(write).collect())),
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: {}", write(&Value::from(key.as_str())), write(value))
            };
            format!("{{{}}}", list(map.iter().map(pair).collect()))
        }
    }
}

/// A list of calls, `[f(a=1), g()]`, or a single one.
pub(crate) fn calls(text: &str) -> Option<Vec<Call>> {
    let mut reader = Reader { rest: text, depth: 0 };
    let calls = match reader.takes("[") {
        true => reader.list("]", Reader::call)?,
        false => vec![reader.call()?],
    };
    (reader.ends() && !calls.is_empty()).then_some(calls)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn ends(&self) -> bool {
        self.rest.trim_start().is_empty()
    }
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
    /// Items up to `end`, with commas between, and perhaps after the last.
    fn list<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.takes(end) {
            items.push(item(self)?);
            if !self.takes(",") {
                return self.takes(end).then_some(items);
            }
        }
        Some(items)
    }
    fn call(&mut self) -> Option<Call> {
        let name = self.name(&['.', '-'])?;
        if !self.takes("(") {
            return None;
        }
        let arguments = self.list(")", |reader| {
            let before = reader.rest;
            match reader.name(&['.', '-']).filter(|_| reader.takes("=")) {
                Some(name) => Some((Some(name), reader.value()?)),
                None => {
                    reader.rest = before;
                    Some((None, reader.value()?))
                }
            }
        })?;
        let mut call = Call { name, positional: Vec::new(), named: Vec::new() };
        for (name, value) in arguments {
            match name {
                Some(name) => call.named.push((name, value)),
                None if call.named.is_empty() => call.positional.push(value),
                None => return None,
            }
        }
        Some(call)
    }
    fn name(&mut self, more: &[char]) -> Option<String> {
        let text = self.rest.trim_start();
        let part = |c: char| c.is_alphanumeric() || c == '_' || more.contains(&c);
        let end = text.find(|c| !part(c)).unwrap_or(text.len());
        let starts = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
        self.rest = if starts { &text[end..] } else { self.rest };
        starts.then(|| text[..end].to_owned())
    }
    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        let value = if self.depth > MAX_DEPTH { None } else { self.shallow() };
        self.depth -= 1;
        value
    }
    fn shallow(&mut self) -> Option<Value> {
        let text = self.rest.trim_start();
        match text.chars().next()? {
            '[' if self.takes("[") => Some(Value::Array(self.list("]", Self::value)?)),
            '(' if self.takes("(") => Some(Value::Array(self.list(")", Self::value)?)),
            '{' if self.takes("{") => {
                let pairs = self.list("}", |reader| {
                    let Value::String(key) = reader.value()? else { return None };
                    reader.takes(":").then(|| Some((key, reader.value()?)))?
                })?;
                Some(Value::Object(pairs.into_iter().collect()))
            }
            quote @ ('"' | '\'') => self.string(quote),
            '-' | '+' | '.' | '0'..='9' => self.number(),
            _ => match self.name(&[])?.as_str() {
                "True" | "true" => Some(true.into()),
                "False" | "false" => Some(false.into()),
                "None" | "null" => Some(Value::Null),
                _ => None,
            },
        }
    }
    fn number(&mut self) -> Option<Value> {
        let text = self.rest.trim_start();
        let part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
        let end = text.find(|c| !part(c)).unwrap_or(text.len());
        self.rest = &text[end..];
        let number = text[..end].replace('_', "");
        let number = number.strip_prefix('+').unwrap_or(&number);
        let whole = serde_json::from_str(number).ok();
        whole.or_else(|| Number::from_f64(number.parse().ok()?)).map(Value::Number)
    }
    fn string(&mut self, quote: char) -> Option<Value> {
        let text = &self.rest.trim_start()[1..];
        let mut out = String::new();
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &text[at + 1..];
                    return Some(out.into());
                }
                '\\' => match chars.next()?.1 {
                    'n' => out.push('\n'),
                    'b' => out.push('\u{8}'),
                    'f' => out.push('\u{c}'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    '\n' => {}
                    c @ ('\\' | '\'' | '"') => out.push(c),
                    c @ ('x' | 'u' | 'U') => {
                        let digits = [2, 4, 8][usize::from(c != 'x') + usize::from(c == 'U')];
                        let hex: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                        out.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
                    }
                    c => out.extend(['\\', c]),
                },
                c => out.push(c),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literals() {
        let check = |text: &str, want: Value| assert_eq!(literal(text), Some(want), "{text}");
        check(
            "['src', \"a'b\", 1, -2.5, True, None, ()]",
            json!(["src", "a'b", 1, -2.5, true, null, []]),
        );
        check("{'a': {'b': (1, 2,)}, \"c\": false}", json!({"a": {"b": [1, 2]}, "c": false}));
        check(r"'a\n\t\\\'\x41\u00e9\U0001f600\q'", json!("a\n\t\\'Aé😀\\q"));
        check("1_000", json!(1000));
        check(" +.5 ", json!(0.5));
        for wrong in ["", "a", "[1", "{1: 2}", "'a", "1 2", "--1", "nan", r"'\xzz'"] {
            assert_eq!(literal(wrong), None, "{wrong}");
        }
        assert_eq!(literal(&"[".repeat(1000)), None);
    }

    #[test]
    fn lists_of_calls() {
        let text = "[a.b(x=1, y='(,)='), g(), h(3, z=[f_1])]";
        assert_eq!(calls(text), None);
        let found = calls(&text.replace("f_1", "1")).unwrap();
        let names: Vec<&str> = found.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["a.b", "g", "h"]);
        assert_eq!(found[0].named, [("x".into(), json!(1)), ("y".into(), json!("(,)="))]);
        assert_eq!((&found[2].positional[..], found[2].named.len()), (&[json!(3)][..], 1));
        for wrong in ["[]", "f", "f(", "f(a=1", "f(a=1, 2)", "[f() g()]", "f() x"] {
            assert_eq!(calls(wrong), None, "{wrong}");
        }
    }
}
