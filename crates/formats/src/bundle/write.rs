//! Writing a bundle: sections as they come, then the header, and the first bytes last, so that what
//! is not finished is no bundle.
use super::STEP;
use super::header::{File, Header, Prologue, Section, Stored};
use crate::tensor::DType;
use serde_json::Value;
use std::io::{Result, Seek, SeekFrom, Write};

/// A bundle that is being written.
pub struct Writer<W> {
    out: W,
    /// Where its first byte is in `out`.
    base: u64,
    /// Bytes so far.
    at: u64,
    files: Vec<File>,
    tensors: Vec<Stored>,
}

/// A section that is being written.
struct Open {
    offset: u64,
    crc32: crc32fast::Hasher,
}

impl<W: Write + Seek> Writer<W> {
    /// From byte `base` of `out` on, which is a multiple of 64.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn new(mut out: W, base: u64) -> Result<Writer<W>> {
        out.seek(SeekFrom::Start(base))?;
        out.write_all(&[0; STEP as usize])?;
        Ok(Writer { out, base, at: STEP, files: Vec::new(), tensors: Vec::new() })
    }
    /// A file that the model brings along.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut open = self.open()?;
        self.put(&mut open, bytes)?;
        let section = self.close(open);
        self.files.push(File { name: name.to_owned(), section });
        Ok(())
    }
    /// A tensor that was of type `source`: packed in a layout, or plain f32. `fill` puts its bytes,
    /// in as many pieces as it likes.
    ///
    /// # Errors
    /// As `fill`'s, which has `out`'s.
    pub fn tensor<E: From<std::io::Error>>(
        &mut self,
        (name, source): (&str, DType),
        layout: Option<String>,
        shape: &[usize],
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut open = self.open()?;
        fill(&mut |bytes| self.put(&mut open, bytes))?;
        let section = self.close(open);
        let (name, source) = (name.to_owned(), source.name().to_owned());
        self.tensors.push(Stored { name, layout, shape: shape.to_vec(), source, section });
        Ok(())
    }
    /// Writes the header and then the first bytes; the bundle's length.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn finish(mut self, model: Value) -> Result<u64> {
        self.open()?;
        let header = Header { model, files: self.files, tensors: self.tensors };
        let json = serde_json::to_vec(&header)?;
        self.out.write_all(&json)?;
        let length = self.at + json.len() as u64;
        let (header, header_length) = (self.at, json.len() as u64);
        let prologue = Prologue { length, header, header_length, crc32: crc32fast::hash(&json) };
        self.out.seek(SeekFrom::Start(self.base))?;
        self.out.write_all(&prologue.write())?;
        self.out.seek(SeekFrom::Start(self.base + length))?;
        self.out.flush()?;
        Ok(length)
    }
    /// At the next multiple of 64.
    fn open(&mut self) -> Result<Open> {
        let offset = self.at.next_multiple_of(STEP);
        self.out.write_all(&[0; STEP as usize][..(offset - self.at) as usize])?;
        self.at = offset;
        Ok(Open { offset, crc32: crc32fast::Hasher::new() })
    }
    fn put(&mut self, open: &mut Open, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes)?;
        open.crc32.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }
    fn close(&mut self, open: Open) -> Section {
        let (offset, length) = (open.offset, self.at - open.offset);
        Section { offset, length, crc32: open.crc32.finalize() }
    }
}
