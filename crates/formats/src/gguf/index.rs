//! Where GGUF's metadata lies: every extent is checked once, values are decoded on demand.
use super::cursor::Cursor;
use super::value::{Array, Kind, Value};
use crate::error::Cause;
use crate::limits;

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
    /// Every key, in file order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|e| e.key.as_str())
    }
    /// The type and bytes of `key`'s value.
    pub fn raw<'a>(&self, bytes: &'a [u8], key: &str) -> Option<(Kind, &'a [u8])> {
        let i = self.sorted.binary_search_by(|&i| self.entries[i].key.as_str().cmp(key)).ok()?;
        let entry = &self.entries[self.sorted[i]];
        Some((entry.kind, &bytes[entry.start..entry.end]))
    }
    /// The value of `key` and its type.
    pub fn get<'a>(&self, bytes: &'a [u8], key: &str) -> Option<(Kind, Value<'a>)> {
        let (kind, bytes) = self.raw(bytes, key)?;
        let mut at = Cursor::new(bytes);
        let value = match kind {
            Kind::Str => Value::Str(at.string(format_args!("")).ok()?),
            Kind::Array => {
                let of = Kind::of(at.u32(format_args!("")).ok()?)?;
                let count = at.u64(format_args!("")).ok()? as usize;
                Value::Array(Array { kind: of, count, bytes: &bytes[at.position() as usize..] })
            }
            scalar => scalar.scalar(bytes),
        };
        Some((kind, value))
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
