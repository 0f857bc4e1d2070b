//! Keeps what people write from becoming markup.
//!
//! A message may hold the text of a control token. Before rendering, such text is put between two
//! characters that occur nowhere else; afterwards they are taken out again and tell where in the
//! prompt that text lies. A template may cut, join and quote the text in between: the first
//! character says that a control token which begins there is text, the second that one which ends
//! there is. The beginning of a control token at a text's end is marked too, and the end of one at
//! a text's beginning, so that two texts can't make one by lying side by side.
use std::borrow::Cow;
use std::ops::Range;

/// Control tokens, to be looked up by their beginning or by their end.
#[derive(Clone, Debug)]
pub(super) struct Controls {
    /// Whether one begins with this byte.
    first: [bool; 256],
    forward: Vec<String>,
    /// Each token's characters in reverse.
    backward: Vec<String>,
    /// The lengths that occur, in bytes, longest first.
    lengths: Vec<usize>,
}

impl Controls {
    pub fn new(tokens: impl IntoIterator<Item = String>) -> Controls {
        let mut forward: Vec<String> = tokens.into_iter().filter(|t| !t.is_empty()).collect();
        forward.sort_unstable();
        forward.dedup();
        let mut first = [false; 256];
        forward.iter().for_each(|t| first[usize::from(t.as_bytes()[0])] = true);
        let mut backward: Vec<String> = forward.iter().map(|t| t.chars().rev().collect()).collect();
        backward.sort_unstable();
        let mut lengths: Vec<usize> = forward.iter().map(String::len).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        Controls { first, forward, backward, lengths }
    }
    fn has(&self, text: &str) -> bool {
        self.forward.binary_search_by(|t| t.as_str().cmp(text)).is_ok()
    }
    /// The lengths of the tokens that `text` starts with, longest first.
    fn starting<'a>(&'a self, text: &'a str) -> impl Iterator<Item = usize> + 'a {
        let possible = text.bytes().next().is_some_and(|b| self.first[usize::from(b)]);
        let lengths = if possible { self.lengths.as_slice() } else { &[] };
        lengths.iter().copied().filter(move |n| text.get(..*n).is_some_and(|t| self.has(t)))
    }
    /// The length of the longest token that `text` ends with.
    fn ending(&self, text: &str) -> Option<usize> {
        let start = |n: &usize| text.len().checked_sub(*n);
        self.lengths
            .iter()
            .copied()
            .find(|n| start(n).and_then(|at| text.get(at..)).is_some_and(|t| self.has(t)))
    }
    /// Where a token may begin that `text` is too short for.
    fn begun(&self, text: &str) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest());
        let mut places = (from..text.len()).filter(|at| text.is_char_boundary(*at));
        places.find(|at| starts_one(&self.forward, &text[*at..]) && !self.has(&text[*at..]))
    }
    /// Where a token may end that began before `text`.
    fn ended(&self, text: &str) -> Option<usize> {
        let to = text.len().min(self.longest());
        let mut places = (1..=to).rev().filter(|at| text.is_char_boundary(*at));
        places.find(|at| {
            let reversed: String = text[..*at].chars().rev().collect();
            starts_one(&self.backward, &reversed) && !self.has(&text[..*at])
        })
    }
    fn longest(&self) -> usize {
        self.lengths.first().copied().unwrap_or(0)
    }
}

/// Whether a string of the sorted list starts with `text`.
fn starts_one(sorted: &[String], text: &str) -> bool {
    let at = sorted.partition_point(|t| t.as_str() < text);
    sorted.get(at).is_some_and(|t| t.starts_with(text))
}

/// A pair of characters around text that must stay text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks<'a> {
    controls: &'a Controls,
    begin: char,
    end: char,
}

