//! What a file has: bytes, or a block over and over for files larger than memory.
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::sync::{Arc, OnceLock};

/// A file's content.
#[derive(Clone, Debug)]
pub struct Content {
    block: Arc<Vec<u8>>,
    size: u64,
    /// Whether it is large enough to lie outside of git.
    pub large: bool,
    digest: Arc<OnceLock<String>>,
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        let size = bytes.len() as u64;
        Content { size, block: Arc::new(bytes), large: true, digest: Arc::default() }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content { large: false, ..Content::from(text.as_bytes().to_vec()) }
    }
}

impl Content {
    /// Numbers that do not repeat within a block, from a seed.
    pub fn noise(size: u64, seed: u64) -> Content {
        const BLOCK: u64 = 1 << 20;
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let block = (0..size.min(BLOCK)).map(|_| next()).collect();
        Content { block: Arc::new(block), size, large: true, digest: Arc::default() }
    }
    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
    /// A run of bytes from `at` on, at most as far as `to`.
    pub fn slice(&self, at: u64, to: u64) -> &[u8] {
        let start = at % self.block.len() as u64;
        let length = (self.block.len() as u64 - start).min(to - at);
        &self.block[start as usize..(start + length) as usize]
    }
    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.each(|slice| bytes.extend_from_slice(slice));
        bytes
    }
    /// What the hub declares of it, in hexadecimal digits.
    pub fn digest(&self) -> String {
        let compute = || if self.large { self.sha256() } else { self.git() };
        self.digest.get_or_init(compute).clone()
    }
    /// In hexadecimal digits.
    pub fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        self.each(|slice| hasher.update(slice));
        hex(&hasher.finalize())
    }
    /// Git's name of it, in hexadecimal digits.
    pub fn git(&self) -> String {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {}\0", self.size));
        self.each(|slice| hasher.update(slice));
        hex(&hasher.finalize())
    }
    fn each(&self, mut take: impl FnMut(&[u8])) {
        let mut at = 0;
        while at < self.size {
            let slice = self.slice(at, self.size);
            take(slice);
            at += slice.len() as u64;
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
