//! Whether the disk has room, before it is found to be full.
use super::Error;
use super::error::bytes;
use std::path::Path;

/// # Errors
/// [`Error::Space`] if fewer than `needed` bytes are free.
pub fn check(folder: &Path, needed: u64) -> Result<(), Error> {
    // The notes of what was fetched, and the folders.
    const MORE: u64 = 64 << 10;
    match fs4::available_space(folder) {
        Ok(free) if free < needed.saturating_add(MORE) && needed > 0 => Err(full(folder, needed)),
        // A file system that does not say is found out by writing.
        _ => Ok(()),
    }
}

/// What is said of a disk without room for so many bytes more.
pub fn full(folder: &Path, needed: u64) -> Error {
    let free = fs4::available_space(folder).map_or_else(|_| "no more".to_owned(), bytes);
    Error::Space { folder: folder.to_owned(), free, needed: bytes(needed) }
}
