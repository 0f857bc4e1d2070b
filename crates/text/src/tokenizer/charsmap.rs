//! SentencePiece's compiled normalization rules: a double-array trie over UTF-8 (Darts, with
//! XOR-compressed offsets) whose values point into a block of NUL-ended replacements.
use super::TokenizerError;
use unicode_segmentation::UnicodeSegmentation;

pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: String,
}

/// Far above any rule of Unicode's, so that no short text becomes a huge one.
const LONGEST: usize = 256;

impl Charsmap {
    /// Reads `u32` size of the trie, the trie, the replacements; all little endian.
    pub fn new(blob: &[u8], path: &str) -> Result<Self, TokenizerError> {
        let bad = |problem: &str| TokenizerError::invalid(path, problem);
        let (size, rest) = blob
            .split_first_chunk()
            .ok_or_else(|| bad("the charsmap is shorter than its header"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if !size.is_multiple_of(4) || size > rest.len() {
            return Err(bad("the charsmap's trie is longer than the charsmap"));
        }
        let (trie, replacements) = rest.split_at(size);
        let units = trie.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let replacements = String::from_utf8(replacements.to_vec())
            .map_err(|_| bad("the charsmap's replacements are not UTF-8"))?;
        if replacements.split('\0').any(|r| r.len() > LONGEST) {
            return Err(bad("the charsmap has a replacement of more than 256 bytes"));
        }
        Ok(Self { units, replacements })
    }

    /// Replaces the longest known prefix at each place, as SentencePiece does.
    pub fn by_longest_prefix(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let mut longest = None;
            self.prefixes(&text.as_bytes()[at..], |len, value| longest = Some((len, value)));
            let found = longest.filter(|(len, _)| text.is_char_boundary(at + len));
            match found.and_then(|(len, value)| Some((len, self.replacement(value)?))) {
                Some((len, with)) => {
                    out.push_str(with);
                    at += len;
                }
                None => {
                    out.push(c);
                    at += c.len_utf8();
                }
            }
        }
        out
    }

    /// Replaces whole grapheme clusters of up to five bytes, else single characters, by the
    /// shortest known prefix, as Hugging Face does.
    pub fn by_grapheme(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for grapheme in text.graphemes(true) {
            if grapheme.len() < 6
                && let Some(with) = self.shortest(grapheme)
            {
                out.push_str(with);
                continue;
            }
            for (at, c) in grapheme.char_indices() {
                match self.shortest(&grapheme[at..at + c.len_utf8()]) {
                    Some(with) => out.push_str(with),
                    None => out.push(c),
                }
            }
        }
        out
    }

    fn shortest(&self, text: &str) -> Option<&str> {
        let mut first = None;
        self.prefixes(text.as_bytes(), |_, value| first = first.or(Some(value)));
        self.replacement(first?)
    }

    fn replacement(&self, value: usize) -> Option<&str> {
        self.replacements.get(value..)?.split('\0').next()
    }

    /// Calls `found(length, value)` for the keys that `text` starts with, shortest first.
    fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        let unit = |at: u32| self.units.get(at as usize).copied();
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let Some(root) = unit(0) else { return };
        let mut node = offset(root);
        for (i, &b) in text.iter().enumerate().take_while(|(_, b)| **b != 0) {
            node ^= u32::from(b);
            let Some(u) = unit(node) else { return };
            if u & (1 << 31 | 0xFF) != u32::from(b) {
                return;
            }
            node ^= offset(u);
            if u >> 8 & 1 == 1 {
                let Some(leaf) = unit(node) else { return };
                found(i + 1, (leaf & (u32::MAX >> 1)) as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trie that maps "a" to "xy" and "ab" to nothing.
    fn small() -> Vec<u8> {
        let (a, b) = (u32::from(b'a'), u32::from(b'b'));
        let mut units = vec![0u32; 1024];
        // The root's children are at 256 ^ byte, a's leaf and children at 512 ^ byte.
        units[0] = 256 << 10;
        units[256 ^ a as usize] = (256 ^ a ^ 512) << 10 | 1 << 8 | a;
        units[512] = 1 << 31;
        units[512 ^ b as usize] = (512 ^ b ^ 768) << 10 | 1 << 8 | b;
        units[768] = 1 << 31 | 2;
        let mut blob = 4096u32.to_le_bytes().to_vec();
        blob.extend(units.iter().flat_map(|u| u.to_le_bytes()));
        blob.extend(b"xy\0");
        blob
    }

    #[test]
    fn replaces() {
        let map = Charsmap::new(&small(), "here").unwrap();
        assert_eq!(map.by_longest_prefix("caab\0a"), "cxy\0xy");
        assert_eq!(map.by_grapheme("caab"), "cxyxyb");
    }

    #[test]
    fn broken_blobs_are_refused_or_harmless() {
        assert!(Charsmap::new(&[1, 2, 3], "here").is_err());
        assert!(Charsmap::new(&[8, 0, 0, 0, 1, 2, 3, 4], "here").is_err());
        let mut blob = small();
        for i in 0..blob.len() {
            blob[i] ^= 0xFF;
            if let Ok(map) = Charsmap::new(&blob, "here") {
                map.by_longest_prefix("abc");
                map.by_grapheme("abc");
            }
            blob[i] ^= 0xFF;
        }
    }
}
