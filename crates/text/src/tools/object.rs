//! A call as one JSON object: `{"name": …, "arguments": {…}}`, its fields in any order and others
//! among them.
use super::Tools;
use super::scan::{Scan, Step};
use serde_json::Value;

/// Reads one.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    keys: Keys,
    place: Place,
    name: Option<String>,
    /// Arguments not taken yet.
    arguments: String,
    /// Whether they have begun, and whether they are all there.
    begun: bool,
    whole: bool,
}

#[derive(Clone, Copy, Debug)]
enum Keys {
    Named {
        name: &'static [&'static str],
        arguments: &'static [&'static str],
        known: bool,
    },
    /// The one key is the name.
    Only,
}

#[derive(Clone, Debug)]
enum Place {
    Begins,
    /// Before a key or, perhaps, the end.
    Key(bool),
    InKey(Scan, String),
    Colon(Field),
    Value(Field, Scan, String),
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Arguments,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    More,
    Done,
    Wrong,
}

impl Object {
    pub fn new(
        name: &'static [&'static str],
        arguments: &'static [&'static str],
        known: bool,
    ) -> Object {
        Object::with(Keys::Named { name, arguments, known })
    }
    pub fn keyed() -> Object {
        Object::with(Keys::Only)
    }
    fn with(keys: Keys) -> Object {
        let arguments = String::new();
        Object { keys, place: Place::Begins, name: None, arguments, begun: false, whole: false }
    }
    /// The name, once it is known.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
    /// What there is of the arguments since it was last asked.
    pub fn take_arguments(&mut self) -> String {
        std::mem::take(&mut self.arguments)
    }
    pub fn has_arguments(&self) -> bool {
        self.whole
    }
    pub fn push(&mut self, c: char, tools: &Tools) -> Read {
        let space = matches!(c, ' ' | '\t' | '\n' | '\r');
        match (&mut self.place, c) {
            (Place::Begins | Place::Key(_) | Place::Colon(_) | Place::Next, _) if space => {}
            (Place::Begins, '{') => self.place = Place::Key(true),
            (Place::Key(true) | Place::Next, '}') => return self.end(),
            (Place::Next, ',') => self.place = Place::Key(false),
            (Place::Key(_), '"') => {
                let mut scan = Scan::default();
                scan.push('"');
                self.place = Place::InKey(scan, "\"".into());
            }
            (Place::InKey(scan, text), c) => {
                text.push(c);
                match scan.push(c) {
                    Step::Done => return self.key(tools),
                    Step::More => {}
                    _ => return Read::Wrong,
                }
            }
            (Place::Colon(field), ':') => {
                self.place = Place::Value(*field, Scan::default(), String::new());
            }
            (Place::Value(..), c) => return self.value(c, tools),
            _ => return Read::Wrong,
        }
        Read::More
    }
    fn key(&mut self, tools: &Tools) -> Read {
        let Place::InKey(_, text) = &self.place else { return Read::Wrong };
        let Ok(key) = serde_json::from_str::<String>(text) else { return Read::Wrong };
        let field = match self.keys {
            Keys::Only if self.name.is_none() => return self.named(key, tools, Field::Arguments),
            Keys::Only => return Read::Wrong,
            Keys::Named { name, .. } if name.contains(&key.as_str()) => Field::Name,
            Keys::Named { arguments, .. } if arguments.contains(&key.as_str()) => Field::Arguments,
            Keys::Named { .. } => Field::Other,
        };
        let again = match field {
            Field::Name => self.name.is_some(),
            Field::Arguments => self.begun,
            Field::Other => false,
        };
        self.place = Place::Colon(field);
        if again { Read::Wrong } else { Read::More }
    }
    fn named(&mut self, name: String, tools: &Tools, next: Field) -> Read {
        let known = matches!(self.keys, Keys::Named { known: true, .. });
        if name.is_empty() || known && tools.get(&name).is_none() {
            return Read::Wrong;
        }
        self.name = Some(name);
        self.place = if next == Field::Arguments { Place::Colon(next) } else { Place::Next };
        Read::More
    }
    fn value(&mut self, c: char, tools: &Tools) -> Read {
        let Place::Value(field, scan, text) = &mut self.place else { return Read::Wrong };
        let (step, field) = (scan.push(c), *field);
        if matches!(step, Step::More | Step::Done) && !(text.is_empty() && c.is_ascii_whitespace())
        {
            text.push(c);
            // An object is passed on as it comes; what else stands for one waits.
            if field == Field::Arguments && text.starts_with('{') {
                self.begun = true;
                self.arguments.push(c);
            }
        }
        match step {
            Step::More => return Read::More,
            Step::Wrong => return Read::Wrong,
            Step::Done | Step::Before => {}
        }
        let text = std::mem::take(text);
        self.place = Place::Next;
        let read = match field {
            Field::Other => Read::More,
            Field::Name => match serde_json::from_str(&text) {
                Ok(name) => self.named(name, tools, Field::Other),
                Err(_) => Read::Wrong,
            },
            Field::Arguments => self.argued(&text),
        };
        match (step, read) {
            (Step::Before, Read::More) => self.push(c, tools),
            (_, read) => read,
        }
    }
    /// At the end of the arguments: an object, or a string that holds one, or nothing.
    fn argued(&mut self, text: &str) -> Read {
        self.whole = true;
        if std::mem::replace(&mut self.begun, true) {
            return Read::More;
        }
        self.arguments = match serde_json::from_str(text) {
            Ok(Value::Null) => "{}".into(),
            Ok(Value::String(inner)) if inner.trim().is_empty() => "{}".into(),
            Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
                Ok(Value::Object(_)) => inner,
                _ => return Read::Wrong,
            },
            _ => return Read::Wrong,
        };
        Read::More
    }
    fn end(&mut self) -> Read {
        if self.name.is_none() {
            return Read::Wrong;
        }
        if !self.whole {
            self.arguments = "{}".into();
            self.whole = true;
        }
        Read::Done
    }
}