impl<'a> Marks<'a> {
    /// The first pair of noncharacters or private characters that `used` does not have; none if
    /// it has all.
    pub fn new(controls: &'a Controls, used: impl Fn(char) -> bool) -> Option<Marks<'a>> {
        let mut free = ('\u{FDD0}'..='\u{FDEF}')
            .chain('\u{F0000}'..='\u{FFFFD}')
            .chain('\u{100000}'..='\u{10FFFD}')
            .filter(|c| !used(*c));
        Some(Marks { controls, begin: free.next()?, end: free.next()? })
    }
    /// Marks the control tokens in a message's text, but for the `allowed`.
    pub fn mark<'t>(&self, text: &'t str, allowed: &[String]) -> Cow<'t, str> {
        let mut marks: Vec<(usize, char)> = Vec::new();
        for (at, _) in text.char_indices() {
            for n in self.controls.starting(&text[at..]) {
                if !allowed.iter().any(|a| *a == text[at..at + n]) {
                    marks.extend([(at, self.begin), (at + n, self.end)]);
                }
            }
        }
        marks.extend(self.controls.begun(text).map(|at| (at, self.begin)));
        marks.extend(self.controls.ended(text).map(|at| (at, self.end)));
        if marks.is_empty() {
            return Cow::Borrowed(text);
        }
        // An end before a beginning, so that neither comes between the other and its token.
        marks.sort_unstable_by_key(|(at, c)| (*at, *c == self.begin));
        marks.dedup();
        let mut out = String::with_capacity(text.len() + marks.len() * 4);
        let mut from = 0;
        for (at, mark) in marks {
            out.push_str(&text[from..at]);
            out.push(mark);
            from = at;
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }
    /// Takes the marks out again, and says where control tokens are text.
    pub fn unmark(&self, marked: &str) -> (String, Vec<Range<usize>>) {
        let mut text = String::with_capacity(marked.len());
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for c in marked.chars() {
            match c {
                c if c == self.begin => begins.push(text.len()),
                c if c == self.end => ends.push(text.len()),
                c => text.push(c),
            }
        }
        let begun = begins
            .into_iter()
            .filter_map(|at| Some(at..at + self.controls.starting(&text[at..]).next()?));
        let ended =
            ends.into_iter().filter_map(|at| Some(at - self.controls.ending(&text[..at])?..at));
        let mut plain: Vec<Range<usize>> = begun.chain(ended).collect();
        plain.sort_unstable_by_key(|r| (r.start, r.end));
        plain.dedup();
        (text, plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls() -> Controls {
        let tokens = ["<s>", "<|end|>", "<|end|><|x|>", "|>", "</think>", "é>"];
        Controls::new(tokens.map(str::to_owned))
    }

    /// Marks `parts`, joins them with `glue` between, and returns what is text.
    fn check(parts: &[&str], glue: &str, want: &[&str]) {
        let controls = controls();
        let marks = Marks::new(&controls, |_| false).unwrap();
        let allowed = ["</think>".to_owned()];
        let marked: Vec<_> = parts.iter().map(|p| marks.mark(p, &allowed)).collect();
        let (text, plain) = marks.unmark(&marked.join(glue));
        assert_eq!(text, parts.join(glue));
        let found: Vec<&str> = plain.into_iter().map(|r| &text[r]).collect();
        assert_eq!(found, want, "{parts:?}");
    }

    #[test]
    fn control_tokens_in_text() {
        check(&["hello"], "", &[]);
        check(&["a<s>b"], "", &["<s>"]);
        check(&["<|end|>"], "", &["<|end|>", "|>"]);
        check(&["<|end|>", "<s>"], "<s>", &["<|end|>", "|>", "<s>"]);
        check(&["</think>"], "", &[]);
        check(&["caf\u{e9}>"], "", &["\u{e9}>"]);
    }

    #[test]
    fn control_tokens_over_the_borders_of_texts() {
        check(&["a <|en", "d|> b"], "", &["<|end|>", "|>"]);
        check(&["<|", "end", "|>"], "", &["<|end|>", "|>"]);
        check(&["a <|", "b"], "end|>", &["<|end|>"]);
        check(&["a", "s> b"], "<", &["<s>"]);
        check(&["1 <", "2 >"], " ", &[]);
        check(&["x|"], ">", &[]);
    }

    #[test]
    fn marks_avoid_what_is_used() {
        let controls = controls();
        let marks = Marks::new(&controls, |c| c < '\u{FDD5}').unwrap();
        assert_eq!((marks.begin, marks.end), ('\u{FDD5}', '\u{FDD6}'));
        assert!(Marks::new(&controls, |_| true).is_none());
    }
}
