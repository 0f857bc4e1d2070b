//! Bundles (`.rinf`): a model as the kernels read it, in one file that is mapped and not read.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..12 | version: [`VERSION`] |
//! | 12..16 | CRC-32 of bytes 16..64 |
//! | 16..24 | length of the bundle |
//! | 24..32, 32..40 | where the header lies, and its length |
//! | 40..44 | CRC-32 of the header |
//! | 44..64 | zeros |
//! | 64.. | sections, each at a multiple of 64 bytes, zeros between them |
//! | the end | the header: JSON, [`Header`] |
//!
//! Numbers are little-endian. A section is a file that the model brings along, or a tensor: a vector
//! as f32, or a packed matrix. Offsets count from the bundle's first byte, which may lie within
//! another file, at a multiple of 64. Every section has a CRC-32 of its own. Opening checks the first
//! 64 bytes and the header; [`Bundle::verify`] checks the rest.
mod header;
mod metadata;
mod write;

pub use header::{File, Header, Section, Stored};
pub use metadata::metadata;
pub use write::Writer;

use crate::error::{Cause, Error, Looks};
use crate::limits;
use crate::map::Bytes;
use crate::quant::Format;
use crate::tensor::{DType, Prepared, Tensor, Weights};
use header::{Prologue, check_sections};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a bundle begins: not as a text does, and not as a text that was converted.
pub const MAGIC: [u8; 8] = *b"\x89RINF\r\n\x1a";
/// The newest version of the container that is read, and the one that is written.
pub const VERSION: u32 = 2;
/// What sections are aligned to.
pub const STEP: u64 = 64;

const ORDER: &str = ".order";

/// The file that has the order in which a norm makes its output, or a matrix reads its input.
pub fn order(name: &str) -> String {
    format!("{name}{ORDER}")
}

/// An open bundle.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    bytes: Bytes,
    header: Header,
    /// Positions in the header's tensors, by name.
    sorted: Vec<usize>,
}

impl Bundle {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Bundle, Error> {
        let path = path.as_ref();
        Bundle::over(path, Bytes::map(path).map_err(|cause| Error::at(path, cause))?)
    }
    /// Reads a bundle's bytes from memory; errors call it `name`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Bundle, Error> {
        Bundle::over(name.as_ref(), Bytes::Owned(bytes))
    }
    /// Reads a bundle's bytes; errors call it `path`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn over(path: &Path, bytes: Bytes) -> Result<Bundle, Error> {
        let header = read(&bytes).map_err(|cause| Error::at(path, cause))?;
        let mut sorted: Vec<usize> = (0..header.tensors.len()).collect();
        sorted.sort_by(|&a, &b| header.tensors[a].name.cmp(&header.tensors[b].name));
        let twice = |w: &&[usize]| header.tensors[w[0]].name == header.tensors[w[1]].name;
        if let Some(w) = sorted.windows(2).find(twice) {
            let tensor = header.tensors[w[0]].name.clone();
            return Err(Error::at(path, Cause::DuplicateTensor { tensor }));
        }
        Ok(Bundle { path: path.to_owned(), bytes, header, sorted })
    }
    /// Whether bytes begin as a bundle does.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }
    /// Where it came from.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Never: a bundle has its first 64 bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// What the model is, in the words of whoever wrote it.
    pub fn model(&self) -> &Value {
        &self.header.model
    }
    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// The bytes, for whoever says how they will be used.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// A file that the model brings along.
    pub fn file(&self, name: &str) -> Option<Bytes> {
        let file = self.header.files.iter().find(|file| file.name == name)?;
        Some(self.bytes.part(file.section.range()))
    }
    /// What it has orders of.
    pub fn orders(&self) -> impl Iterator<Item = &str> {
        self.header.files.iter().filter_map(|file| file.name.strip_suffix(ORDER))
    }
    /// Compares every byte with its checksum, or with the zero that it must be.
    ///
    /// # Errors
    /// The first that is damaged.
    pub fn verify(&self) -> Result<(), Error> {
        let mut at = STEP;
        for (what, section) in self.header.sections() {
            self.zeros(at, section.offset)?;
            let bytes = &self.bytes[section.range()];
            let found = crc32fast::hash(bytes);
            self.bytes.release(bytes);
            if found != section.crc32 {
                let (from, to) = (section.offset, section.offset + section.length);
                return Err(self.damaged(what, from, to));
            }
            at = section.offset + section.length;
        }
        let prologue = Prologue::read(&self.bytes).map_err(|cause| Error::at(&self.path, cause))?;
        self.zeros(at, prologue.header)
    }
    fn zeros(&self, from: u64, to: u64) -> Result<(), Error> {
        match self.bytes[from as usize..to as usize].iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.damaged("the zeros between two sections".into(), from, to)),
        }
    }
    fn damaged(&self, what: String, from: u64, to: u64) -> Error {
        Error::at(&self.path, Cause::Damaged { what, from, to })
    }
    fn find(&self, name: &str) -> Option<&Stored> {
        let tensors = &self.header.tensors;
        let i = self.sorted.binary_search_by(|&i| tensors[i].name.as_str().cmp(name)).ok()?;
        Some(&tensors[self.sorted[i]])
    }
}

