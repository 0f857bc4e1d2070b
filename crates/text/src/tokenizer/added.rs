//! Tokens that are found in a text before the model runs.
use super::normalize::{Normalizer, normalize};
use super::prefix::PrefixIndex;
use super::vocab::{Kind, Vocab};
use std::ops::Range;

/// How an added token is matched.
#[derive(Clone, Debug)]
pub(crate) struct AddedToken {
    pub id: u32,
    pub content: String,
    /// Takes the spaces before it.
    pub lstrip: bool,
    /// Takes the spaces after it.
    pub rstrip: bool,
    /// Not inside a word.
    pub single_word: bool,
    /// Looked for in the normalized text.
    pub normalized: bool,
}

/// Which added tokens may be made from a text.
#[derive(Clone, Copy, Debug)]
pub enum Special<'a> {
    /// All: the text is markup, written by a template.
    Parse,
    /// None that steers the model: the text is a person's, a tool's or a document's. Added tokens
    /// that are plain text are still found.
    Plain,
    /// As `Parse`, but no token that steers the model may touch these byte ranges, which are as
    /// `Plain`. How a rendered chat keeps its messages apart from its markup.
    Except(&'a [Range<usize>]),
}

impl Special<'_> {
    /// Whether a control token may stand at `range` of the text.
    pub(crate) fn allows(&self, range: &Range<usize>) -> bool {
        match self {
            Self::Parse => true,
            Self::Plain => false,
            Self::Except(plain) => {
                plain.iter().all(|p| p.is_empty() || p.end <= range.start || range.end <= p.start)
            }
        }
    }
}

/// A part of a text.
pub(crate) enum Part {
    Token(u32),
    Text(Range<usize>),
}

/// The added tokens of one stage, raw or normalized.
pub(crate) struct Matcher {
    tokens: Vec<AddedToken>,
    index: PrefixIndex,
}

impl Matcher {
    pub fn new(mut tokens: Vec<AddedToken>) -> Self {
        tokens.sort_by_key(|t| t.id);
        let index =
            PrefixIndex::new(0..tokens.len() as u32, |i| tokens[i as usize].content.as_bytes());
        Self { tokens, index }
    }

    /// The tokens to look for in raw and in normalized text. Without a normalizer the two texts
    /// are one, but the raw stage goes first.
    pub fn stages(tokens: Vec<AddedToken>, normalizer: &[Normalizer]) -> (Self, Self) {
        let (mut late, early): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|t| t.normalized);
        for t in &mut late {
            t.content = normalize(normalizer, &t.content).text.into_owned();
        }
        (Self::new(early), Self::new(late))
    }

    /// The text of `id` as it is looked for, if it is of this stage.
    pub fn spelling(&self, id: u32) -> Option<&str> {
        let at = self.tokens.binary_search_by_key(&id, |t| t.id).ok()?;
        Some(&self.tokens[at].content)
    }

    /// Cuts `text` at the leftmost, longest tokens. `at` is where it starts in the whole text.
    pub fn split(&self, vocab: &Vocab, text: &str, at: usize, special: Special<'_>) -> Vec<Part> {
        let mut parts = vec![];
        let (mut done, mut here) = (0, 0);
        while !self.index.is_empty() && here < text.len() {
            let Some(token) = self.longest_at(vocab, text, here, at, special) else {
                here += 1;
                continue;
            };
            let (start, end) = (here, here + token.content.len());
            here = end;
            if token.single_word && !stands_alone(text, start, end) {
                continue;
            }
            let start = if token.lstrip { text[..start].trim_end().len().max(done) } else { start };
            let rest = &text[end..];
            let skip = if token.rstrip { rest.len() - rest.trim_start().len() } else { 0 };
            if done < start {
                parts.push(Part::Text(done..start));
            }
            parts.push(Part::Token(token.id));
            // Hugging Face looks on inside the spaces taken, but leaves out what they cover.
            done = end + skip;
        }
        if done < text.len() {
            parts.push(Part::Text(done..text.len()));
        }
        parts
    }

    fn longest_at(
        &self,
        vocab: &Vocab,
        text: &str,
        here: usize,
        at: usize,
        special: Special<'_>,
    ) -> Option<&AddedToken> {
        if !self.index.starts_with(text.as_bytes()[here]) || !text.is_char_boundary(here) {
            return None;
        }
        let mut longest = None;
        self.index.prefixes(
            |i| self.tokens[i as usize].content.as_bytes(),
            |i| text.as_bytes().get(here + i).copied(),
            |len, i| {
                let token = &self.tokens[i as usize];
                let range = at + here..at + here + len;
                if vocab.kind(token.id) != Kind::Control || special.allows(&range) {
                    longest = Some(token);
                }
            },
        );
        longest
    }
}

fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(super::unicode::is_word);
    !is_word(text[..start].chars().next_back()) && !is_word(text[end..].chars().next())
}
