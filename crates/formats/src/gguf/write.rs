//! Writing a GGUF file: its header, then its tensors as they come.
use super::Kind;
use crate::tensor::DType;
use std::io::{self, Error, Write};

/// A metadata value as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Item {
    pub(super) fn new(kind: Kind, bytes: Vec<u8>) -> Item {
        Item { kind, bytes }
    }
    /// A count, an id.
    pub fn u32(n: u32) -> Item {
        Item::new(Kind::U32, n.to_le_bytes().to_vec())
    }
    /// A small count.
    pub fn u16(n: u16) -> Item {
        Item::new(Kind::U16, n.to_le_bytes().to_vec())
    }
    /// A whole number.
    pub fn i32(n: i32) -> Item {
        Item::new(Kind::I32, n.to_le_bytes().to_vec())
    }
    /// A number.
    pub fn f32(x: f32) -> Item {
        Item::new(Kind::F32, x.to_le_bytes().to_vec())
    }
    /// True or false.
    pub fn bool(b: bool) -> Item {
        Item::new(Kind::Bool, vec![b.into()])
    }
    /// A text.
    pub fn str(text: &str) -> Item {
        Item::new(Kind::Str, counted(text.as_bytes()))
    }
    /// Texts, which may hold parts of characters.
    pub fn strs<T: AsRef<[u8]>>(texts: impl ExactSizeIterator<Item = T>) -> Item {
        Item::array(Kind::Str, texts.map(|text| counted(text.as_ref())))
    }
    /// Whole numbers.
    pub fn i32s(all: impl ExactSizeIterator<Item = i32>) -> Item {
        Item::array(Kind::I32, all.map(|n| n.to_le_bytes().to_vec()))
    }
    /// Numbers.
    pub fn f32s(all: impl ExactSizeIterator<Item = f32>) -> Item {
        Item::array(Kind::F32, all.map(|x| x.to_le_bytes().to_vec()))
    }
    /// Bytes.
    pub fn u8s(all: &[u8]) -> Item {
        Item::array(Kind::U8, all.iter().map(|byte| vec![*byte]))
    }
    /// Of each, whether.
    pub fn bools(all: impl ExactSizeIterator<Item = bool>) -> Item {
        Item::array(Kind::Bool, all.map(|b| vec![b.into()]))
    }
    fn array(kind: Kind, all: impl ExactSizeIterator<Item = Vec<u8>>) -> Item {
        let mut bytes = (kind as u32).to_le_bytes().to_vec();
        bytes.extend((all.len() as u64).to_le_bytes());
        all.for_each(|one| bytes.extend(one));
        Item::new(Kind::Array, bytes)
    }
}

/// A tensor that is to be written.
#[derive(Clone, Debug)]
pub struct Planned {
    /// As the file calls it.
    pub name: String,
    /// Its type.
    pub dtype: DType,
    /// Outermost axis first.
    pub shape: Vec<usize>,
}

impl Planned {
    /// Bytes that it takes.
    pub fn len(&self) -> u64 {
        let format = self.dtype.format();
        let elements: u64 = self.shape.iter().map(|axis| *axis as u64).product();
        elements / format.elems as u64 * format.bytes as u64
    }
    /// Whether that is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const ALIGNMENT: u64 = 32;

/// Writes a whole file; `fill` puts the bytes of each tensor, in as many pieces as it likes.
///
/// # Errors
/// As `out`'s and `fill`'s; a tensor of a type that GGUF has not, or with more or fewer bytes than
/// its shape takes.
pub fn write<W: Write, E: From<Error>>(
    out: &mut W,
    metadata: &[(String, Item)],
    tensors: &[Planned],
    mut fill: impl FnMut(&Planned, &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), E>,
) -> Result<(), E> {
    out.write_all(&header(metadata, tensors)?)?;
    for tensor in tensors {
        let mut written = 0;
        fill(tensor, &mut |bytes| {
            written += bytes.len() as u64;
            out.write_all(bytes)
        })?;
        if written != tensor.len() {
            let (name, expected) = (&tensor.name, tensor.len());
            let text = format!("tensor '{name}' came with {written} bytes, expected {expected}");
            return Err(Error::other(text).into());
        }
        pad(out, written)?;
    }
    Ok(())
}

/// What comes before the tensors' bytes.
///
/// # Errors
/// A tensor of a type that GGUF has not.
pub fn header(metadata: &[(String, Item)], tensors: &[Planned]) -> io::Result<Vec<u8>> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, item) in metadata {
        out.extend(counted(key.as_bytes()));
        out.extend((item.kind as u32).to_le_bytes());
        out.extend(&item.bytes);
    }
    let mut offset = 0u64;
    for tensor in tensors {
        out.extend(counted(tensor.name.as_bytes()));
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|axis| out.extend((*axis as u64).to_le_bytes()));
        let format = tensor.dtype.format();
        let id =
            format.ggml.ok_or_else(|| Error::other(format!("GGUF has no type {}", format.name)))?;
        out.extend(id.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset = (offset + tensor.len()).next_multiple_of(ALIGNMENT);
    }
    let len = out.len() as u64;
    pad(&mut out, len)?;
    Ok(out)
}

