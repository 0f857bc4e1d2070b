//! GGUF's keys and values, decoded where they lie.
use super::cursor::Cursor;
use crate::error::{Cause, Error};
use crate::limits;
use std::fmt;
use std::path::Path;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Str,
    Array,
    U64,
    I64,
    F64,
}

/// A decoded value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// u8 to u64.
    Unsigned(u64),
    /// i8 to i64.
    Signed(i64),
    /// f32, f64.
    Float(f64),
    /// bool.
    Bool(bool),
    /// A string.
    Str(&'a str),
    /// An array.
    Array(Array<'a>),
}

/// An array where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    kind: Kind,
    count: usize,
    bytes: &'a [u8],
}

/// The elements of an array of strings. They need not be UTF-8: a vocabulary may hold half a
/// character.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    left: usize,
    bytes: &'a [u8],
}

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
        self.index.entries.iter().map(|e| e.key.as_str())
    }
    /// The value of `key`, if there is one.
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.index.get(self.bytes, key).map(|(_, value)| value)
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
    /// A float of either width, to the nearest f32.
    ///
    /// # Errors
    /// If `key` has another type.
    pub fn f32(self, key: &str) -> Result<Option<f32>, Error> {
        self.typed(key, "a float", |v| match v {
            Value::Float(n) => Some(n as f32),
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

impl<'a> Array<'a> {
    /// Number of elements.
    pub fn len(self) -> usize {
        self.count
    }
    /// Whether it has no elements.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
    /// The elements' type.
    pub fn kind(self) -> Kind {
        self.kind
    }
    /// The elements, if they are strings.
    pub fn strings(self) -> Option<Strings<'a>> {
        (self.kind == Kind::Str).then_some(Strings { left: self.count, bytes: self.bytes })
    }
    /// The elements, if they are numbers or bools.
    pub fn scalars(self) -> Option<impl ExactSizeIterator<Item = Value<'a>>> {
        let (kind, size) = (self.kind, self.kind.size()?);
        Some(self.bytes.chunks_exact(size).map(move |bytes| kind.scalar(bytes)))
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let mut at = Cursor::new(self.bytes);
        let string = at.counted(format_args!("")).ok()?;
        self.bytes = &self.bytes[at.position() as usize..];
        Some(string)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl ExactSizeIterator for Strings<'_> {}

impl Kind {
    const ALL: [Kind; 13] = [
        Kind::U8,
        Kind::I8,
        Kind::U16,
        Kind::I16,
        Kind::U32,
        Kind::I32,
        Kind::F32,
        Kind::Bool,
        Kind::Str,
        Kind::Array,
        Kind::U64,
        Kind::I64,
        Kind::F64,
    ];
    fn of(id: u32) -> Option<Kind> {
        Kind::ALL.get(id as usize).copied()
    }
    /// Bytes of a number or bool.
    fn size(self) -> Option<usize> {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => Some(1),
            Kind::U16 | Kind::I16 => Some(2),
            Kind::U32 | Kind::I32 | Kind::F32 => Some(4),
            Kind::U64 | Kind::I64 | Kind::F64 => Some(8),
            Kind::Str | Kind::Array => None,
        }
    }
    /// Bytes that a value takes at least.
    fn least(self) -> u64 {
        match self {
            Kind::Str => 8,
            Kind::Array => 12,
            _ => self.size().map_or(1, |n| n as u64),
        }
    }
    /// The number or bool in `bytes`, which are `size` many.
    fn scalar<'a>(self, bytes: &[u8]) -> Value<'a> {
        let mut low = [0; 8];
        low[..bytes.len()].copy_from_slice(bytes);
        let n = u64::from_le_bytes(low);
        match self {
            Kind::I8 => Value::Signed((n as i8).into()),
            Kind::I16 => Value::Signed((n as i16).into()),
            Kind::I32 => Value::Signed((n as i32).into()),
            Kind::I64 => Value::Signed(n as i64),
            Kind::F32 => Value::Float(f32::from_bits(n as u32).into()),
            Kind::F64 => Value::Float(f64::from_bits(n)),
            Kind::Bool => Value::Bool(n != 0),
            _ => Value::Unsigned(n),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Kind::U8 => "u8",
            Kind::I8 => "i8",
            Kind::U16 => "u16",
            Kind::I16 => "i16",
            Kind::U32 => "u32",
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::Bool => "bool",
            Kind::Str => "string",
            Kind::Array => "array",
            Kind::U64 => "u64",
            Kind::I64 => "i64",
            Kind::F64 => "f64",
        })
    }
}

/// Where each key's value lies.
#[derive(Debug)]
pub(super) struct Index {
    entries: Vec<Entry>,
    /// Positions in `entries`, by key.
    sorted: Vec<usize>,
}
#[derive(Debug)]
struct Entry {
    key: String,
    kind: Kind,
    start: usize,
    end: usize,
}

impl Index {
    /// Reads `count` keys, checking every value's extent.
    pub fn read(at: &mut Cursor, count: u64) -> Result<Index, Cause> {
        // A key's length, a type and a byte.
        at.holds(count, 13, format_args!("the metadata"))?;
        let mut entries = Vec::with_capacity(count as usize);
        for i in 0..count {
            let key = at.string(format_args!("the metadata key {i}"))?.to_owned();
            let kind = kind(at, &key)?;
            let start = at.position() as usize;
            skip(at, &key, kind, 0)?;
            entries.push(Entry { key, kind, start, end: at.position() as usize });
        }
        let mut sorted: Vec<usize> = (0..entries.len()).collect();
        sorted.sort_by(|&a, &b| entries[a].key.cmp(&entries[b].key));
        match sorted.windows(2).find(|w| entries[w[0]].key == entries[w[1]].key) {
            Some(w) => Err(Cause::DuplicateKey { key: entries[w[0]].key.clone() }),
            None => Ok(Index { entries, sorted }),
        }
    }
    pub fn get<'a>(&self, bytes: &'a [u8], key: &str) -> Option<(Kind, Value<'a>)> {
        let i = self.sorted.binary_search_by(|&i| self.entries[i].key.as_str().cmp(key)).ok()?;
        let entry = &self.entries[self.sorted[i]];
        let bytes = &bytes[entry.start..entry.end];
        let mut at = Cursor::new(bytes);
        let value = match entry.kind {
            Kind::Str => Value::Str(at.string(format_args!("")).ok()?),
            Kind::Array => {
                let kind = Kind::of(at.u32(format_args!("")).ok()?)?;
                let count = at.u64(format_args!("")).ok()? as usize;
                Value::Array(Array { kind, count, bytes: &bytes[at.position() as usize..] })
            }
            scalar => scalar.scalar(bytes),
        };
        Some((entry.kind, value))
    }
}

