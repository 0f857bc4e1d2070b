//! The unigram language model (Kudo, arXiv:1804.10959): the likeliest segmentation, by Viterbi.
use super::bpe::ByteTokens;
use super::prefix::PrefixIndex;
use super::vocab::Vocab;

/// How much less likely an unknown character is than the least likely token.
const UNKNOWN_PENALTY: f64 = 10.0;

pub(crate) struct Unigram {
    /// Log-probabilities by id.
    pub scores: Vec<f64>,
    pub least: f64,
    pub unk: Option<u32>,
    pub fallback: Option<Box<ByteTokens>>,
    pub index: PrefixIndex,
}

/// The best way to reach a position.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Where its last token starts; `usize::MAX` if the position was not reached.
    start: usize,
    /// That token; none for the unknown.
    id: Option<u32>,
}
const UNREACHED: Best = Best { score: 0.0, start: usize::MAX, id: None };

impl Unigram {
    pub fn encode(&self, vocab: &Vocab, text: &str, out: &mut Vec<u32>) {
        let best = self.forward(vocab, text);
        let mut pieces = vec![];
        let mut end = text.len();
        while end > 0 {
            let Best { start, id, .. } = best[end];
            match pieces.last_mut() {
                // Neighbouring unknown characters are one piece.
                Some((None, from, _)) if id.is_none() => *from = start,
                _ => pieces.push((id, start, end)),
            }
            end = start;
        }
        for (id, start, end) in pieces.into_iter().rev() {
            match id {
                Some(id) => out.push(id),
                None => self.unknown(vocab, &text.as_bytes()[start..end], out),
            }
        }
    }

    fn forward(&self, vocab: &Vocab, text: &str) -> Vec<Best> {
        let mut best = vec![UNREACHED; text.len() + 1];
        for (start, c) in text.char_indices() {
            let so_far = best[start].score;
            let mut single = false;
            let mut offer = |end: usize, score: f64, id: Option<u32>| {
                let now = &mut best[end];
                if now.start == usize::MAX || score > now.score {
                    *now = Best { score, start, id };
                }
            };
            self.index.prefixes(
                |id| vocab.text(id),
                |i| text.as_bytes().get(start + i).copied(),
                |len, id| {
                    let known = Some(id).filter(|_| self.unk != Some(id));
                    offer(start + len, so_far + self.scores[id as usize], known);
                    single |= len == c.len_utf8();
                },
            );
            if !single {
                offer(start + c.len_utf8(), so_far + self.least - UNKNOWN_PENALTY, None);
            }
        }
        best
    }

    fn unknown(&self, vocab: &Vocab, raw: &[u8], out: &mut Vec<u32>) {
        if let Some(id) = vocab.find_plain(raw) {
            out.push(id);
        } else if let Some(ids) = self.fallback.as_ref().and_then(|f| f.of(raw)) {
            out.extend(ids);
        } else {
            out.extend(self.unk);
        }
    }
}
