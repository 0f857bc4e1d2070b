//! The values of GGUF's metadata.
use super::cursor::Cursor;
use std::fmt;

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
    pub(super) kind: Kind,
    pub(super) count: usize,
    pub(super) bytes: &'a [u8],
}

/// The elements of an array of strings. They need not be UTF-8: a vocabulary may hold half a
/// character.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    left: usize,
    bytes: &'a [u8],
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

/// Each type at its number in GGUF: its name, and the bytes of a number or bool.
const KINDS: [(Kind, &str, Option<usize>); 13] = [
    (Kind::U8, "u8", Some(1)),
    (Kind::I8, "i8", Some(1)),
    (Kind::U16, "u16", Some(2)),
    (Kind::I16, "i16", Some(2)),
    (Kind::U32, "u32", Some(4)),
    (Kind::I32, "i32", Some(4)),
    (Kind::F32, "f32", Some(4)),
    (Kind::Bool, "bool", Some(1)),
    (Kind::Str, "string", None),
    (Kind::Array, "array", None),
    (Kind::U64, "u64", Some(8)),
    (Kind::I64, "i64", Some(8)),
    (Kind::F64, "f64", Some(8)),
];

impl Kind {
    /// The type with this number in GGUF.
    pub(super) fn of(id: u32) -> Option<Kind> {
        KINDS.get(id as usize).map(|k| k.0)
    }
    /// Bytes of a number or bool.
    pub(crate) fn size(self) -> Option<usize> {
        KINDS[self as usize].2
    }
    /// Bytes that a value takes at least.
    pub(super) fn least(self) -> u64 {
        match self {
            Kind::Str => 8,
            Kind::Array => 12,
            _ => self.size().map_or(1, |n| n as u64),
        }
    }
    /// The number or bool in `bytes`, which are `size` many.
    pub(super) fn scalar<'a>(self, bytes: &[u8]) -> Value<'a> {
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
        f.write_str(KINDS[*self as usize].1)
    }
}
