//! Byte-pair encoding by a list of merges, over characters or over bytes.
use super::bytes;
use super::hash::hash_pair;
use super::merge::{NO_ID, Scratch};
use super::vocab::Vocab;

/// What `(left, right)` merge to.
#[derive(Clone, Copy)]
struct Merge {
    pair: u64,
    rank: u32,
    id: u32,
}
const EMPTY: Merge = Merge { pair: u64::MAX, rank: 0, id: 0 };

/// The merges, by open addressing.
pub(crate) struct Merges {
    cells: Vec<Merge>,
}

impl Merges {
    /// Room for `count` merges.
    pub fn with_capacity(count: usize) -> Self {
        Self { cells: vec![EMPTY; (count * 4 / 3 + 1).next_power_of_two()] }
    }

    /// Adds a merge; at most as many as the capacity. A pair given twice keeps its last rank.
    pub fn insert(&mut self, left: u32, right: u32, rank: u32, id: u32) {
        let at = self.locate(left, right);
        self.cells[at] = Merge { pair: key(left, right), rank, id };
    }

    /// The rank and the result of a merge.
    pub fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let cell = self.cells[self.locate(left, right)];
        (cell.pair != u64::MAX).then_some((cell.rank, cell.id))
    }

    fn locate(&self, left: u32, right: u32) -> usize {
        let pair = key(left, right);
        let mask = self.cells.len() - 1;
        let mut at = hash_pair(pair) as usize & mask;
        while self.cells[at].pair != pair && self.cells[at].pair != u64::MAX {
            at = (at + 1) & mask;
        }
        at
    }
}

fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// A piece of text for the model.
#[derive(Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// As the vocabulary spells it.
    Text(&'a str),
    /// Raw text for a byte-level vocabulary: each byte is one character of the alphabet.
    Bytes(&'a str),
}

/// Ids of the 256 byte tokens (`<0x0A>`), where a vocabulary has them.
pub(crate) struct ByteTokens([Option<u32>; 256]);

impl ByteTokens {
    pub fn find(vocab: &Vocab) -> Self {
        Self(std::array::from_fn(|b| vocab.find_plain(format!("<0x{b:02X}>").as_bytes())))
    }
    /// The tokens of all bytes of `text`, or none if one is missing.
    pub fn of(&self, text: &[u8]) -> Option<impl Iterator<Item = u32>> {
        text.iter()
            .all(|&b| self.0[usize::from(b)].is_some())
            .then(|| text.iter().filter_map(|&b| self.0[usize::from(b)]))
    }
}

pub(crate) struct Bpe {
    pub merges: Merges,
    /// The token of each byte's character, [`NO_ID`] where there is none.
    pub alphabet: Box<[u32; 256]>,
    /// Unknown characters become byte tokens.
    pub fallback: Option<Box<ByteTokens>>,
    pub unk: Option<u32>,
    /// Neighbouring unknown characters become one token.
    pub fuse_unk: bool,
    /// A word that is a token stays whole whatever the merges.
    pub ignore_merges: bool,
    /// Before every character of a word but the first, in the vocabulary.
    pub prefix: String,
    /// After the last character of a word, in the vocabulary.
    pub suffix: String,
}

impl Bpe {
    /// The tokens of the 256 characters of the byte alphabet.
    pub fn alphabet(vocab: &Vocab) -> Box<[u32; 256]> {
        let mut text = [0; 4];
        Box::new(
            bytes::CHARS
                .map(|c| vocab.find_plain(c.encode_utf8(&mut text).as_bytes()).unwrap_or(NO_ID)),
        )
    }

    pub fn encode(&self, vocab: &Vocab, piece: Piece<'_>, s: &mut Scratch, out: &mut Vec<u32>) {
        if self.ignore_merges
            && let Some(id) = whole(vocab, piece, &mut s.text)
        {
            out.push(id);
            return;
        }
        s.symbols.clear();
        match piece {
            Piece::Bytes(text) if self.unk.is_none() => {
                for (at, b) in text.bytes().enumerate() {
                    let id = self.alphabet[usize::from(b)];
                    if id != NO_ID {
                        s.push(id, at, 1);
                    }
                }
            }
            Piece::Bytes(text) => {
                let mut mapped = std::mem::take(&mut s.text);
                mapped.clear();
                bytes::encode_into(text, &mut mapped);
                self.characters(vocab, &mapped, s);
                s.text = mapped;
            }
            Piece::Text(text) => self.characters(vocab, text, s),
        }
        s.merge(|l, r| self.merges.get(l.id, r.id));
        out.extend(s.symbols.iter().map(|s| s.id));
    }

    /// One symbol a character. A character that is no token becomes byte tokens, or the unknown
    /// token, or nothing.
    fn characters(&self, vocab: &Vocab, text: &str, s: &mut Scratch) {
        let mut unknown: Option<(usize, usize)> = None;
        let mut affixed = String::new();
        for (start, c) in text.char_indices() {
            let end = start + c.len_utf8();
            let mut spelled = &text[start..end];
            let prefix = if start > 0 { self.prefix.as_str() } else { "" };
            let suffix = if end == text.len() { self.suffix.as_str() } else { "" };
            if !prefix.is_empty() || !suffix.is_empty() {
                affixed = format!("{prefix}{spelled}{suffix}");
                spelled = &affixed;
            }
            if let Some(id) = vocab.find_plain(spelled.as_bytes()) {
                self.flush(&mut unknown, s);
                s.push(id, start, end - start);
                continue;
            }
            let fallback = self.fallback.as_ref();
            if let Some(ids) = fallback.and_then(|f| f.of(spelled.as_bytes())) {
                for (i, id) in ids.enumerate() {
                    s.push(id, start + i, 1);
                }
                continue;
            }
            match &mut unknown {
                Some((_, len)) if self.fuse_unk => *len += end - start,
                _ => {
                    self.flush(&mut unknown, s);
                    unknown = Some((start, end - start));
                }
            }
        }
        self.flush(&mut unknown, s);
        drop(affixed);
    }

    fn flush(&self, unknown: &mut Option<(usize, usize)>, s: &mut Scratch) {
        if let (Some((start, len)), Some(unk)) = (unknown.take(), self.unk) {
            s.push(unk, start, len);
        }
    }
}

fn whole(vocab: &Vocab, piece: Piece<'_>, mapped: &mut String) -> Option<u32> {
    match piece {
        Piece::Text(text) => vocab.find_plain(text.as_bytes()),
        Piece::Bytes(text) => {
            // No token is longer than the longest, and a byte has at least one byte in the alphabet.
            if text.len() > vocab.longest() {
                return None;
            }
            mapped.clear();
            bytes::encode_into(text, mapped);
            vocab.find_plain(mapped.as_bytes())
        }
    }
}

/// SentencePiece's BPE as GGUF files carry it: no merge list; two neighbours join if their text is
/// a token, the highest score first.
pub(crate) struct ScoredBpe {
    /// By id.
    pub scores: Vec<f32>,
    pub bytes: Box<ByteTokens>,
    pub unk: Option<u32>,
}

impl ScoredBpe {
    pub fn encode(&self, vocab: &Vocab, text: &str, s: &mut Scratch, out: &mut Vec<u32>) {
        s.symbols.clear();
        for (start, c) in text.char_indices() {
            let len = c.len_utf8();
            let id = vocab.find_plain(&text.as_bytes()[start..start + len]).unwrap_or(NO_ID);
            s.push(id, start, len);
        }
        s.merge(|l, r| {
            let joined = &text.as_bytes()[l.start..r.start + r.len];
            if joined.len() > vocab.longest() {
                return None;
            }
            let id = vocab.find_plain(joined)?;
            Some((descending(self.scores.get(id as usize).copied().unwrap_or(0.0)), id))
        });
        for symbol in &s.symbols {
            if symbol.id != NO_ID {
                out.push(symbol.id);
                continue;
            }
            let raw = &text.as_bytes()[symbol.start..symbol.start + symbol.len];
            match self.bytes.of(raw) {
                Some(ids) => out.extend(ids),
                None => out.extend(self.unk),
            }
        }
    }
}

/// A rank that falls as the score rises.
fn descending(score: f32) -> u32 {
    // -0.0 and 0.0 are one score.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fall_as_scores_rise() {
        let scores = [f32::NEG_INFINITY, -3.0, -1e-3, -0.0, 0.0, 1e-3, 2.0, f32::INFINITY];
        for w in scores.windows(2) {
            assert!(descending(w[0]) >= descending(w[1]), "{w:?}");
            assert_eq!(descending(w[0]) == descending(w[1]), w[0] == w[1], "{w:?}");
        }
    }

    #[test]
    fn merges_are_found() {
        let mut m = Merges::with_capacity(1000);
        for i in 0..1000 {
            m.insert(i, i * 3, i, i + 7);
        }
        for i in 0..1000 {
            assert_eq!(m.get(i, i * 3), Some((i, i + 7)));
            assert_eq!(m.get(i, i * 3 + 1), None);
        }
    }
}
