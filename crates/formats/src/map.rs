//! The bytes of a file, mapped read-only: where the crate's unsafe calls are.
use crate::error::Cause;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// Bytes that a reader keeps: a mapped file, or memory.
#[derive(Debug)]
pub enum Bytes {
    /// A file.
    Mapped(memmap2::Mmap),
    /// Memory.
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps the file at `path`. An empty file, which can't be mapped, is empty memory.
    ///
    /// A file that another process shortens while it is mapped ends this process at the next
    /// access beyond its end, as with every mapping.
    ///
    /// # Errors
    /// [`Cause::Io`], [`Cause::NotAFile`] for folders, pipes and devices.
    pub fn map(path: &Path) -> Result<Bytes, Cause> {
        // A pipe would block in `open`, so look before.
        if !std::fs::metadata(path)?.is_file() {
            return Err(Cause::NotAFile);
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(Bytes::Owned(Vec::new()));
        }
        let map = map(&file)?;
        if map.len() as u64 != length {
            return Err(Cause::Io(std::io::Error::other(format!(
                "its length changed from {length} to {} bytes while it was opened",
                map.len()
            ))));
        }
        Ok(Bytes::Mapped(map))
    }
}

impl Bytes {
    /// Gives the memory of `part` back to the system, if it is a part of a mapped file. It is read
    /// anew where it is looked at again.
    pub fn release(&self, part: &[u8]) {
        let Bytes::Mapped(map) = self else { return };
        let from = part.as_ptr().addr().wrapping_sub(map.as_ptr().addr());
        if from < map.len() && part.len() <= map.len() - from {
            forget(map, from, part.len());
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

#[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
fn map(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: the map is private and read-only, so we never write through it, and `u8` has no
    // invalid values. That others may change the file is the caveat documented at `Bytes::map`:
    // parsers validate extents, not contents, and take each length once.
    unsafe { memmap2::Mmap::map(file) }
}

/// A system that keeps the pages has lost nothing.
#[cfg(unix)]
#[expect(unsafe_code, reason = "forgetting pages is unsafe where they may have been written")]
fn forget(map: &memmap2::Mmap, from: usize, len: usize) {
    // SAFETY: in bounds, as the caller has checked; the map is shared and never written, so what
    // is forgotten is read from the file again.
    let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, from, len) };
}
#[cfg(not(unix))]
fn forget(_: &memmap2::Mmap, _: usize, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_read_again() {
        let path = std::env::temp_dir().join(format!("rinfer-map-{}", std::process::id()));
        let content: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let mapped = Bytes::map(&path).unwrap();
        for part in [0..0, 0..1, 5_000..9_000, 99_999..100_000, 0..100_000] {
            mapped.release(&mapped[part.clone()]);
            assert!(mapped[..] == content, "{part:?}");
        }
        // Not of the file.
        mapped.release(&content);
        let owned = Bytes::Owned(content.clone());
        owned.release(&owned[1..]);
        assert!(owned[..] == content);
        std::fs::remove_file(path).unwrap();
    }
}
