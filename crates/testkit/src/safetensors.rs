//! A minimal reader of trusted safetensors bytes: tests must not depend on the reader they test.
use serde_json::Value;
use std::collections::BTreeMap;

/// One tensor.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As the file spells it: `F32`, `BF16`, `I32`, ...
    pub dtype: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// Little endian, row-major.
    pub bytes: Vec<u8>,
}

impl Entry {
    /// As f32.
    ///
    /// # Panics
    /// If it is not F32.
    pub fn f32(&self) -> Vec<f32> {
        assert_eq!(self.dtype, "F32");
        self.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }
    /// As i32.
    ///
    /// # Panics
    /// If it is not I32.
    pub fn i32(&self) -> Vec<i32> {
        assert_eq!(self.dtype, "I32");
        self.bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
    }
}

/// Reads all tensors.
///
/// # Panics
/// If the bytes are not safetensors.
pub fn read(bytes: &[u8]) -> BTreeMap<String, Entry> {
    let n = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + n]).expect("a JSON header");
    let data = &bytes[8 + n..];
    let header = header.as_object().expect("an object");
    header
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, t)| {
            let size = |v: &Value| v.as_u64().expect("a size") as usize;
            let at: Vec<usize> =
                t["data_offsets"].as_array().expect("offsets").iter().map(size).collect();
            let entry = Entry {
                dtype: t["dtype"].as_str().expect("a dtype").to_owned(),
                shape: t["shape"].as_array().expect("a shape").iter().map(size).collect(),
                bytes: data[at[0]..at[1]].to_vec(),
            };
            (name.clone(), entry)
        })
        .collect()
}

/// Writes tensors as one safetensors file.
pub fn write(tensors: &BTreeMap<String, Entry>) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, t) in tensors {
        let from = data.len();
        data.extend_from_slice(&t.bytes);
        header.insert(
            name.clone(),
            serde_json::json!({"dtype": t.dtype, "shape": t.shape, "data_offsets": [from, data.len()]}),
        );
    }
    let mut json = Value::Object(header).to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut out = (json.len() as u64).to_le_bytes().to_vec();
    out.extend(json);
    out.extend(data);
    out
}
