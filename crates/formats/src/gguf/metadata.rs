//! GGUF's keys and values, decoded where they lie.
use super::index::Index;
use super::value::{Strings, Value};
use super::write::Item;
use crate::error::{Cause, Error};
use std::path::Path;

/// A file's keys and values.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    index: &'a Index,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8], index: &'a Index) -> Metadata<'a> {
        Metadata { path, bytes, index }
    }
    /// Every key, in file order.
    pub fn keys(self) -> impl ExactSizeIterator<Item = &'a str> {
        self.index.keys()
    }
    /// The value of `key`, if there is one.
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.index.get(self.bytes, key).map(|(_, value)| value)
    }
    /// The value of `key` as it can be written again.
    pub fn item(self, key: &str) -> Option<Item> {
        let (kind, bytes) = self.index.raw(self.bytes, key)?;
        Some(Item::new(kind, bytes.to_vec()))
    }
    /// An integer of any width that fits.
    ///
    /// # Errors
    /// If `key` has another type, or is out of range.
    pub fn u32(self, key: &str) -> Result<Option<u32>, Error> {
        self.typed(key, "an unsigned 32-bit integer", |v| match v {
            Value::Unsigned(n) => n.try_into().ok(),
            Value::Signed(n) => n.try_into().ok(),
            _ => None,
        })
    }
    /// A finite float of either width, to the nearest f32.
    ///
    /// # Errors
    /// If `key` has another type, or is not finite.
    pub fn f32(self, key: &str) -> Result<Option<f32>, Error> {
        self.typed(key, "a finite float", |v| match v {
            Value::Float(n) => Some(n as f32).filter(|n| n.is_finite()),
            _ => None,
        })
    }
    /// A bool.
    ///
    /// # Errors
    /// If `key` has another type.
    pub fn bool(self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "a bool", |v| match v {
            Value::Bool(b) => Some(b),
            _ => None,
        })
    }
    /// A string.
    ///
    /// # Errors
    /// If `key` has another type.
    pub fn str(self, key: &str) -> Result<Option<&'a str>, Error> {
        self.typed(key, "a string", |v| match v {
            Value::Str(s) => Some(s),
            _ => None,
        })
    }
    /// An array of strings.
    ///
    /// # Errors
    /// If `key` has another type.
    pub fn strs(self, key: &str) -> Result<Option<Strings<'a>>, Error> {
        self.typed(key, "an array of strings", |v| match v {
            Value::Array(a) => a.strings(),
            _ => None,
        })
    }
    /// An array of floats, to the nearest f32.
    ///
    /// # Errors
    /// If `key` has another type.
    pub fn f32s(self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        self.list(key, "an array of floats", |v| match v {
            Value::Float(n) => Some(n as f32),
            _ => None,
        })
    }
    /// An array of integers of any width that fit.
    ///
    /// # Errors
    /// If `key` has another type, or an element is out of range.
    pub fn i32s(self, key: &str) -> Result<Option<Vec<i32>>, Error> {
        self.list(key, "an array of signed 32-bit integers", |v| match v {
            Value::Unsigned(n) => n.try_into().ok(),
            Value::Signed(n) => n.try_into().ok(),
            _ => None,
        })
    }
    /// An array of integers of any width that fit.
    ///
    /// # Errors
    /// If `key` has another type, or an element is out of range.
    pub fn u32s(self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        self.list(key, "an array of unsigned 32-bit integers", |v| match v {
            Value::Unsigned(n) => n.try_into().ok(),
            Value::Signed(n) => n.try_into().ok(),
            _ => None,
        })
    }
    /// An array of bools.
    ///
    /// # Errors
    /// If `key` has another type.
    pub fn bools(self, key: &str) -> Result<Option<Vec<bool>>, Error> {
        self.list(key, "an array of bools", |v| match v {
            Value::Bool(b) => Some(b),
            _ => None,
        })
    }
    /// `value`, which a getter found under `key`.
    ///
    /// # Errors
    /// If it found nothing.
    pub fn required<T>(self, key: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| Error::at(self.path, Cause::MissingKey { key: key.to_owned() }))
    }
    pub(super) fn typed<T>(
        self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some((kind, value)) = self.index.get(self.bytes, key) else { return Ok(None) };
        let wrong = || {
            let found = match value {
                Value::Unsigned(n) => format!("{kind} {n}"),
                Value::Signed(n) => format!("{kind} {n}"),
                Value::Float(n) => format!("{kind} {n}"),
                Value::Bool(b) => format!("{kind} {b}"),
                Value::Str(_) => kind.to_string(),
                Value::Array(a) => format!("an array of {} {}", a.count, a.kind),
            };
            Error::at(self.path, Cause::WrongType { key: key.to_owned(), found, expected })
        };
        read(value).map(Some).ok_or_else(wrong)
    }
    fn list<T>(
        self,
        key: &str,
        expected: &'static str,
        read: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        self.typed(key, expected, |v| match v {
            Value::Array(a) => a.scalars()?.map(read).collect(),
            _ => None,
        })
    }
}
