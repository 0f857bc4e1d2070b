//! Character classes that std does not have, from regex-syntax's Unicode tables.
//!
//! Ids must be those of the tokenizer that a model was trained with, so the classes stop at the
//! versions of Unicode that Hugging Face's reader knows: 8 for categories, 9 for normalization.
use regex_syntax::hir::{Class, HirKind};
use std::sync::LazyLock;

/// Punctuation: ASCII's, and Unicode's general category P.
pub(crate) fn is_punctuation(c: char) -> bool {
    static CLASS: LazyLock<CharSet> =
        LazyLock::new(|| CharSet::new(r"[[:punct:][\p{P}&&\p{age=8.0}]]"));
    CLASS.contains(c)
}

/// Categories Cc, Cf and Co.
pub(crate) fn is_other(c: char) -> bool {
    static CLASS: LazyLock<CharSet> =
        LazyLock::new(|| CharSet::new(r"[[\p{Cc}\p{Cf}\p{Co}]&&\p{age=8.0}]"));
    CLASS.contains(c)
}

/// Category Mn.
pub(crate) fn is_nonspacing_mark(c: char) -> bool {
    static CLASS: LazyLock<CharSet> = LazyLock::new(|| CharSet::new(r"[\p{Mn}&&\p{age=8.0}]"));
    CLASS.contains(c)
}

/// Category M.
pub(crate) fn is_mark(c: char) -> bool {
    static CLASS: LazyLock<CharSet> = LazyLock::new(|| CharSet::new(r"[\p{M}&&\p{age=9.0}]"));
    CLASS.contains(c)
}

/// Whether normalization leaves `c` alone because it is too new.
pub(crate) fn is_inert(c: char) -> bool {
    static CLASS: LazyLock<CharSet> = LazyLock::new(|| CharSet::new(r"\p{age=9.0}"));
    !c.is_ascii() && !CLASS.contains(c)
}

/// A character of a word: `\w`.
pub(crate) fn is_word(c: char) -> bool {
    static CLASS: LazyLock<CharSet> = LazyLock::new(|| CharSet::new(r"\w"));
    CLASS.contains(c)
}

/// What BERT calls a Chinese character: these are set apart by spaces.
pub(crate) fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B73F}' | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

/// Sorted ranges of characters.
struct CharSet(Vec<(char, char)>);

impl CharSet {
    fn new(class: &str) -> Self {
        let ranges = match regex_syntax::parse(class).map(regex_syntax::hir::Hir::into_kind) {
            Ok(HirKind::Class(Class::Unicode(c))) => {
                c.ranges().iter().map(|r| (r.start(), r.end())).collect()
            }
            _ => vec![],
        };
        Self(ranges)
    }
    fn contains(&self, c: char) -> bool {
        let after = self.0.partition_point(|&(start, _)| start <= c);
        after > 0 && c <= self.0[after - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_should() {
        assert!(is_punctuation('$') && is_punctuation('«') && is_punctuation('。'));
        assert!(!is_punctuation('€') && !is_punctuation('a') && !is_punctuation(' '));
        assert!(is_other('\u{7}') && is_other('\u{200D}') && is_other('\u{E000}'));
        assert!(is_inert('\u{32FF}') && !is_inert('é') && !is_inert('x'));
        assert!(!is_other('a') && !is_other('\u{1F999}'));
        assert!(is_nonspacing_mark('\u{301}') && !is_nonspacing_mark('\u{903}'));
        assert!(is_word('_') && is_word('é') && is_word('7') && !is_word('-'));
        assert!(is_mark('\u{903}') && is_chinese('中') && !is_chinese('あ'));
    }
}
