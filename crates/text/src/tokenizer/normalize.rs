//! What is done to a text before it is cut to pieces.
use super::bytes;
use super::charsmap::Charsmap;
use super::pattern::Pattern;
use super::unicode;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// One step.
pub(crate) enum Normalizer {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    Strip {
        left: bool,
        right: bool,
    },
    StripAccents,
    Replace(Pattern, String),
    Prepend(String),
    Nmt,
    Bert {
        clean: bool,
        chinese: bool,
        strip_accents: bool,
        lowercase: bool,
    },
    ByteLevel,
    Precompiled(Charsmap),
    /// SentencePiece's own normalizer, as GGUF files describe it.
    SentencePiece {
        charsmap: Option<Charsmap>,
        prepend: bool,
        merge_spaces: bool,
        space: String,
    },
}

/// A text on its way through the steps.
pub(crate) struct Normalized<'t> {
    pub text: Cow<'t, str>,
    /// Whether its first character was the first of the original.
    pub from_start: bool,
}

/// Applies all steps.
pub(crate) fn normalize<'t>(steps: &[Normalizer], text: &'t str) -> Normalized<'t> {
    let mut n = Normalized { text: Cow::Borrowed(text), from_start: true };
    for step in steps {
        step.apply(&mut n);
    }
    n
}

impl Normalizer {
    /// How many times longer a text may get, at most, when the step is taken once more.
    pub fn growth(&self) -> usize {
        match self {
            Self::Replace(_, with) => with.len().max(1),
            Self::Prepend(prefix) => prefix.len() / 64 + 1,
            Self::ByteLevel => 2,
            _ => 1,
        }
    }

    fn apply(&self, n: &mut Normalized<'_>) {
        match self {
            Self::Nfc if unicode_normalization::is_nfc(&n.text) => {}
            Self::Nfc => n.compose(|t, out| out.extend(t.nfc())),
            Self::Nfd => n.compose(|t, out| out.extend(t.nfd())),
            Self::Nfkc => n.compose(|t, out| out.extend(t.nfkc())),
            Self::Nfkd => n.compose(|t, out| out.extend(t.nfkd())),
            Self::Lowercase => n.set(|t| t.chars().flat_map(char::to_lowercase).collect()),
            Self::Strip { left, right } => {
                if *left {
                    n.from_start &= !n.text.starts_with(char::is_whitespace);
                    n.set(|t| t.trim_start().to_owned());
                }
                if *right {
                    n.set(|t| t.trim_end().to_owned());
                }
            }
            Self::StripAccents => n.filter(|c| !unicode::is_mark(c)),
            Self::Replace(pattern, with) => replace(pattern, with, n),
            Self::Prepend(prefix) => {
                if !n.text.is_empty() {
                    n.set(|t| format!("{prefix}{t}"));
                }
            }
            Self::Nmt => nmt(n),
            Self::Bert { clean, chinese, strip_accents, lowercase } => {
                if *clean {
                    clean_text(n);
                }
                if *chinese {
                    n.set(space_out_chinese);
                }
                if *strip_accents {
                    Self::Nfd.apply(n);
                    n.filter(|c| !unicode::is_nonspacing_mark(c));
                }
                if *lowercase {
                    Self::Lowercase.apply(n);
                }
            }
            Self::ByteLevel => n.set(|t| {
                let mut out = String::with_capacity(t.len() * 2);
                bytes::encode_into(t, &mut out);
                out
            }),
            Self::Precompiled(map) => n.set(|t| map.by_grapheme(t)),
            Self::SentencePiece { charsmap, prepend, merge_spaces, space } => {
                n.set(|t| sentence_piece(t, charsmap.as_ref(), *prepend, *merge_spaces, space));
            }
        }
    }
}

impl Normalized<'_> {
    fn set(&mut self, f: impl FnOnce(&str) -> String) {
        self.text = Cow::Owned(f(&self.text));
    }
    /// Normalizes the runs between characters that are too new to take part.
    fn compose(&mut self, f: impl Fn(&str, &mut String)) {
        let mut out = String::with_capacity(self.text.len());
        for run in self.text.split_inclusive(unicode::is_inert) {
            let inert = run.char_indices().next_back().filter(|&(_, c)| unicode::is_inert(c));
            let old = inert.map_or(run.len(), |(at, _)| at);
            f(&run[..old], &mut out);
            out.push_str(&run[old..]);
        }
        self.text = Cow::Owned(out);
    }
    fn filter(&mut self, keep: impl Fn(char) -> bool) {
        self.from_start &= self.text.chars().next().is_none_or(&keep);
        self.set(|t| t.chars().filter(|&c| keep(c)).collect());
    }
}

fn replace(pattern: &Pattern, with: &str, n: &mut Normalized<'_>) {
    let mut out = String::new();
    let mut done = 0;
    pattern.for_each(&n.text, |start, end| {
        n.from_start &= start > 0 || !with.is_empty();
        out.push_str(&n.text[done..start]);
        out.push_str(with);
        done = end;
    });
    if done > 0 {
        out.push_str(&n.text[done..]);
        n.text = Cow::Owned(out);
    }
}

/// The normalization of Google's machine translation, as far as Hugging Face has it.
fn nmt(n: &mut Normalized<'_>) {
    n.filter(|c| !matches!(c, '\u{1}'..='\u{8}' | '\u{B}' | '\u{E}'..='\u{1F}' | '\u{7F}' | '\u{8F}' | '\u{9F}'));
    n.set(|t| {
        let spaced = |c| match c {
            '\t' | '\n' | '\u{C}' | '\r' | '\u{1680}' | '\u{200B}'..='\u{200F}' => ' ',
            '\u{2028}' | '\u{2029}' | '\u{2581}' | '\u{FEFF}' | '\u{FFFD}' => ' ',
            c => c,
        };
        t.chars().map(spaced).collect()
    });
}

/// BERT's cleaning: no control characters, one kind of space.
fn clean_text(n: &mut Normalized<'_>) {
    let is_space = |c: char| matches!(c, '\t' | '\n' | '\r') || c.is_whitespace();
    n.filter(|c| {
        c != '\0' && c != '\u{FFFD}' && (matches!(c, '\t' | '\n' | '\r') || !unicode::is_other(c))
    });
    n.set(|t| t.chars().map(|c| if is_space(c) { ' ' } else { c }).collect());
}

fn space_out_chinese(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if unicode::is_chinese(c) {
            out.extend([' ', c, ' ']);
        } else {
            out.push(c);
        }
    }
    out
}

fn sentence_piece(
    text: &str,
    charsmap: Option<&Charsmap>,
    prepend: bool,
    merge_spaces: bool,
    space: &str,
) -> String {
    let mapped = match charsmap {
        Some(map) => Cow::Owned(map.by_longest_prefix(text)),
        None => Cow::Borrowed(text),
    };
    let mut out = String::with_capacity(mapped.len() + space.len());
    let (mut in_word, mut prepended) = (false, false);
    for c in mapped.chars() {
        if c != ' ' {
            if !in_word && ((prepend && !prepended) || merge_spaces) {
                out.push_str(space);
                prepended = true;
            }
            out.push(c);
        } else if !merge_spaces {
            out.push_str(space);
        }
        in_word = c != ' ';
    }
    out
}