fn kind(at: &mut Cursor, key: &str) -> Result<Kind, Cause> {
    let id = at.u32(format_args!("the type of '{key}'"))?;
    Kind::of(id).ok_or_else(|| Cause::ValueType { key: key.to_owned(), id })
}

/// Moves past a value.
fn skip(at: &mut Cursor, key: &str, of: Kind, depth: usize) -> Result<(), Cause> {
    match of {
        Kind::Str if depth == 0 => at.string(format_args!("the value of '{key}'")).map(drop),
        Kind::Str => at.counted(format_args!("a string of '{key}'")).map(drop),
        Kind::Array if depth == limits::NESTING => {
            Err(Cause::Nesting { key: key.to_owned(), max: limits::NESTING })
        }
        Kind::Array => {
            let element = kind(at, key)?;
            let count = at.u64(format_args!("the length of '{key}'"))?;
            at.holds(count, element.least(), format_args!("the array '{key}'"))?;
            if let Some(size) = element.size() {
                // Can't overflow: `holds` has compared it with the bytes left.
                return at.take(count * size as u64, format_args!("the array '{key}'")).map(drop);
            }
            (0..count).try_for_each(|_| skip(at, key, element, depth + 1))
        }
        scalar => at.take(scalar.least(), format_args!("the value of '{key}'")).map(drop),
    }
}
