//! What the hub declares of a file's content: sha256 of large files, git's object id of small ones.
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A declared digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// Of the content.
    Sha256([u8; 32]),
    /// SHA-1 of `blob LENGTH\0` and the content.
    Git([u8; 20]),
}

impl Digest {
    /// Of 64 hexadecimal digits.
    pub fn sha256(text: &str) -> Option<Digest> {
        hex(text).map(Digest::Sha256)
    }
    /// Of 40 hexadecimal digits.
    pub fn git(text: &str) -> Option<Digest> {
        hex(text).map(Digest::Git)
    }
    /// Of either, as ETags have them.
    pub fn of_etag(etag: &str) -> Option<Digest> {
        let text = etag.trim_start_matches("W/").trim_matches('"');
        Digest::sha256(text).or_else(|| Digest::git(text))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let bytes: &[u8] = match self {
            Digest::Sha256(bytes) => bytes,
            Digest::Git(bytes) => bytes,
        };
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| (digit as char).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(bytes)
}

/// Computes one of these, or nothing where none is declared.
#[derive(Clone)]
pub enum Hasher {
    /// Of the content.
    Sha256(Sha256),
    /// Git's.
    Git(Sha1),
    /// Nothing is declared.
    Nothing,
}

impl Hasher {
    /// As `digest` is computed, of content of `size` bytes.
    pub fn like(digest: Option<Digest>, size: u64) -> Hasher {
        match digest {
            Some(Digest::Sha256(_)) => Hasher::Sha256(Sha256::new()),
            Some(Digest::Git(_)) => Hasher::Git(Sha1::new_with_prefix(format!("blob {size}\0"))),
            None => Hasher::Nothing,
        }
    }
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Git(hasher) => hasher.update(bytes),
            Hasher::Nothing => {}
        }
    }
    /// What was taken.
    pub fn finish(self) -> Option<Digest> {
        match self {
            Hasher::Sha256(hasher) => Some(Digest::Sha256(hasher.finalize().into())),
            Hasher::Git(hasher) => Some(Digest::Git(hasher.finalize().into())),
            Hasher::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_known_content() {
        let check = |declared: Option<Digest>, content: &str| {
            let mut hasher = Hasher::like(declared, content.len() as u64);
            content.as_bytes().chunks(2).for_each(|bytes| hasher.update(bytes));
            assert_eq!(hasher.finish(), declared);
        };
        check(
            Digest::sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            "abc",
        );
        // git hash-object
        check(Digest::git("f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"), "abc");
        check(None, "abc");
        let etag = format!("W/\"{}\"", "ab".repeat(20));
        assert_eq!(Digest::of_etag(&etag), Digest::git(&"ab".repeat(20)));
        assert_eq!(Digest::of_etag("\"5-abc\""), None);
        assert_eq!(Digest::sha256(&"é".repeat(32)), None);
    }
}
