//! Byte-pair encoding, by a list of merges or by the scores of the tokens.
//!
//! No table of pairs is built: two neighbours may merge if their text joined is a token, and what
//! is known of that token says whether it is made of these two and how early. So start-up looks
//! nothing up that the text does not need.
use super::merge::{NO_ID, Scratch, Symbol};
use super::vocab::Vocab;

pub(crate) struct Bpe {
    pub ranks: Ranks,
    /// The tokens of the first characters of Unicode, [`NO_ID`] where there is none.
    pub singles: Box<[u32; SINGLES]>,
    /// Unknown characters become byte tokens.
    pub fallback: Option<Box<ByteTokens>>,
    pub unk: Option<u32>,
    /// Neighbouring unknown characters become one token.
    pub fuse_unk: bool,
    /// A word that is a token stays whole whatever the merges.
    pub ignore_merges: bool,
    /// After the last character of a word, in the vocabulary.
    pub suffix: String,
    /// The characters that some token has before a `▁`. Merging looks past a mark only after
    /// these, so a long text is merged word by word. None if the mark is no token.
    pub before_marks: Option<Vec<char>>,
}

/// All characters of the byte alphabet are below.
const SINGLES: usize = 0x144;

/// When two neighbours merge.
pub(crate) enum Ranks {
    /// By a list of merges.
    Merges(Merges),
    /// The likelier the token, the earlier (SentencePiece); by id.
    Scores(Vec<f32>),
}

impl Bpe {
    /// With no more than the ranks.
    pub fn new(ranks: Ranks, vocab: &Vocab) -> Self {
        let single = |c: usize| {
            let mut text = [0; 4];
            let c = char::from_u32(c as u32)?;
            vocab.find_plain(c.encode_utf8(&mut text).as_bytes())
        };
        Self {
            ranks,
            singles: Box::new(std::array::from_fn(|c| single(c).unwrap_or(NO_ID))),
            fallback: None,
            unk: None,
            fuse_unk: false,
            ignore_merges: false,
            suffix: String::new(),
            before_marks: before_marks(vocab),
        }
    }

    pub fn encode(&self, vocab: &Vocab, piece: &str, s: &mut Scratch, out: &mut Vec<u32>) {
        if self.ignore_merges
            && let Some(id) = vocab.find_plain(piece.as_bytes())
        {
            out.push(id);
        } else if let Some(before) = &self.before_marks {
            words(piece, before).for_each(|word| self.encode_word(vocab, word, s, out));
        } else {
            self.encode_word(vocab, piece, s, out);
        }
    }

    fn encode_word(&self, vocab: &Vocab, word: &str, s: &mut Scratch, out: &mut Vec<u32>) {
        self.characters(vocab, word, s);
        let text = std::mem::take(&mut s.text);
        match &self.ranks {
            Ranks::Merges(merges) => s.merge(|l, r| {
                if l.id == NO_ID || r.id == NO_ID {
                    return None;
                }
                let id = joined(vocab, &text, l, r)?;
                Some((merges.rank(id, l.len)?, id))
            }),
            Ranks::Scores(scores) => s.merge(|l, r| {
                let id = joined(vocab, &text, l, r)?;
                Some((descending(scores.get(id as usize).copied().unwrap_or(0.0)), id))
            }),
        }
        self.emit(&text, &s.symbols, out);
        s.text = text;
    }

    /// One symbol a character. What can't be encoded at all is left out of the text.
    fn characters(&self, vocab: &Vocab, piece: &str, s: &mut Scratch) {
        s.symbols.clear();
        s.text.clear();
        let keep_unknown = self.fallback.is_some() || self.unk.is_some();
        for (at, c) in piece.char_indices() {
            let start = s.text.len();
            s.text.push(c);
            let last = at + c.len_utf8() == piece.len();
            let id = if last && !self.suffix.is_empty() {
                s.text.push_str(&self.suffix);
                vocab.find_plain(&s.text.as_bytes()[start..]).unwrap_or(NO_ID)
            } else {
                match self.singles.get(c as usize) {
                    Some(&id) => id,
                    None => vocab.find_plain(&s.text.as_bytes()[start..]).unwrap_or(NO_ID),
                }
            };
            if id == NO_ID && !keep_unknown {
                s.text.truncate(start);
                continue;
            }
            s.push(id, start, s.text.len() - start);
        }
    }

    fn emit(&self, text: &str, symbols: &[Symbol], out: &mut Vec<u32>) {
        let mut after_unk = false;
        for s in symbols {
            let fuse = std::mem::take(&mut after_unk) && self.fuse_unk;
            if s.id != NO_ID {
                out.push(s.id);
                continue;
            }
            let raw = &text.as_bytes()[s.start..s.start + s.len];
            match self.fallback.as_ref().and_then(|f| f.of(raw)) {
                Some(ids) => out.extend(ids),
                None => {
                    if !fuse {
                        out.extend(self.unk);
                    }
                    after_unk = true;
                }
            }
        }
    }
}

const MARK: &str = "▁";

fn before_marks(vocab: &Vocab) -> Option<Vec<char>> {
    vocab.find_plain(MARK.as_bytes())?;
    let mut before = vec![];
    for text in (0..vocab.len() as u32).map(|id| vocab.text(id)) {
        let inside = text.windows(MARK.len()).skip(1).any(|w| w == MARK.as_bytes());
        // A token that is not text is not made of whole characters, so it is never merged.
        if let Some(text) = Some(text).filter(|_| inside).and_then(|t| str::from_utf8(t).ok()) {
            before.extend(cuts(text).filter_map(|at| text[..at].chars().next_back()));
        }
    }
    before.sort_unstable();
    before.dedup();
    Some(before)
}

