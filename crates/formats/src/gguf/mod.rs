//! GGUF, versions 2 and 3: a header, metadata, a list of tensors, and their bytes.
//!
//! Opening reads the header, checks every extent in it and keeps positions; strings, arrays and
//! tensors are then borrowed from the mapping. So a file with 250 000 tokens opens in milliseconds.
mod architectures;
mod cursor;
mod index;
mod keys;
mod latent;
mod metadata;
mod names;
pub mod recipe;
pub mod split;
pub mod tokenizers;
mod value;
pub mod write;

/// A key of ours: whether matrices are multiplied by numbers that no other key says.
pub const FOLDED: &str = "rinfer.folded";

pub use architectures::{Asked, asked, takes_windows};
pub use metadata::Metadata;
pub use value::{Array, Kind, Strings, Value};

use crate::error::{Cause, Error, Looks};
use crate::limits;
use crate::map::Bytes;
use crate::quant::{self, Format};
use crate::tensor::{DType, Tensor, Weights};
use cursor::Cursor;
use index::Index;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An open GGUF file, or all files of a model that is split.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    /// The first has the metadata.
    files: Vec<Bytes>,
    version: u32,
    metadata: Index,
    tensors: Vec<Entry>,
    /// Positions in `tensors`, by name.
    sorted: Vec<usize>,
}

/// How much of a file there is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Begun,
}

/// A tensor's line in the header.
#[derive(Debug)]
struct Entry {
    name: String,
    /// Which of the files it is in.
    file: usize,
    dtype: DType,
    /// Outermost axis first, so GGUF's order reversed.
    shape: Vec<usize>,
    range: Range<usize>,
}

impl Gguf {
    /// Maps and reads the file at `path`, and if it is one of several of a model, the others.
    ///
    /// # Errors
    /// What is wrong with it, or missing beside it.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        split::open(Gguf::open_one(path.as_ref())?)
    }
    fn open_one(path: &Path) -> Result<Gguf, Error> {
        let bytes = Bytes::map(path).map_err(|cause| Error::at(path, cause))?;
        Gguf::over(path, bytes)
    }
    /// Reads a file's content from memory; errors call it `name`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Gguf, Error> {
        let gguf = Gguf::over(name.as_ref(), Bytes::Owned(bytes))?;
        match split::Place::of(&gguf) {
            Ok(split::Place { part, count, .. }) if count > 1 => {
                Err(Error::at(name.as_ref(), Cause::Split { part, count }))
            }
            place => place.map(|_| gguf).map_err(|cause| Error::at(name.as_ref(), cause)),
        }
    }
    /// Reads a file's content; errors call it `path`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn over(path: &Path, bytes: Bytes) -> Result<Gguf, Error> {
        Gguf::read(path, bytes, Extent::Whole)
    }
    /// Reads the beginning of a file that is to be written: tensors that lie beyond it have no bytes yet.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn begun(path: &Path, bytes: Vec<u8>) -> Result<Gguf, Error> {
        Gguf::read(path, Bytes::Owned(bytes), Extent::Begun)
    }
    fn read(path: &Path, bytes: Bytes, extent: Extent) -> Result<Gguf, Error> {
        let (version, metadata, tensors) =
            read(&bytes, extent).map_err(|cause| Error::at(path, cause))?;
        let (path, files, sorted) = (path.to_owned(), vec![bytes], Vec::new());
        let mut gguf = Gguf { path, files, version, metadata, tensors, sorted };
        gguf.sort();
        gguf.check().map_err(|cause| Error::at(&gguf.path, cause))?;
        Ok(gguf)
    }
    fn sort(&mut self) {
        let tensors = &self.tensors;
        self.sorted = (0..tensors.len()).collect();
        self.sorted.sort_by(|&a, &b| tensors[a].name.cmp(&tensors[b].name));
    }
    /// What only the whole shows.
    fn check(&self) -> Result<(), Cause> {
        let twice = |w: &&[usize]| self.tensors[w[0]].name == self.tensors[w[1]].name;
        if let Some(w) = self.sorted.windows(2).find(twice) {
            return Err(Cause::DuplicateTensor { tensor: self.tensors[w[0]].name.clone() });
        }
        Ok(())
    }
    /// Where it came from.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The version of the container: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// The keys and values.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.path, &self.files[0], &self.metadata)
    }
    /// `general.architecture`.
    ///
    /// # Errors
    /// If it is missing or no string.
    pub fn architecture(&self) -> Result<&str, Error> {
        let metadata = self.metadata();
        metadata.required("general.architecture", metadata.str("general.architecture")?)
    }
    /// The hyper-parameters, in the vocabulary of Hugging Face's config.json.
    ///
    /// # Errors
    /// If the architecture is missing, or a key that is translated has the wrong type.
    pub fn config(&self) -> Result<serde_json::Value, Error> {
        keys::config(self)
    }
    fn find(&self, name: &str) -> Option<&Entry> {
        let i = self.sorted.binary_search_by(|&i| self.tensors[i].name.as_str().cmp(name)).ok()?;
        Some(&self.tensors[self.sorted[i]])
    }
}

impl Weights for Gguf {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let entry = self.find(name)?;
        Some(Tensor {
            dtype: entry.dtype,
            shape: Cow::Borrowed(&entry.shape),
            bytes: Cow::Borrowed(&self.files[entry.file][entry.range.clone()]),
        })
    }
    fn names(&self) -> Vec<&str> {
        self.tensors.iter().map(|t| t.name.as_str()).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.files.iter().for_each(|file| file.release(bytes));
    }
}

