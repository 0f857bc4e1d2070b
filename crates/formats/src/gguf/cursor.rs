//! Reads little-endian numbers and strings, never beyond the end.
use crate::error::Cause;
use std::fmt::Arguments;

/// A position in a file's bytes. `what` names the thing being read, for the error.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }
    pub fn position(&self) -> u64 {
        self.at as u64
    }
    pub fn take(&mut self, count: u64, what: Arguments) -> Result<&'a [u8], Cause> {
        let left = self.bytes.len() - self.at;
        if count > left as u64 {
            return Err(Cause::Truncated {
                what: what.to_string(),
                end: self.position().saturating_add(count),
                size: self.bytes.len() as u64,
            });
        }
        let taken = &self.bytes[self.at..][..count as usize];
        self.at += count as usize;
        Ok(taken)
    }
    /// Checks that `count` elements of at least `least` bytes each can follow.
    pub fn holds(&self, count: u64, least: u64, what: Arguments) -> Result<(), Cause> {
        let left = (self.bytes.len() - self.at) as u64;
        if count > left / least {
            return Err(Cause::Count { what: what.to_string(), count, least, left });
        }
        Ok(())
    }
    pub fn u32(&mut self, what: Arguments) -> Result<u32, Cause> {
        let mut number = [0; 4];
        number.copy_from_slice(self.take(4, what)?);
        Ok(u32::from_le_bytes(number))
    }
    pub fn u64(&mut self, what: Arguments) -> Result<u64, Cause> {
        let mut number = [0; 8];
        number.copy_from_slice(self.take(8, what)?);
        Ok(u64::from_le_bytes(number))
    }
    /// A length and that many bytes.
    pub fn counted(&mut self, what: Arguments) -> Result<&'a [u8], Cause> {
        let count = self.u64(what)?;
        self.take(count, what)
    }
    /// A length and that many bytes of UTF-8.
    pub fn string(&mut self, what: Arguments) -> Result<&'a str, Cause> {
        let bytes = self.counted(what)?;
        std::str::from_utf8(bytes).map_err(|_| Cause::Utf8 { what: what.to_string() })
    }
}
