//! How a normalized text is cut to pieces, which tokens never cross.
use super::bytes;
use super::pattern::Pattern;
use std::borrow::Cow;

/// One step.
pub(crate) enum PreTokenizer {
    Split {
        pattern: Pattern,
        behavior: Behavior,
        invert: bool,
    },
    /// Puts a space before pieces that have none.
    PrefixSpace,
    /// Writes the text in the byte alphabet.
    ByteLevel,
    Metaspace {
        replacement: char,
        prepend: Prepend,
        split: bool,
    },
    /// Pieces of so many characters.
    FixedLength(usize),
}

impl PreTokenizer {
    /// How many times longer a text may get, at most.
    pub fn growth(&self) -> usize {
        match self {
            Self::ByteLevel => 2,
            Self::Metaspace { replacement, .. } => replacement.len_utf8(),
            _ => 1,
        }
    }
}

/// What becomes of the matches of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

/// Which pieces get a word mark in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepend {
    Always,
    /// The piece at the very start of the text.
    First,
    Never,
}

/// A text and its pieces.
pub(crate) struct Pieces<'t> {
    text: Cow<'t, str>,
    spans: Vec<Span>,
}

#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    /// Whether it starts where the original text starts.
    first: bool,
}

impl<'t> Pieces<'t> {
    /// One piece. `first` is whether it stands at the start of the whole text.
    pub fn new(text: &'t str, first: bool) -> Self {
        let spans = vec![Span { start: 0, end: text.len(), first }];
        Self { text: Cow::Borrowed(text), spans }
    }

    /// The pieces that are not empty.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.spans.iter().map(|s| &self.text[s.start..s.end]).filter(|p| !p.is_empty())
    }

    pub fn apply(&mut self, step: &PreTokenizer) {
        match step {
            PreTokenizer::Split { pattern, behavior, invert } => {
                self.split(pattern, *behavior, *invert);
            }
            PreTokenizer::PrefixSpace => self.rewrite(|piece, _, out| {
                if !piece.starts_with(' ') {
                    out.push(' ');
                }
                out.push_str(piece);
            }),
            PreTokenizer::ByteLevel => self.rewrite(|piece, _, out| bytes::encode_into(piece, out)),
            PreTokenizer::Metaspace { replacement, prepend, split } => {
                self.metaspace(*replacement, *prepend);
                if *split {
                    let mark = *replacement;
                    let pattern = Pattern::Char(Box::new(move |c| c == mark));
                    self.split(&pattern, Behavior::MergedWithNext, false);
                }
            }
            PreTokenizer::FixedLength(n) => self.cut(|piece, cut| {
                let ends = piece.char_indices().skip(*n).step_by(*n).map(|(at, _)| at);
                let mut start = 0;
                for end in ends.chain([piece.len()]) {
                    cut(start, end);
                    start = end;
                }
            }),
        }
    }

    fn metaspace(&mut self, mark: char, prepend: Prepend) {
        self.rewrite(|piece, first, out| {
            let marked = piece.starts_with([' ', mark]);
            let wanted = match prepend {
                Prepend::Always => true,
                Prepend::First => first,
                Prepend::Never => false,
            };
            if wanted && !marked {
                out.push(mark);
            }
            out.extend(piece.chars().map(|c| if c == ' ' { mark } else { c }));
        });
    }

    fn split(&mut self, pattern: &Pattern, behavior: Behavior, invert: bool) {
        let mut parts = vec![];
        self.cut(|piece, cut| {
            parts.clear();
            let mut done = 0;
            pattern.for_each(piece, |start, end| {
                if done < start {
                    parts.push((done, start, invert));
                }
                parts.push((start, end, !invert));
                done = end;
            });
            if done < piece.len() {
                parts.push((done, piece.len(), invert));
            }
            behavior.join(&parts, cut);
        });
    }

    /// Cuts each piece at the ranges that `f` gives, left to right.
    fn cut(&mut self, mut f: impl FnMut(&str, &mut dyn FnMut(usize, usize))) {
        let spans = std::mem::take(&mut self.spans);
        let mut cut = Vec::with_capacity(spans.len() * 2);
        for s in spans.into_iter().filter(|s| s.start < s.end) {
            f(&self.text[s.start..s.end], &mut |start, end| {
                let first = s.first && start == 0;
                cut.push(Span { start: s.start + start, end: s.start + end, first });
            });
        }
        self.spans = cut;
    }

    /// Replaces the text of each piece.
    fn rewrite(&mut self, f: impl Fn(&str, bool, &mut String)) {
        let mut text = String::with_capacity(self.text.len() * 2);
        for s in self.spans.iter_mut().filter(|s| s.start < s.end) {
            let start = text.len();
            f(&self.text[s.start..s.end], s.first, &mut text);
            *s = Span { start, end: text.len(), first: s.first };
        }
        self.spans.retain(|s| s.start < s.end);
        self.text = Cow::Owned(text);
    }
}

impl Behavior {
    /// Joins `parts` (start, end, is a match) to pieces.
    fn join(self, parts: &[(usize, usize, bool)], out: &mut dyn FnMut(usize, usize)) {
        let mut open: Option<(usize, usize)> = None;
        for (i, &(start, end, is_match)) in parts.iter().enumerate() {
            let before = i > 0 && parts[i - 1].2;
            let glue = match self {
                Self::Removed if is_match => continue,
                Self::Removed | Self::Isolated => false,
                Self::Contiguous => is_match == before,
                Self::MergedWithPrevious => is_match && !before,
                Self::MergedWithNext => before && !is_match,
            };
            match &mut open {
                Some((_, open_end)) if glue => *open_end = end,
                _ => {
                    if let Some((s, e)) = open.replace((start, end)) {
                        out(s, e);
                    }
                }
            }
        }
        if let Some((s, e)) = open {
            out(s, e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps: &[PreTokenizer], text: &str, expected: &[&str]) {
        let mut p = Pieces::new(text, true);
        steps.iter().for_each(|s| p.apply(s));
        assert_eq!(p.iter().collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn behaviors() {
        use Behavior::*;
        let cases: [(Behavior, &[&str]); 5] = [
            (Removed, &["the", "final", "countdown"]),
            (Isolated, &["the", "-", "final", "-", "-", "countdown"]),
            (MergedWithPrevious, &["the-", "final-", "-", "countdown"]),
            (MergedWithNext, &["the", "-final", "-", "-countdown"]),
            (Contiguous, &["the", "-", "final", "--", "countdown"]),
        ];
        for (behavior, expected) in cases {
            let pattern = Pattern::Text("-".into());
            check(
                &[PreTokenizer::Split { pattern, behavior, invert: false }],
                "the-final--countdown",
                expected,
            );
        }
        let pattern = Pattern::Char(Box::new(char::is_alphabetic));
        let step = PreTokenizer::Split { pattern, behavior: Removed, invert: true };
        check(&[step], "ab, c", &["a", "b", "c"]);
    }

    #[test]
    fn metaspace() {
        let step =
            |prepend, split| [PreTokenizer::Metaspace { replacement: '▁', prepend, split }];
        check(&step(Prepend::Always, true), "Hey  you", &["▁Hey", "▁", "▁you"]);
        check(&step(Prepend::First, false), "Hey you", &["▁Hey▁you"]);
        check(&step(Prepend::First, false), " Hey", &["▁Hey"]);
        check(&step(Prepend::Never, true), "Hey you", &["Hey", "▁you"]);
        check(&step(Prepend::Always, true), "", &[]);
        check(&[PreTokenizer::FixedLength(2)], "日本語です!", &["日本", "語で", "す!"]);
    }
}
