//! Which parts of a JSON text were decided among options: booleans, whole numbers and strings of which
//! the schema lists all.
use super::document::escape;
use super::read::Reader;
use super::shape::{Places, Shape};
use crate::error::GrammarError;
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

type Result<T> = std::result::Result<T, GrammarError>;

/// A value that was decided among options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where it is: a JSON pointer into the answer.
    pub path: String,
    /// Its bytes in the text.
    pub text: Range<usize>,
    /// Whether it is a number, which the byte after it decides to be over.
    pub number: bool,
}

/// The fields of a text that satisfies a schema.
///
/// # Errors
/// As reading the schema.
pub(crate) fn fields(schema: &Value, text: &str) -> Result<Vec<Field>> {
    let reader = Reader::new(schema)?;
    let mut walk = Walk { reader, known: HashMap::new(), text, at: 0, found: Vec::new() };
    walk.value(String::new(), &[Places::from([Rc::from("")])])?;
    Ok(walk.found)
}

struct Walk<'a> {
    reader: Reader<'a>,
    known: HashMap<Places, Rc<Vec<Shape>>>,
    text: &'a str,
    at: usize,
    found: Vec<Field>,
}

impl Walk<'_> {
    fn shapes(&mut self, places: &Places) -> Result<Rc<Vec<Shape>>> {
        if let Some(known) = self.known.get(places) {
            return Ok(known.clone());
        }
        let shapes = Rc::new(self.reader.shapes(places)?);
        self.known.insert(places.clone(), shapes.clone());
        Ok(shapes)
    }

    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    /// Takes bytes that are any of `these`.
    fn skip(&mut self, these: &[u8]) {
        while self.at < self.text.len() && these.contains(&self.byte()) {
            self.at += 1;
        }
    }

    /// A string with its quotes.
    fn string(&mut self) -> Range<usize> {
        let start = self.at;
        self.at += 1;
        while self.at < self.text.len() && self.byte() != b'"' {
            self.at += 1 + usize::from(self.byte() == b'\\');
        }
        self.at = (self.at + 1).min(self.text.len());
        start..self.at
    }

    fn read(&self, range: &Range<usize>) -> String {
        let text = self.text.get(range.clone()).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }

    /// A value that satisfies any of `all`.
    fn value(&mut self, path: String, all: &[Places]) -> Result<()> {
        match self.byte() {
            b'{' | b'[' => return self.inside(&path, all),
            b'"' => {
                let text = self.string();
                let value = self.read(&text);
                for places in all {
                    let listed = |shape: &Shape| match shape {
                        Shape::String(s) => s.values.as_ref().is_some_and(|v| v.contains(&value)),
                        _ => false,
                    };
                    if self.shapes(places)?.iter().any(listed) {
                        self.found.push(Field { path, text, number: false });
                        break;
                    }
                }
            }
            _ => {
                let start = self.at;
                while self.at < self.text.len() && !b",]} ".contains(&self.byte()) {
                    self.at += 1;
                }
                let text = start..self.at;
                let word = &self.text[text.clone()];
                let number = word.bytes().all(|b| b == b'-' || b.is_ascii_digit());
                if number || word == "true" || word == "false" {
                    self.found.push(Field { path, text, number });
                }
            }
        }
        Ok(())
    }

    fn inside(&mut self, path: &str, all: &[Places]) -> Result<()> {
        let object = self.byte() == b'{';
        self.at += 1;
        let mut count = 0;
        while self.at < self.text.len() {
            self.skip(b", ");
            if b"]}".contains(&self.byte()) {
                self.at += 1;
                break;
            }
            let mut name = count.to_string();
            if object {
                let key = self.string();
                name = self.read(&key);
                self.skip(b": ");
            }
            let mut inner: Vec<Places> = Vec::new();
            for places in all {
                for shape in self.shapes(places)?.iter() {
                    let places = match shape {
                        Shape::Object(o) if object => o.places(&name),
                        Shape::Array(a) if !object => Ok(a.item(count as u64).clone()),
                        _ => continue,
                    };
                    let places = places.or_else(|e| self.reader.refuse("", e))?;
                    if !inner.contains(&places) {
                        inner.push(places);
                    }
                }
            }
            self.value(format!("{path}/{}", escape(&name)), &inner)?;
            count += 1;
        }
        Ok(())
    }
}