/// Where a mark follows another character.
fn cuts(text: &str) -> impl Iterator<Item = usize> {
    let marks = text.match_indices(MARK).map(|(at, _)| at);
    marks.filter(|&at| at > 0 && !text[..at].ends_with(MARK))
}

/// The parts of `piece` that merging can't join.
fn words<'a>(piece: &'a str, before: &[char]) -> impl Iterator<Item = &'a str> {
    let mut start = 0;
    let ends = cuts(piece).filter(move |&at| !piece[..at].ends_with(before));
    ends.chain([piece.len()]).map(move |end| &piece[std::mem::replace(&mut start, end)..end])
}

/// The token that two neighbours make.
fn joined(vocab: &Vocab, text: &str, left: &Symbol, right: &Symbol) -> Option<u32> {
    let joined = &text.as_bytes()[left.start..right.start + right.len];
    if joined.len() > vocab.longest() { None } else { vocab.find_plain(joined) }
}

/// A rank that falls as the score rises.
fn descending(score: f32) -> u32 {
    // -0.0 and 0.0 are one score.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

/// Where each token may be cut in two that merge to it, and when they do.
pub(crate) struct Merges {
    /// By id the first cut of each token, then all others.
    cuts: Vec<Cut>,
    /// The token that the last merge made: the next often makes it too, or the one after.
    last: u32,
}

#[derive(Clone, Copy)]
struct Cut {
    /// Bytes of the left part; 0 for no cut.
    left: u32,
    rank: u32,
    /// The place of the token's next cut; 0 for none.
    next: u32,
}

impl Merges {
    pub fn new(vocab: &Vocab) -> Self {
        Self { cuts: vec![Cut { left: 0, rank: 0, next: 0 }; vocab.len()], last: 0 }
    }

    /// Adds a merge; false if what it makes is not in the vocabulary. A pair given twice keeps
    /// its last rank. A part that is no token makes a merge that never happens.
    pub fn insert(&mut self, vocab: &Vocab, rank: u32, left: &[u8], right: &[u8]) -> bool {
        let made = |id: &u32| vocab.text(*id).strip_prefix(left) == Some(right);
        let near = [self.last.saturating_add(1), self.last].into_iter().find(made);
        let Some(id) = near.or_else(|| vocab.find(&[left, right].concat())) else { return false };
        self.last = id;
        // Token texts are shorter than 4 GiB.
        let left = left.len() as u32;
        let mut at = id as usize;
        while self.cuts[at].left != left && self.cuts[at].next != 0 {
            at = self.cuts[at].next as usize;
        }
        let end = self.cuts.len() as u32;
        let cut = &mut self.cuts[at];
        if cut.left == 0 || cut.left == left {
            *cut = Cut { left, rank, next: cut.next };
        } else {
            cut.next = end;
            self.cuts.push(Cut { left, rank, next: 0 });
        }
        true
    }

    /// The rank of the merge that makes `id` from a left part of `left` bytes.
    fn rank(&self, id: u32, left: usize) -> Option<u32> {
        let mut cut = self.cuts.get(id as usize)?;
        while cut.left as usize != left {
            cut = self.cuts.get(cut.next as usize).filter(|_| cut.next != 0)?;
        }
        Some(cut.rank)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::vocab::Kind;

    #[test]
    fn ranks_fall_as_scores_rise() {
        let scores = [f32::NEG_INFINITY, -3.0, -1e-3, -0.0, 0.0, 1e-3, 2.0, f32::INFINITY];
        for w in scores.windows(2) {
            assert!(descending(w[0]) >= descending(w[1]), "{w:?}");
            assert_eq!(descending(w[0]) == descending(w[1]), w[0] == w[1], "{w:?}");
        }
    }

    #[test]
    fn words_begin_with_marks() {
        let all = |s, before: &[char]| words(s, before).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(all("a▁▁b▁", &[]), ["a", "▁▁b", "▁"]);
        assert_eq!(all("a▁▁b▁", &['b']), ["a", "▁▁b▁"]);
        assert_eq!(all("▁a", &[]), ["▁a"]);
        let before = |texts: &[&str]| {
            let mut v = Vocab::with_capacity(0, 0);
            for (i, t) in texts.iter().enumerate() {
                v.insert(i as u32, t.as_bytes(), Kind::Normal).unwrap();
            }
            before_marks(&v)
        };
        assert_eq!(before(&["▁", "▁a", "▁▁", "b"]), Some(vec![]));
        assert_eq!(before(&["▁", "a▁b", ">▁<▁", "a▁"]), Some(vec!['<', '>', 'a']));
        assert_eq!(before(&["▁a", "b"]), None);
    }

    #[test]
    fn merges_are_found_by_their_cut() {
        let mut v = Vocab::with_capacity(0, 0);
        for (i, t) in ["a", "b", "c", "ab", "bc", "abc"].iter().enumerate() {
            v.insert(i as u32, t.as_bytes(), Kind::Normal).unwrap();
        }
        let mut m = Merges::new(&v);
        let list: [(&[u8], &[u8]); 5] =
            [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc"), (b"a", b"b")];
        for (rank, (l, r)) in list.iter().enumerate() {
            assert!(m.insert(&v, rank as u32, l, r));
        }
        assert!(!m.insert(&v, 9, b"c", b"a"));
        assert_eq!((m.rank(3, 1), m.rank(4, 1)), (Some(4), Some(1)));
        assert_eq!((m.rank(5, 1), m.rank(5, 2), m.rank(0, 1)), (Some(3), Some(2), None));
    }
}
