//! Hugging Face's `tojson`: Python's `json.dumps`, with `ensure_ascii` off.
use super::python::{Args, Generator, MAX_DEPTH, is_lenient, margin, refused};
use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, State, Value};

/// The filter.
pub(super) fn tojson(state: &State, value: &Value, args: Args) -> Result<Value, Error> {
    let args = args.into_values();
    let (args, kwargs) = from_args::<(&[Value], Kwargs)>(&args)?;
    let option = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        let value = args.get(i).cloned().or(kwargs.get::<Option<Value>>(name)?);
        Ok(value.filter(|v| !v.is_none()))
    };
    let ascii = option(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = option(1, "indent")?.map(margin).transpose()?;
    let (item, key) = match option(2, "separators")? {
        Some(pair) => (
            pair.get_item(&Value::from(0))?.to_string(),
            pair.get_item(&Value::from(1))?.to_string(),
        ),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let sorted = option(3, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let style = Style { ascii, indent, item, key, sorted };
    Ok(Value::from(style.write(value, Some(state))?))
}

/// `json.dumps(value, ensure_ascii=False)`.
pub(super) fn dumps(value: &Value) -> Result<String, Error> {
    let (item, key) = (", ".to_owned(), ": ".to_owned());
    Style { ascii: false, indent: None, item, key, sorted: false }.write(value, None)
}

/// The arguments of `json.dumps`.
struct Style {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sorted: bool,
}

impl Style {
    fn write(&self, value: &Value, state: Option<&State>) -> Result<String, Error> {
        let mut json = Json { style: self, state, out: String::new(), paid: 0 };
        json.value(value, 0)?;
        Ok(json.out)
    }
}

struct Json<'a, 't, 'e> {
    style: &'a Style,
    state: Option<&'a State<'t, 'e>>,
    out: String,
    /// How much of `out` the template has paid for.
    paid: usize,
}

impl Json<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.pay()?;
        if depth > MAX_DEPTH {
            return Err(refused(format!("tojson: more than {MAX_DEPTH} levels")));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Map => self.map(value, depth)?,
            ValueKind::Seq | ValueKind::Iterable if self.is_list(value) => {
                self.list(value, depth)?;
            }
            kind => return Err(refused(format!("tojson: {kind} is not JSON serializable"))),
        }
        Ok(())
    }
    /// Takes fuel for what has been written since, so that no value can become a long text cheaply.
    fn pay(&mut self) -> Result<(), Error> {
        let due = (self.out.len() - self.paid) / 64;
        self.paid += due * 64;
        self.state.map_or(Ok(()), |state| state.consume_fuel(due as u64 + 1))
    }
    fn is_list(&self, value: &Value) -> bool {
        let generator = value.downcast_object_ref::<Generator>().is_some();
        !generator || self.state.is_none_or(is_lenient)
    }
    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()?.checked() {
            self.separate(&mut empty, depth);
            self.value(&item?, depth + 1)?;
        }
        self.close(empty, depth, ']');
        Ok(())
    }
    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.style.sorted {
            keys.sort();
        }
        self.out.push('{');
        let mut empty = true;
        for key in keys {
            self.separate(&mut empty, depth);
            match key.kind() {
                ValueKind::String => self.string(key.as_str().unwrap_or_default()),
                ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                    self.out.push('"');
                    self.value(&key, depth)?;
                    self.out.push('"');
                }
                kind => return Err(refused(format!("tojson: a key that is a {kind}"))),
            }
            self.out.push_str(&self.style.key);
            self.value(&value.get_item(&key)?, depth + 1)?;
        }
        self.close(empty, depth, '}');
        Ok(())
    }
    fn separate(&mut self, empty: &mut bool, depth: usize) {
        if !*empty {
            self.out.push_str(&self.style.item);
        }
        *empty = false;
        self.new_line(depth + 1);
    }
    fn close(&mut self, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.new_line(depth);
        }
        self.out.push(bracket);
    }
    fn new_line(&mut self, depth: usize) {
        if let Some(margin) = &self.style.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(margin));
        }
    }
    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.style.ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// As Python prints it.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(v) if v.is_nan() => "NaN".to_owned(),
        Ok(v) if v.is_infinite() => if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Ok(v) => {
            let text = format!("{v:?}");
            match text.split_once('e') {
                Some((digits, exponent)) => {
                    let exponent: i32 = exponent.parse().unwrap_or(0);
                    let sign = if exponent < 0 { '-' } else { '+' };
                    format!("{}e{sign}{:02}", digits.trim_end_matches(".0"), exponent.abs())
                }
                None => text,
            }
        }
        Err(_) => value.to_string(),
    }
}
