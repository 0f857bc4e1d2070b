//! What a model has written and nobody has read yet: text, some of it control tokens' names.
//!
//! A tag that the tokenizer has as a token is that token and no text that spells it. What can't be
//! told from the text at hand waits for more, so that nothing depends on how the text was cut.
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The tags of a model's markup, and where in their texts tokens of their own lie.
#[derive(Clone, Debug, Default)]
pub struct Markup(BTreeMap<String, Vec<Range<usize>>>);

impl Markup {
    /// Of tags, each with the byte ranges that are tokens. Of a tag that comes twice, the last counts.
    pub fn new<'a>(tags: impl IntoIterator<Item = (&'a str, Vec<Range<usize>>)>) -> Markup {
        Markup(tags.into_iter().map(|(tag, tokens)| (tag.to_owned(), tokens)).collect())
    }
    /// The tokens that the reader must be told of by name.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(tag, ranges)| ranges.iter().map(|range| &tag[range.clone()]))
    }
    /// Whether the whole tag is one token.
    pub(crate) fn is_token(&self, tag: &str) -> bool {
        matches!(self.ranges(tag), [all] if all.len() == tag.len())
    }
    fn ranges(&self, tag: &str) -> &[Range<usize>] {
        self.0.get(tag).map_or(&[], Vec::as_slice)
    }
}

/// Unread text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    text: String,
    /// Which parts are tokens, and whether they are to be shown as text.
    tokens: VecDeque<(Range<usize>, bool)>,
    /// Whether no more will come.
    ended: bool,
    /// Whether that is because the answer was cut off.
    cut: bool,
}

/// Whether a text begins with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    /// It may, if the right text follows.
    Maybe,
    No,
}

/// Where the first of some tags is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// At this byte, the tag of this number.
    At(usize, usize),
    /// Not before this byte.
    NotBefore(usize),
}

impl Tape {
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
    pub fn push_token(&mut self, name: &str, shown: bool) {
        let start = self.text.len();
        self.text.push_str(name);
        self.tokens.push_back((start..self.text.len(), shown));
    }
    pub fn end(&mut self, cut: bool) {
        (self.ended, self.cut) = (true, cut);
    }
    /// Whether this is all, and the model meant it to be.
    pub fn is_whole(&self) -> bool {
        self.ended && !self.cut
    }
    /// Whether no more will come.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Whether nothing is left and more may come.
    pub fn waits(&self) -> bool {
        self.text.is_empty() && !self.ended
    }
    /// Whether nothing is left and no more will come.
    pub fn is_over(&self) -> bool {
        self.text.is_empty() && self.ended
    }
    /// Whether there is no other text than white space, and more may come.
    pub fn is_blank_so_far(&self) -> bool {
        self.text.trim().is_empty() && !self.ended
    }
    pub fn starts(&self, tag: &str, markup: &Markup) -> Match {
        self.matches(0, tag, markup)
    }
    /// The first of `tags`; of several in one place the first that is sure, once none longer may be.
    pub fn find(&self, tags: &[&str], markup: &Markup) -> Found {
        for (at, _) in self.text.char_indices() {
            let mut found = None;
            for (which, tag) in tags.iter().enumerate() {
                match self.matches(at, tag, markup) {
                    Match::Maybe => return Found::NotBefore(at),
                    Match::Yes => found = found.or(Some(which)),
                    Match::No => {}
                }
            }
            if let Some(which) = found {
                return Found::At(at, which);
            }
        }
        Found::NotBefore(self.text.len())
    }
    /// Removes the first bytes.
    pub fn take(&mut self, bytes: usize) -> String {
        self.split(bytes).0
    }
    /// Removes the first bytes, less the control tokens among them.
    pub fn take_shown(&mut self, bytes: usize) -> String {
        let (mut text, hidden) = self.split(bytes);
        for range in hidden.into_iter().rev() {
            text.replace_range(range, "");
        }
        text
    }
    /// Removes white space, tokens not among it. True if other text follows, or the end.
    pub fn skip_space(&mut self, raw: &mut String) -> bool {
        let space = self.text.len() - self.text.trim_start().len();
        let token = self.tokens.front().map_or(space, |(range, _)| range.start);
        raw.push_str(&self.take(space.min(token)));
        !self.waits()
    }
    fn split(&mut self, bytes: usize) -> (String, Vec<Range<usize>>) {
        let rest = self.text.split_off(bytes);
        let text = std::mem::replace(&mut self.text, rest);
        let mut hidden = Vec::new();
        while let Some((range, shown)) = self.tokens.pop_front_if(|(range, _)| range.start < bytes)
        {
            if !shown {
                hidden.push(range.start..range.end.min(bytes));
            }
        }
        for (range, _) in &mut self.tokens {
            *range = range.start - bytes..range.end - bytes;
        }
        (text, hidden)
    }
    fn matches(&self, at: usize, tag: &str, markup: &Markup) -> Match {
        let here = &self.text[at..];
        let n = here.len().min(tag.len());
        if here.as_bytes()[..n] != tag.as_bytes()[..n] {
            return Match::No;
        }
        let is_token = |range: &Range<usize>| {
            let range = at + range.start..at + range.end;
            self.tokens.iter().any(|(token, _)| *token == range)
        };
        let mut inside = markup.ranges(tag).iter().filter(|range| range.start < n);
        match inside.all(is_token) {
            true if n == tag.len() => Match::Yes,
            true if !self.ended => Match::Maybe,
            _ => Match::No,
        }
    }
}
