//! The bytes of a file, mapped read-only: where the crate's unsafe calls are.
use crate::error::Cause;
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

/// Bytes that a reader keeps: a mapped file or a part of one, or memory.
#[derive(Debug, Clone)]
pub enum Bytes {
    /// Of a file.
    Mapped(Arc<memmap2::Mmap>, Range<usize>),
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
        let all = 0..map.len();
        Ok(Bytes::Mapped(Arc::new(map), all))
    }
}

impl Bytes {
    /// A part, which stays readable when the whole is gone; of memory it is a copy.
    ///
    /// # Panics
    /// Outside the whole.
    pub fn part(&self, part: Range<usize>) -> Bytes {
        match self {
            Bytes::Mapped(map, all) => {
                assert!(part.start <= part.end && part.end <= all.len(), "{part:?} of {all:?}");
                Bytes::Mapped(map.clone(), all.start + part.start..all.start + part.end)
            }
            Bytes::Owned(bytes) => Bytes::Owned(bytes[part].to_vec()),
        }
    }
    /// Says that all of it will be read soon, if it is of a mapped file.
    pub fn ahead(&self) {
        if let Bytes::Mapped(map, part) = self {
            bring(map, part.start, part.len());
        }
    }
    /// Gives the memory of all of it to others: not even a copy of the file is kept, where the system
    /// takes such a wish.
    pub fn leave(&self) {
        if let Bytes::Mapped(map, part) = self {
            discard(map, part.start, part.len());
            forget(map, part.start, part.len());
        }
    }
    /// Gives the memory of `part` back to the system, if it is a part of a mapped file. It is read
    /// anew where it is looked at again.
    pub fn release(&self, part: &[u8]) {
        if let Some((map, from)) = self.place(part) {
            forget(map, from, part.len());
        }
    }
    /// Where `part` lies in the mapping, if it does.
    fn place(&self, part: &[u8]) -> Option<(&memmap2::Mmap, usize)> {
        let Bytes::Mapped(map, _) = self else { return None };
        let from = part.as_ptr().addr().wrapping_sub(map.as_ptr().addr());
        (from < map.len() && part.len() <= map.len() - from).then_some((map, from))
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map, part) => &map[part.clone()],
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

/// A system that does not read ahead reads later.
#[cfg(unix)]
fn bring(map: &memmap2::Mmap, from: usize, len: usize) {
    let _ = map.advise_range(memmap2::Advice::WillNeed, from, len);
}
/// A system that keeps them lets others have them all the same, though later.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the one call that memmap2 has no name for")]
fn discard(map: &memmap2::Mmap, from: usize, len: usize) {
    // The pages that lie within.
    let start = map[from..from + len].as_ptr().addr();
    let (first, end) = (start.next_multiple_of(1 << 12), (start + len) >> 12 << 12);
    if let Some(pages) = end.checked_sub(first) {
        let at = map.as_ptr().wrapping_add(first - map.as_ptr().addr());
        // SAFETY: in bounds of the mapping, which is of a file and never written: the call only
        // changes what is in memory of it. Where pages are larger it is refused.
        unsafe { libc::madvise(at.cast_mut().cast(), pages, libc::MADV_PAGEOUT) };
    }
}
#[cfg(not(target_os = "linux"))]
fn discard(_: &memmap2::Mmap, _: usize, _: usize) {}
#[cfg(not(unix))]
fn bring(_: &memmap2::Mmap, _: usize, _: usize) {}

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
            mapped.part(part.clone()).ahead();
            mapped.part(part.clone()).leave();
            mapped.release(&mapped[part.clone()]);
            assert!(mapped[..] == content, "{part:?}");
        }
        // Not of the file.
        mapped.release(&content);
        let owned = Bytes::Owned(content.clone());
        owned.release(&owned[1..]);
        assert!(owned[..] == content);
        std::fs::remove_file(path).unwrap();
        let part = mapped.part(7..50_000);
        let smaller = part.part(1..3);
        drop((mapped, part));
        assert!(smaller[..] == content[8..10]);
        assert!(owned.part(1..3)[..] == content[1..3]);
    }
}
