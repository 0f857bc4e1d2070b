//! WordPiece: the longest token that the rest of the word starts with, again and again.
use super::prefix::PrefixIndex;
use super::vocab::Vocab;

pub(crate) struct WordPiece {
    /// Before tokens that continue a word, in the vocabulary.
    pub prefix: String,
    pub unk: u32,
    /// A word of more characters is unknown.
    pub longest_word: usize,
    pub index: PrefixIndex,
}

impl WordPiece {
    /// A word that can't be covered is one unknown token.
    pub fn encode(&self, vocab: &Vocab, word: &str, out: &mut Vec<u32>) {
        let before = out.len();
        if word.chars().count() > self.longest_word {
            out.push(self.unk);
            return;
        }
        let (prefix, word) = (self.prefix.as_bytes(), word.as_bytes());
        let mut at = 0;
        while at < word.len() {
            let prefix = if at == 0 { &[] } else { prefix };
            let rest = |i: usize| match i.checked_sub(prefix.len()) {
                None => Some(prefix[i]),
                Some(i) => word.get(at + i).copied(),
            };
            let mut longest = None;
            self.index.prefixes(
                |id| vocab.text(id),
                rest,
                |len, id| {
                    if len > prefix.len() {
                        longest = Some((len - prefix.len(), id));
                    }
                },
            );
            let Some((len, id)) = longest else {
                out.truncate(before);
                out.push(self.unk);
                return;
            };
            out.push(id);
            at += len;
        }
    }
}