impl Weights for Bundle {
    /// Vectors only: a packed matrix is [`Weights::prepared`].
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let stored = self.find(name).filter(|stored| stored.layout.is_none())?;
        let bytes = (&self.bytes[stored.section.range()]).into();
        Some(Tensor { dtype: DType::F32, shape: (&stored.shape[..]).into(), bytes })
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let stored = self.find(name)?;
        let dtype = match stored.layout {
            Some(_) => Format::of_name(&stored.source)?.dtype,
            None => DType::F32,
        };
        Some((dtype, stored.shape.clone()))
    }
    fn prepared(&self, name: &str) -> Option<Prepared<'_>> {
        let stored = self.find(name)?;
        let layout = stored.layout.as_deref()?;
        let bytes = self.bytes.part(stored.section.range());
        Some(Prepared { layout, shape: &stored.shape, bytes })
    }
    fn stored_order(&self, name: &str) -> Option<Arc<[u32]>> {
        let bytes = self.file(&order(name))?;
        Some(bytes.as_chunks().0.iter().map(|k| u32::from_le_bytes(*k)).collect())
    }
    fn names(&self) -> Vec<&str> {
        self.header.tensors.iter().map(|stored| stored.name.as_str()).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.bytes.release(bytes);
    }
}

/// The header, once it and the first bytes are found whole.
fn read(bytes: &[u8]) -> Result<Header, Cause> {
    if !Bundle::begins(bytes) {
        return Err(Cause::NotBundle { looks: Looks::at(bytes) });
    }
    let Prologue { length, header: from, header_length, crc32 } = Prologue::read(bytes)?;
    let size = bytes.len() as u64;
    if length > size {
        return Err(Cause::Truncated { what: "the bundle".into(), end: length, size });
    }
    if length < size {
        return Err(Cause::Beyond { end: length, size });
    }
    if header_length > limits::BUNDLE_HEADER {
        let limit = limits::BUNDLE_HEADER;
        return Err(Cause::HeaderSize { size: header_length, limit });
    }
    if from < STEP || from.checked_add(header_length) != Some(length) {
        let end = from.saturating_add(header_length);
        return Err(Cause::Damaged { what: "the place of the header".into(), from, to: end });
    }
    let json = &bytes[from as usize..];
    if crc32fast::hash(json) != crc32 {
        return Err(Cause::Damaged { what: "the header".into(), from, to: length });
    }
    let header: Header = serde_json::from_slice(json).map_err(|e| Cause::Header(e.to_string()))?;
    check_sections(&header, from)?;
    Ok(header)
}
