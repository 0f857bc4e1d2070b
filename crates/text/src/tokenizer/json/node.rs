//! A JSON value that knows where it stands, so that errors can say so.
use crate::tokenizer::TokenizerError;
use crate::tokenizer::pattern::Pattern;
use serde_json::Value;
use std::cell::Cell;

#[derive(Clone)]
pub(super) struct Node<'a> {
    pub value: &'a Value,
    pub path: String,
    /// Bytes that the file's compiled patterns may still take.
    room: &'a Cell<usize>,
}

impl<'a> Node<'a> {
    pub fn new(value: &'a Value, path: impl Into<String>, room: &'a Cell<usize>) -> Self {
        Self { value, path: path.into(), room }
    }

    /// Compiles `pattern`.
    pub fn regex(&self, pattern: &str) -> Result<Pattern, TokenizerError> {
        let (regex, size) = Pattern::regex(pattern, &self.path, self.room.get())?;
        self.room.set(self.room.get().saturating_sub(size));
        Ok(regex)
    }

    pub fn wrong(&self, problem: impl Into<String>) -> TokenizerError {
        TokenizerError::invalid(&self.path, problem)
    }

    /// The field `key`, null if it is missing.
    pub fn get(&self, key: &str) -> Node<'a> {
        let value = self.value.get(key).unwrap_or(&Value::Null);
        Node::new(value, format!("{}.{key}", self.path), self.room)
    }

    /// The elements of an array.
    pub fn items(&self) -> Result<Vec<Node<'a>>, TokenizerError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("expected an array"))?;
        let named = |(i, v)| Node::new(v, format!("{}[{i}]", self.path), self.room);
        Ok(items.iter().enumerate().map(named).collect())
    }

    pub fn str(&self) -> Result<&'a str, TokenizerError> {
        self.value.as_str().ok_or_else(|| self.wrong("expected a string"))
    }

    /// A string, or the empty one for null.
    pub fn str_or_empty(&self) -> Result<&'a str, TokenizerError> {
        if self.value.is_null() { Ok("") } else { self.str() }
    }

    pub fn char(&self) -> Result<char, TokenizerError> {
        let mut chars = self.str()?.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            _ => Err(self.wrong("expected one character")),
        }
    }

    pub fn bool_or(&self, default: bool) -> Result<bool, TokenizerError> {
        match self.value {
            Value::Null => Ok(default),
            Value::Bool(b) => Ok(*b),
            _ => Err(self.wrong("expected true or false")),
        }
    }

    pub fn usize(&self) -> Result<usize, TokenizerError> {
        let n = self.value.as_u64().and_then(|n| usize::try_from(n).ok());
        n.ok_or_else(|| self.wrong("expected a whole number"))
    }

    pub fn id(&self) -> Result<u32, TokenizerError> {
        let n = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        n.ok_or_else(|| self.wrong("expected a token id"))
    }

    /// The component's `type`.
    pub fn kind(&self) -> Result<&'a str, TokenizerError> {
        self.get("type").str()
    }

    pub fn unsupported(&self, supported: &'static str) -> TokenizerError {
        let kind = self.get("type");
        let found = kind.value.as_str().unwrap_or("?");
        TokenizerError::unsupported(kind.path, found, supported)
    }
}