fn pad(out: &mut impl Write, len: u64) -> io::Result<()> {
    out.write_all(&[0; ALIGNMENT as usize][..(len.next_multiple_of(ALIGNMENT) - len) as usize])
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{Gguf, Value};
    use crate::tensor::Weights;

    fn file(bytes: &'static [u8]) -> io::Result<Vec<u8>> {
        let metadata = [
            ("general.architecture".to_owned(), Item::str("llama")),
            ("a".to_owned(), Item::u32(7)),
            ("b".to_owned(), Item::f32(0.5)),
            ("c".to_owned(), Item::bool(true)),
            ("d".to_owned(), Item::strs([&b"x"[..], b"\xff"].into_iter())),
            ("e".to_owned(), Item::i32s([-1, 2].into_iter())),
            ("f".to_owned(), Item::f32s([1.5].into_iter())),
            ("g".to_owned(), Item::bools([true, false].into_iter())),
            ("h".to_owned(), Item::u8s(&[0, 255])),
        ];
        let planned = |name: &str, shape: &[usize]| Planned {
            name: name.to_owned(),
            dtype: DType::F16,
            shape: shape.to_vec(),
        };
        let tensors = [planned("one", &[1]), planned("two", &[2, 3])];
        let mut out = Vec::new();
        write(&mut out, &metadata, &tensors, |tensor, put| match &*tensor.name {
            "one" => put(&bytes[..2]),
            _ => put(&bytes[2..8]).and_then(|()| put(&bytes[8..])),
        })?;
        Ok(out)
    }

    #[test]
    fn what_is_written_is_read() {
        let gguf = Gguf::parse("file", file(b"aabbccddeeffgg").unwrap()).unwrap();
        let meta = gguf.metadata();
        assert_eq!(gguf.architecture().unwrap(), "llama");
        assert_eq!(meta.u32("a").unwrap(), Some(7));
        assert_eq!(meta.get("b"), Some(Value::Float(0.5)));
        assert_eq!(meta.bool("c").unwrap(), Some(true));
        assert_eq!(meta.strs("d").unwrap().unwrap().collect::<Vec<_>>(), [&b"x"[..], b"\xff"]);
        assert_eq!(meta.i32s("e").unwrap(), Some(vec![-1, 2]));
        assert_eq!(meta.f32s("f").unwrap(), Some(vec![1.5]));
        assert_eq!(meta.bools("g").unwrap(), Some(vec![true, false]));
        let Some(Value::Array(bytes)) = meta.get("h") else { panic!("no array") };
        let bytes: Vec<_> = bytes.scalars().unwrap().collect();
        assert_eq!(bytes, [Value::Unsigned(0), Value::Unsigned(255)]);
        let two = gguf.get("two").unwrap();
        assert_eq!((&*two.shape, &*two.bytes), (&[2, 3][..], &b"bbccddeeffgg"[..]));
        for key in meta.keys() {
            let item = meta.item(key).unwrap();
            assert_eq!(item.kind == Kind::Str, key == "general.architecture");
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let error = file(b"aabbccddee").unwrap_err().to_string();
        assert_eq!(error, "tensor 'two' came with 8 bytes, expected 12");
    }
}
