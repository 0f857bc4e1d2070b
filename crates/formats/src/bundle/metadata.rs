//! A GGUF file's keys and values as a GGUF file of their own: what a bundle keeps of one.
use crate::gguf::{Array, Gguf, Kind, Value};

/// The keys and values of `gguf`, without its tensors and what says how it was split to files.
pub fn metadata(gguf: &Gguf) -> Vec<u8> {
    let metadata = gguf.metadata();
    let mut out = Vec::new();
    let mut count = 0u64;
    for key in metadata.keys().filter(|key| !key.starts_with("split.")) {
        let Some(value) = metadata.get(key) else { continue };
        string(&mut out, key.as_bytes());
        self::value(&mut out, value);
        count += 1;
    }
    let head = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes(), &count.to_le_bytes()];
    [&head.concat()[..], &out].concat()
}

/// Its type and its bytes, in the widest type of its kind: readers take any width.
fn value(out: &mut Vec<u8>, value: Value<'_>) {
    let kind = match value {
        Value::Unsigned(_) => Kind::U64,
        Value::Signed(_) => Kind::I64,
        Value::Float(_) => Kind::F64,
        Value::Bool(_) => Kind::Bool,
        Value::Str(_) => Kind::Str,
        Value::Array(_) => Kind::Array,
    };
    out.extend((kind as u32).to_le_bytes());
    match value {
        Value::Str(text) => string(out, text.as_bytes()),
        Value::Array(array) => list(out, array),
        number => scalar(out, kind, number),
    }
}

fn list(out: &mut Vec<u8>, array: Array<'_>) {
    // Lists of lists mean nothing to any reader here.
    let kind = if array.kind() == Kind::Array { Kind::U8 } else { array.kind() };
    out.extend((kind as u32).to_le_bytes());
    let count = if array.kind() == Kind::Array { 0 } else { array.len() as u64 };
    out.extend(count.to_le_bytes());
    array.strings().into_iter().flatten().for_each(|text| string(out, text));
    array.scalars().into_iter().flatten().for_each(|number| scalar(out, kind, number));
}

/// A number or bool in as many bytes as its type has.
fn scalar(out: &mut Vec<u8>, kind: Kind, number: Value<'_>) {
    let bits = match number {
        Value::Unsigned(n) => n,
        Value::Signed(n) => n as u64,
        Value::Float(n) if kind == Kind::F32 => (n as f32).to_bits().into(),
        Value::Float(n) => n.to_bits(),
        Value::Bool(b) => b.into(),
        Value::Str(_) | Value::Array(_) => return,
    };
    out.extend(&bits.to_le_bytes()[..kind.size().unwrap_or(0)]);
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}
