//! Patterns that find the pieces of a text, in linear time.
use super::TokenizerError;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::sync::Mutex;

/// What to look for.
pub(crate) enum Pattern {
    Text(String),
    Regex(Box<Regex>),
    Char(Box<dyn Fn(char) -> bool + Send + Sync>),
}

impl Pattern {
    /// Compiles the regular expression `pattern`, which stands at `path`, in at most `room` bytes.
    /// Returns what it takes too.
    pub fn regex(pattern: &str, path: &str, room: usize) -> Result<(Self, usize), TokenizerError> {
        let regex = Regex::new(pattern, path, room)?;
        let size = regex.dfa.get_nfa().memory_usage();
        Ok((Self::Regex(Box::new(regex)), size))
    }

    /// Calls `found(start, end)` for every match in `text`, left to right.
    pub fn for_each(&self, text: &str, mut found: impl FnMut(usize, usize)) {
        match self {
            Self::Text(t) => text.match_indices(t).for_each(|(at, t)| found(at, at + t.len())),
            Self::Regex(r) => r.for_each(text, found),
            Self::Char(is) => text
                .char_indices()
                .filter(|&(_, c)| is(c))
                .for_each(|(at, c)| found(at, at + c.len_utf8())),
        }
    }
}

/// A regular expression, run as a lazy DFA anchored at each place where a match may start.
///
/// The pre-tokenizers' patterns end in `\s+(?!\S)|\s+`, their only irregular part: a run of spaces
/// leaves its last one to the word that follows. It is run as `\s+`, which then gives back its
/// last character if a non-space follows.
pub(crate) struct Regex {
    /// Pattern 0 is what precedes the spaces rule, the last pattern is the rule's `\s+`.
    dfa: DFA,
    spaces: Option<Spaces>,
    caches: Mutex<Vec<Cache>>,
}

#[derive(Clone, Copy)]
struct Spaces {
    /// The index of `\s+` in the DFA.
    index: usize,
    /// Whether a single space before a non-space matches too.
    single: bool,
}

const GIVE_BACK: &str = r"\s+(?!\S)";

/// Possessive quantifiers in published patterns, where what follows can't match what they took:
/// greedy ones give the same matches.
const POSSESSIVE: [(&str, &str); 5] = [
    (r"[^\r\n\p{L}\p{N}]?+\p{L}+", r"[^\r\n\p{L}\p{N}]?\p{L}+"),
    (r"\p{L}++|", r"\p{L}+|"),
    (r"\p{N}{1,3}+|", r"\p{N}{1,3}|"),
    (r"[^\s\p{L}\p{N}]++[\r\n]*", r"[^\s\p{L}\p{N}]+[\r\n]*"),
    (r"[\r\n]*+|", r"[\r\n]*|"),
];

impl Regex {
    fn new(pattern: &str, path: &str, room: usize) -> Result<Self, TokenizerError> {
        let refuse = |problem: String| TokenizerError::Pattern {
            path: path.to_owned(),
            pattern: pattern.to_owned(),
            problem,
        };
        let greedy =
            POSSESSIVE.iter().fold(pattern.to_owned(), |p, (from, to)| p.replace(from, to));
        if has_possessive(&greedy) {
            return Err(refuse("possessive quantifiers are not supported".into()));
        }
        let (body, single) = split_spaces_rule(&greedy);
        let mut parts: Vec<&str> = if body.is_empty() { vec![] } else { vec![body] };
        let spaces = single.map(|single| Spaces { index: parts.len(), single });
        if spaces.is_some() {
            parts.push(r"\s+");
        }
        let config = DFA::config()
            .match_kind(MatchKind::LeftmostFirst)
            .starts_for_each_pattern(false)
            .skip_cache_capacity_check(true)
            .cache_capacity(CACHE_BYTES);
        let dfa = DFA::builder()
            .configure(config)
            .syntax(syntax::Config::new())
            .thompson(thompson::Config::new().nfa_size_limit(Some(room)))
            .build_many(&parts)
            .map_err(|e| refuse(cause(&e)))?;
        if dfa.get_nfa().has_empty() {
            return Err(refuse("it matches the empty text".into()));
        }
        Ok(Self { dfa, spaces, caches: Mutex::default() })
    }

    fn for_each(&self, text: &str, mut found: impl FnMut(usize, usize)) {
        let mut cache = lock(&self.caches).pop().unwrap_or_else(|| self.dfa.create_cache());
        let mut at = 0;
        while at < text.len() {
            match self.match_at(&mut cache, text, at) {
                Some(end) if end > at => {
                    found(at, end);
                    at = end;
                }
                _ => at += char_len(text, at),
            }
        }
        lock(&self.caches).push(cache);
    }