/// The header: version, metadata, tensors in file order.
fn read(bytes: &[u8], extent: Extent) -> Result<(u32, Index, Vec<Entry>), Cause> {
    if !bytes.starts_with(b"GGUF") {
        return Err(Cause::NotGguf { looks: Looks::at(bytes) });
    }
    let mut at = Cursor::new(bytes);
    at.take(4, format_args!("the magic"))?;
    let version = at.u32(format_args!("the version"))?;
    match version {
        2 | 3 => {}
        v if (1..=16).contains(&v.swap_bytes()) => {
            return Err(Cause::BigEndian { version: v.swap_bytes() });
        }
        version => return Err(Cause::Version { version }),
    }
    let tensors = at.u64(format_args!("the number of tensors"))?;
    let keys = at.u64(format_args!("the number of metadata keys"))?;
    let metadata = Index::read(&mut at, keys)?;
    let alignment = alignment(bytes, &metadata)?;
    let planned = plan(&mut at, tensors)?;
    // With no tensors nothing needs to follow, not even padding.
    let data = at.position().next_multiple_of(alignment);
    let place = |p: Planned| p.place(data, alignment, bytes.len(), extent);
    let tensors = planned.into_iter().map(place).collect::<Result<_, _>>()?;
    Ok((version, metadata, tensors))
}

fn alignment(bytes: &[u8], metadata: &Index) -> Result<u64, Cause> {
    let key = "general.alignment";
    let (found, value) = match metadata.get(bytes, key) {
        None => return Ok(32),
        Some((Kind::U32, Value::Unsigned(value))) => (Kind::U32, value),
        Some((kind, _)) => (kind, 0),
    };
    if found != Kind::U32 {
        let found = found.to_string();
        return Err(Cause::WrongType { key: key.to_owned(), found, expected: "u32" });
    }
    if !value.is_power_of_two() || value > limits::ALIGNMENT {
        return Err(Cause::Alignment { value, max: limits::ALIGNMENT });
    }
    Ok(value)
}

/// A tensor's line as the file has it: where its bytes start is known only after the last line.
struct Planned {
    name: String,
    format: &'static Format,
    shape: Vec<u64>,
    offset: u64,
}

fn plan(at: &mut Cursor, count: u64) -> Result<Vec<Planned>, Cause> {
    // A name's length, a number of axes, a type and an offset.
    at.holds(count, 24, format_args!("the list of tensors"))?;
    let mut planned = Vec::with_capacity(count as usize);
    for i in 0..count {
        let name = at.string(format_args!("the name of tensor {i}"))?.to_owned();
        let axes = at.u32(format_args!("the number of dimensions of '{name}'"))?;
        if axes > limits::DIMENSIONS {
            let max = limits::DIMENSIONS;
            return Err(Cause::Dimensions { tensor: name, count: axes, max });
        }
        let mut shape = (0..axes)
            .map(|_| at.u64(format_args!("the shape of '{name}'")))
            .collect::<Result<Vec<u64>, _>>()?;
        shape.reverse();
        let id = at.u32(format_args!("the type of '{name}'"))?;
        let offset = at.u64(format_args!("the offset of '{name}'"))?;
        let Some(format) = Format::of_ggml(id) else {
            return Err(Cause::UnknownType { tensor: name, id, name: quant::retired(id) });
        };
        planned.push(Planned { name, format, shape, offset });
    }
    Ok(planned)
}

impl Planned {
    /// Checks its shape and extent in a file of `size` bytes whose data starts at `data`.
    fn place(self, data: u64, alignment: u64, size: usize, extent: Extent) -> Result<Entry, Cause> {
        let Planned { name, format, shape, offset } = self;
        if shape.contains(&0) {
            return Err(Cause::ZeroDimension { tensor: name, shape });
        }
        // No axes: one element, as in ggml.
        let width = shape.last().copied().unwrap_or(1);
        if !width.is_multiple_of(format.elems as u64) {
            let (dtype, block) = (format.name, format.elems);
            return Err(Cause::BlockWidth { tensor: name, width, dtype, block });
        }
        if !offset.is_multiple_of(alignment) {
            return Err(Cause::Misaligned { tensor: name, offset, alignment });
        }
        let bounds = || {
            let elems = shape.iter().try_fold(1u64, |n, axis| n.checked_mul(*axis))?;
            let length = (elems / format.elems as u64).checked_mul(format.bytes as u64)?;
            let start = data.checked_add(offset)?;
            Some((start, start.checked_add(length)?))
        };
        let Some((start, end)) = bounds() else {
            return Err(Cause::Overflow { tensor: name, shape });
        };
        let (start, end) = match extent {
            Extent::Begun if end > size as u64 => (0, 0),
            _ => (start, end),
        };
        if end > size as u64 {
            let what = format!("the tensor '{name}' of shape {shape:?}");
            return Err(Cause::Truncated { what, end, size: size as u64 });
        }
        // All fit in usize: the shape's product is at most the file's length times a block's elements.
        let shape = shape.into_iter().map(|axis| axis as usize).collect();
        Ok(Entry { name, file: 0, dtype: format.dtype, shape, range: start as usize..end as usize })
    }
}
