//! What is told of a fetch while it goes on.

/// Someone who watches.
pub trait Watch: Sync {
    /// Something that the user may not expect.
    fn note(&self, text: &str);
    /// What is done.
    fn tell(&self, text: &str);
    /// So many files are to be fetched, of so many bytes in all, some of which may be there already.
    fn needs(&self, files: usize, bytes: u64) {
        let _ = (files, bytes);
    }
    /// A fetch begins: of what, its bytes, and how many of them are there already.
    fn begins(&self, name: &str, total: u64, done: u64);
    /// Bytes came.
    fn came(&self, bytes: u64);
    /// The fetch ended, well or not.
    fn ends(&self);
    /// Whether what is fetched is still wanted; if not, fetching ends with [`super::Error::Cancelled`], and what came is
    /// kept.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// Nobody watches.
pub struct Silent;

impl Watch for Silent {
    fn note(&self, _: &str) {}
    fn tell(&self, _: &str) {}
    fn begins(&self, _: &str, _: u64, _: u64) {}
    fn came(&self, _: u64) {}
    fn ends(&self) {}
}
