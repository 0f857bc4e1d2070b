//! What a bundle says of itself, and what must be true of it.
use super::{MAGIC, STEP, VERSION};
use crate::error::Cause;
use crate::quant::Format;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;

/// The JSON at a bundle's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// What the model is: this layer passes it on as it is.
    pub model: Value,
    /// Files that the model brings along.
    pub files: Vec<File>,
    /// Tensors under canonical names.
    pub tensors: Vec<Stored>,
}

/// A file within a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Plain.
    pub name: String,
    /// Where its bytes are.
    pub section: Section,
}

/// A tensor within a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Canonical.
    pub name: String,
    /// How a packed matrix lies, by the kernels' name for it; plain f32 without.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub layout: Option<String>,
    /// Outermost axis first; of a packed matrix rows and columns are last.
    pub shape: Vec<usize>,
    /// The type that the checkpoint had it in.
    pub source: String,
    /// Where its bytes are.
    pub section: Section,
}

/// Some bytes of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// From the bundle's first byte.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    /// Of the bytes.
    pub crc32: u32,
}

impl Section {
    /// As indices: a checked header's are within memory.
    pub fn range(self) -> Range<usize> {
        self.offset as usize..(self.offset + self.length) as usize
    }
}

impl Header {
    /// Every section in file order, and what messages call it.
    pub fn sections(&self) -> Vec<(String, Section)> {
        let files = self.files.iter().map(|f| (format!("the file '{}'", f.name), f.section));
        let tensors = self.tensors.iter().map(|t| (format!("the tensor '{}'", t.name), t.section));
        let mut all: Vec<_> = files.chain(tensors).collect();
        all.sort_by_key(|(_, section)| (section.offset, section.length));
        all
    }
}

/// A bundle's first 64 bytes.
pub(super) struct Prologue {
    pub length: u64,
    pub header: u64,
    pub header_length: u64,
    pub crc32: u32,
}

impl Prologue {
    /// Of bytes that begin with the magic.
    pub fn read(bytes: &[u8]) -> Result<Prologue, Cause> {
        let size = bytes.len() as u64;
        let cut = || Cause::Truncated { what: "the bundle's beginning".into(), end: STEP, size };
        let Some((bytes, _)) = bytes.split_first_chunk::<64>() else { return Err(cut()) };
        let u32_at = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("4 of 64"));
        let u64_at = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 of 64"));
        // A newer one may have anything else in other places.
        let version = u32_at(8);
        if version > VERSION {
            return Err(Cause::Newer { found: version, most: VERSION });
        }
        let whole = version > 0 && crc32fast::hash(&bytes[16..]) == u32_at(12);
        if !whole || bytes[44..].iter().any(|byte| *byte != 0) {
            return Err(Cause::Damaged {
                what: "the bundle's beginning".into(),
                from: 0,
                to: STEP,
            });
        }
        let (length, header, header_length) = (u64_at(16), u64_at(24), u64_at(32));
        Ok(Prologue { length, header, header_length, crc32: u32_at(40) })
    }
    pub fn write(&self) -> [u8; 64] {
        let mut out = [0; 64];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.length.to_le_bytes());
        out[24..32].copy_from_slice(&self.header.to_le_bytes());
        out[32..40].copy_from_slice(&self.header_length.to_le_bytes());
        out[40..44].copy_from_slice(&self.crc32.to_le_bytes());
        let crc32 = crc32fast::hash(&out[16..]);
        out[12..16].copy_from_slice(&crc32.to_le_bytes());
        out
    }
}

/// Every section lies between the first bytes and the header, on the grid, over no other; a tensor's
/// type is known, and a plain one's shape is as long as its bytes.
pub(super) fn check_sections(header: &Header, end: u64) -> Result<(), Cause> {
    let mut at = STEP;
    for (what, Section { offset, length, .. }) in header.sections() {
        let after = offset.checked_add(length).filter(|after| *after <= end);
        let Some(after) = after.filter(|_| offset >= at && offset.is_multiple_of(STEP)) else {
            let to = offset.saturating_add(length);
            return Err(Cause::Header(format!(
                "{what} lies at bytes {offset} to {to}; expected from a multiple of {STEP} in {at} to {end}"
            )));
        };
        at = after;
    }
    for Stored { name, layout, shape, source, section } in &header.tensors {
        if Format::of_name(source).is_none() {
            return Err(Cause::UnknownDType { tensor: name.clone(), dtype: source.clone() });
        }
        let elements = shape.iter().try_fold(1usize, |n, axis| n.checked_mul(*axis));
        let bytes = elements.and_then(|n| n.checked_mul(4)).map(|n| n as u64);
        if layout.is_none() && bytes != Some(section.length) {
            let shape = shape.iter().map(|axis| *axis as u64).collect();
            let (need, found) = (bytes.unwrap_or(u64::MAX), section.length);
            return Err(Cause::Span { tensor: name.clone(), shape, need, found });
        }
    }
    let mut names: Vec<&str> = header.files.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|w| w[0] == w[1]) {
        Some(w) => Err(Cause::Header(format!("the file '{}' occurs twice", w[0]))),
        None => Ok(()),
    }
}
