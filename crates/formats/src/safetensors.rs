//! Safetensors: a JSON header of names, types, shapes and ranges, then the bytes.
//!
//! The ranges must tile the data exactly and agree with the shapes: nothing hides in a gap or an
//! overlap, and no name occurs twice.
use crate::error::{Cause, Error, Looks};
use crate::limits;
use crate::map::Bytes;
use crate::quant::Format;
use crate::tensor::{DType, Tensor, Weights};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// An open safetensors file.
#[derive(Debug)]
pub struct Safetensors {
    bytes: Bytes,
    tensors: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    range: Range<usize>,
}

impl Safetensors {
    /// Maps and reads the file at `path`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Safetensors, Error> {
        let path = path.as_ref();
        let read = || Safetensors::over(Bytes::map(path)?, limits::SAFETENSORS_HEADER);
        read().map_err(|cause| Error::at(path, cause))
    }
    /// Reads a file's content from memory; errors call it `name`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Safetensors, Error> {
        Safetensors::over(Bytes::Owned(bytes), limits::SAFETENSORS_HEADER)
            .map_err(|cause| Error::at(name.as_ref(), cause))
    }
    fn over(bytes: Bytes, limit: u64) -> Result<Safetensors, Cause> {
        let tensors = read(&bytes, limit)?;
        let by_name = tensors.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect();
        Ok(Safetensors { bytes, tensors, by_name })
    }
}

impl Weights for Safetensors {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let entry = &self.tensors[*self.by_name.get(name)?];
        Some(Tensor {
            dtype: entry.dtype,
            shape: Cow::Borrowed(&entry.shape),
            bytes: Cow::Borrowed(&self.bytes[entry.range.clone()]),
        })
    }
    fn names(&self) -> Vec<&str> {
        self.tensors.iter().map(|t| t.name.as_str()).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.bytes.release(bytes);
    }
}

/// The tensors, in the order of their bytes.
fn read(bytes: &[u8], limit: u64) -> Result<Vec<Entry>, Cause> {
    let size = bytes.len() as u64;
    let (header, data) = match Looks::at(bytes) {
        Looks::Unknown | Looks::Safetensors => split(bytes, limit)?,
        looks => return Err(Cause::NotSafetensors { looks }),
    };
    let header: Header =
        serde_json::from_slice(header).map_err(|e| Cause::Header(e.to_string()))?;
    let start = size - data;
    let mut tensors = header.0;
    tensors.sort_by(|(_, a), (_, b)| a.data_offsets.cmp(&b.data_offsets));
    let mut entries: Vec<Entry> = Vec::with_capacity(tensors.len());
    let mut filled = 0;
    for (name, described) in tensors {
        let (begin, end) = described.range(&name)?;
        if begin > filled {
            return Err(Cause::Hole { from: filled, to: begin });
        }
        if begin < filled {
            let first = entries.last().map_or(String::new(), |e| e.name.clone());
            return Err(Cause::Overlap { first, second: name });
        }
        if end > data {
            let what = format!("the tensor '{name}'");
            return Err(Cause::Truncated { what, end: start.saturating_add(end), size });
        }
        filled = end;
        let range = (start + begin) as usize..(start + end) as usize;
        let (dtype, shape) = described.fits(&name, end - begin)?;
        entries.push(Entry { name, dtype, shape, range });
    }
    if filled != data {
        return Err(Cause::Hole { from: filled, to: data });
    }
    Ok(entries)
}

/// The header, and the length of what follows it.
fn split(bytes: &[u8], limit: u64) -> Result<(&[u8], u64), Cause> {
    let size = bytes.len() as u64;
    let truncated = |end| Cause::Truncated { what: "the header".to_owned(), end, size };
    let (length, rest) = bytes.split_first_chunk().ok_or_else(|| truncated(8))?;
    let length = u64::from_le_bytes(*length);
    if length > limit {
        return Err(Cause::HeaderSize { size: length, limit });
    }
    if length > rest.len() as u64 {
        return Err(truncated(length.saturating_add(8)));
    }
    let (header, data) = rest.split_at(length as usize);
    Ok((header, data.len() as u64))
}

/// What the header says of a tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: Vec<u64>,
}

impl Described {
    fn range(&self, name: &str) -> Result<(u64, u64), Cause> {
        match self.data_offsets[..] {
            [begin, end] if begin <= end => Ok((begin, end)),
            _ => {
                let found = self.data_offsets.clone();
                Err(Cause::Offsets { tensor: name.to_owned(), found })
            }
        }
    }
    /// Checks the shape against `found` bytes.
    fn fits(self, name: &str, found: u64) -> Result<(DType, Vec<usize>), Cause> {
        let tensor = name.to_owned();
        let Some(format) = format(&self.dtype) else {
            return Err(Cause::UnknownDType { tensor, dtype: self.dtype });
        };
        let shape = self.shape;
        let bytes = shape
            .iter()
            .try_fold(1u64, |n, axis| n.checked_mul(*axis))
            .and_then(|n| n.checked_mul(format.bytes as u64));
        match bytes {
            None => Err(Cause::Overflow { tensor, shape }),
            Some(need) if need != found => Err(Cause::Span { tensor, shape, need, found }),
            // An axis beyond usize is possible beside one of length zero.
            Some(_) => match shape.iter().map(|axis| usize::try_from(*axis)).collect() {
                Ok(axes) => Ok((format.dtype, axes)),
                Err(_) => Err(Cause::Overflow { tensor, shape }),
            },
        }
    }
}

/// Safetensors' names of the element types that we read.
fn format(name: &str) -> Option<&'static Format> {
    Format::of_name(name).filter(|f| f.elems == 1)
}

/// The header in file order, refusing a name that occurs twice: a JSON map would keep the last.
struct Header(Vec<(String, Described)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Header, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut tensors = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format!("'{name}' occurs twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<HashMap<String, IgnoredAny>>()?;
                    } else {
                        tensors.push((name, map.next_value()?));
                    }
                }
                Ok(Header(tensors))
            }
        }
        from.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit itself passes, a byte more does not, and the message tells both numbers.
    #[test]
    fn s5_header_limit() {
        let bytes = |length: usize| {
            let header = format!("{{{}}}", " ".repeat(length - 2));
            Bytes::Owned([&(length as u64).to_le_bytes(), header.as_bytes()].concat())
        };
        assert!(Safetensors::over(bytes(1000), 1000).is_ok());
        let error = Safetensors::over(bytes(1001), 1000).unwrap_err().to_string();
        assert!(error.contains("1001") && error.contains("1000"), "{error}");
    }
}