    /// The end of the match that starts at `at`.
    fn match_at(&self, cache: &mut Cache, text: &str, at: usize) -> Option<usize> {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        // A search fails only by quit bytes or by giving up, and neither is configured.
        let half = self.dfa.try_search_fwd(cache, &input).ok()??;
        let end = half.offset();
        let Some(spaces) = self.spaces else { return Some(end) };
        if half.pattern().as_usize() != spaces.index || end == text.len() {
            return Some(end);
        }
        let last = text[at..end].chars().next_back().map_or(0, char::len_utf8);
        match end - last {
            shorter if shorter > at => Some(shorter),
            _ => spaces.single.then_some(end),
        }
    }
}

const CACHE_BYTES: usize = 8 << 20;
/// Bytes for all patterns of one tokenizer: real ones take up to about one megabyte.
pub(crate) const ROOM: usize = 16 << 20;

/// `pattern` without its last alternatives `\s+(?!\S)` and `\s+`, and, if the first of them was
/// there, whether the second was.
fn split_spaces_rule(pattern: &str) -> (&str, Option<bool>) {
    let tail = [r"|\s+", r"|\s"].iter().find_map(|t| pattern.strip_suffix(t));
    let without = tail.unwrap_or(pattern);
    match without.strip_suffix(GIVE_BACK) {
        Some("") => ("", Some(tail.is_some())),
        Some(body) => match body.strip_suffix('|') {
            Some(body) => (body, Some(tail.is_some())),
            None => (pattern, None),
        },
        None => (pattern, None),
    }
}

/// Whether a quantifier is followed by `+`, which the regex crates would read as repetition.
fn has_possessive(pattern: &str) -> bool {
    let (mut depth, mut quantified) = (0, false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let was = std::mem::take(&mut quantified);
        match c {
            '\\' => {
                // The braces of a class (`\p{L}`) are no quantifier.
                let class = matches!(chars.next(), Some('p' | 'P'));
                if class && chars.as_str().starts_with('{') {
                    chars.by_ref().find(|&c| c == '}');
                }
            }
            '[' => depth += 1,
            ']' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            '+' if was => return true,
            '?' | '*' | '+' | '}' => quantified = true,
            _ => {}
        }
    }
    false
}

/// The root of an error, without the drawing of where it is.
fn cause(e: &dyn std::error::Error) -> String {
    let mut e = e;
    while let Some(source) = e.source() {
        e = source;
    }
    let text = e.to_string();
    let last = text.lines().next_back().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pattern: &str, text: &str) -> Vec<String> {
        let mut v = vec![];
        let r = Regex::new(pattern, "here", ROOM).unwrap();
        r.for_each(text, |a, b| v.push(text[a..b].to_owned()));
        v
    }

    #[test]
    fn spaces_leave_the_last_one_to_the_next_word() {
        let p = r" ?\p{L}+|\s*\n|\s+(?!\S)|\s+";
        assert_eq!(pieces(p, "a  b"), ["a", " ", " b"]);
        assert_eq!(pieces(p, "a\t!"), ["a", "\t"]);
        assert_eq!(pieces(p, "a \u{3000}  "), ["a", " \u{3000}  "]);
        assert_eq!(pieces(p, "  \n\n b"), ["  \n\n", " b"]);
        assert_eq!(pieces(r"\s+(?!\S)", " a  b "), [" ", " "]);
        assert_eq!(pieces(r"\s+(?!\S)|\s+", " a  b "), [" ", " ", " ", " "]);
    }

    #[test]
    fn what_is_not_regular_is_refused() {
        let cases = [
            (r"(?=(\d{3})+(?!\d))", "look"),
            (r"a++b", "possessive"),
            (r"a{2}+b", "possessive"),
            (r"(a)\1", "backreference"),
            (r"a(", "unclosed"),
            (r"a*", "empty"),
            (r"(?:\p{L}{1000}){1000}", "limit"),
        ];
        for (pattern, why) in cases {
            let e = Regex::new(pattern, "pre_tokenizer.pattern", ROOM).err().unwrap().to_string();
            assert!(e.contains(why) && e.contains("pre_tokenizer.pattern"), "{pattern}: {e}");
        }
        assert!(!has_possessive(r"[a+]+\+a?|a*b{2}"));
    }
}
