//! From tokens back to text.
use super::bytes;
use super::pattern::Pattern;
use std::borrow::Cow;

/// One step.
pub(crate) enum Decoder {
    ByteLevel,
    ByteFallback,
    Fuse,
    Metaspace {
        replacement: char,
        /// Whether a mark in the first token stands for nothing.
        prepended: bool,
    },
    Replace(Pattern, String),
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    WordPiece {
        prefix: String,
        cleanup: bool,
    },
    /// The end-of-word mark of old BPE vocabularies.
    Suffix(String),
    /// No decoder at all: tokens joined by spaces.
    Spaced,
}

impl Decoder {
    /// How many times longer a text may get, at most.
    pub fn growth(&self) -> usize {
        match self {
            Self::Replace(_, with) => with.len().max(1),
            _ => 1,
        }
    }
}

/// The text of all tokens, as Hugging Face's decoders make it.
pub(crate) fn decode(steps: &[Decoder], tokens: Vec<String>) -> String {
    steps.iter().fold(tokens, |tokens, step| step.apply(tokens)).concat()
}

/// The bytes of one token, for streams. `first` is whether it is the first of a text.
pub(crate) fn piece(steps: &[Decoder], token: &str, first: bool) -> Vec<u8> {
    let mut text = Cow::Borrowed(token);
    let mut fused = false;
    for step in steps {
        match step {
            Decoder::ByteLevel => {
                return bytes::decode(&text).unwrap_or_else(|| text.into_owned().into());
            }
            Decoder::ByteFallback => match byte_token(&text) {
                Some(b) if b.is_ascii() => text = Cow::Owned(char::from(b).to_string()),
                Some(b) => return vec![b],
                None => {}
            },
            Decoder::Fuse => fused = true,
            // What is cut from the end of all text can't be known yet.
            Decoder::Strip { content, start, .. } if fused => {
                if first {
                    text = Cow::Owned(strip(&text, *content, *start, 0).to_owned());
                }
            }
            step => text = Cow::Owned(step.one(&text, first, false)),
        }
    }
    text.into_owned().into()
}

impl Decoder {
    fn apply(&self, tokens: Vec<String>) -> Vec<String> {
        match self {
            Self::ByteLevel => {
                let all: Vec<u8> = tokens
                    .into_iter()
                    .flat_map(|t| bytes::decode(&t).unwrap_or_else(|| t.into()))
                    .collect();
                vec![String::from_utf8_lossy(&all).into_owned()]
            }
            Self::ByteFallback => byte_fallback(tokens),
            Self::Fuse => vec![tokens.concat()],
            step => {
                let last = tokens.len().wrapping_sub(1);
                let each = tokens.iter().enumerate();
                each.map(|(i, t)| step.one(t, i == 0, i == last)).collect()
            }
        }
    }

    /// What a step that looks at each token alone makes of one.
    fn one(&self, token: &str, first: bool, last: bool) -> String {
        match self {
            Self::Metaspace { replacement, prepended } if first && *prepended => {
                token.replace(*replacement, "")
            }
            Self::Metaspace { replacement, .. } => token.replace(*replacement, " "),
            Self::Replace(pattern, with) => {
                let (mut out, mut done) = (String::new(), 0);
                pattern.for_each(token, |start, end| {
                    out.push_str(&token[done..start]);
                    out.push_str(with);
                    done = end;
                });
                out + &token[done..]
            }
            Self::Strip { content, start, stop } => {
                strip(token, *content, *start, *stop).to_owned()
            }
            Self::WordPiece { prefix, cleanup } => {
                let text = match token.strip_prefix(prefix.as_str()) {
                    _ if first => token.to_owned(),
                    Some(rest) => rest.to_owned(),
                    None => format!(" {token}"),
                };
                if *cleanup { clean_up(&text) } else { text }
            }
            Self::Suffix(suffix) => token.replace(suffix.as_str(), if last { "" } else { " " }),
            Self::Spaced if !first => format!(" {token}"),
            _ => token.to_owned(),
        }
    }
}

/// The byte of a token like `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2).then(|| u8::from_str_radix(hex, 16).ok())?
}

/// Joins runs of byte tokens; in a run that is not UTF-8 each becomes U+FFFD.
fn byte_fallback(tokens: Vec<String>) -> Vec<String> {
    let mut out = vec![];
    let mut run: Vec<u8> = vec![];
    let flush =
        |run: &mut Vec<u8>, out: &mut Vec<String>| match String::from_utf8(std::mem::take(run)) {
            Ok(text) => out.push(text),
            Err(e) => out.extend(e.as_bytes().iter().map(|_| "\u{FFFD}".to_owned())),
        };
    for token in tokens {
        match byte_token(&token) {
            Some(b) => run.push(b),
            None => {
                if !run.is_empty() {
                    flush(&mut run, &mut out);
                }
                out.push(token);
            }
        }
    }
    if !run.is_empty() {
        flush(&mut run, &mut out);
    }
    out
}

/// Takes up to `start` and `stop` characters `content` from the ends.
fn strip(token: &str, content: char, start: usize, stop: usize) -> &str {
    let front = token.chars().take(start).take_while(|&c| c == content).count();
    let text = &token[front * content.len_utf8()..];
    let back = text.chars().rev().take(stop).take_while(|&c| c == content).count();
    &text[..text.len() - back * content.len_utf8()]
}

/// Undoes the spaces that tokenizing English put in.
fn clean_up(text: &str) -> String {
    const FIXES: [(&str, &str); 11] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    FIXES.iter().fold(text.to_owned(), |t, (from, to)| t.replace(from, to))
}
