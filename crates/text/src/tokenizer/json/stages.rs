//! The normalizers and pre-tokenizers of a `tokenizer.json`.
use super::node::Node;
use crate::tokenizer::TokenizerError;
use crate::tokenizer::charsmap::Charsmap;
use crate::tokenizer::normalize::Normalizer;
use crate::tokenizer::pattern::Pattern;
use crate::tokenizer::patterns::GPT2;
use crate::tokenizer::pretokenize::{Behavior, PreTokenizer, Prepend};
use crate::tokenizer::unicode;

const NORMALIZERS: &str = "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, \
    Replace, Prepend, Precompiled, BertNormalizer, ByteLevel, Nmt";
const PRE_TOKENIZERS: &str = "Sequence, ByteLevel, Split, Metaspace, BertPreTokenizer, \
    Whitespace, WhitespaceSplit, Digits, Punctuation, CharDelimiterSplit, FixedLength";

/// Appends the steps of a normalizer.
pub(super) fn normalizer(n: &Node<'_>, out: &mut Vec<Normalizer>) -> Result<(), TokenizerError> {
    if n.value.is_null() {
        return Ok(());
    }
    out.push(match n.kind()? {
        "Sequence" => {
            return n.get("normalizers").items()?.iter().try_for_each(|n| normalizer(n, out));
        }
        "NFC" => Normalizer::Nfc,
        "NFD" => Normalizer::Nfd,
        "NFKC" => Normalizer::Nfkc,
        "NFKD" => Normalizer::Nfkd,
        "Lowercase" => Normalizer::Lowercase,
        "Strip" => Normalizer::Strip {
            left: n.get("strip_left").bool_or(true)?,
            right: n.get("strip_right").bool_or(true)?,
        },
        "StripAccents" => Normalizer::StripAccents,
        "Replace" => {
            Normalizer::Replace(pattern(&n.get("pattern"))?, n.get("content").str()?.to_owned())
        }
        "Prepend" => Normalizer::Prepend(n.get("prepend").str()?.to_owned()),
        "Nmt" => Normalizer::Nmt,
        "ByteLevel" => Normalizer::ByteLevel,
        "BertNormalizer" => {
            let lowercase = n.get("lowercase").bool_or(true)?;
            Normalizer::Bert {
                clean: n.get("clean_text").bool_or(true)?,
                chinese: n.get("handle_chinese_chars").bool_or(true)?,
                strip_accents: n.get("strip_accents").bool_or(lowercase)?,
                lowercase,
            }
        }
        "Precompiled" => {
            let map = n.get("precompiled_charsmap");
            if map.value.is_null() {
                return Ok(());
            }
            let blob = base64(map.str()?).ok_or_else(|| map.wrong("it is not base64"))?;
            Normalizer::Precompiled(Charsmap::new(&blob, &map.path)?)
        }
        _ => return Err(n.unsupported(NORMALIZERS)),
    });
    Ok(())
}

/// Appends the steps of a pre-tokenizer.
pub(super) fn pre_tokenizer(
    n: &Node<'_>,
    out: &mut Vec<PreTokenizer>,
) -> Result<(), TokenizerError> {
    if n.value.is_null() {
        return Ok(());
    }
    match n.kind()? {
        "Sequence" => {
            for n in n.get("pretokenizers").items()? {
                pre_tokenizer(&n, out)?;
            }
        }
        "ByteLevel" => {
            if n.get("add_prefix_space").bool_or(true)? {
                out.push(PreTokenizer::PrefixSpace);
            }
            if n.get("use_regex").bool_or(true)? {
                out.push(split(n.regex(GPT2)?, Behavior::Isolated));
            }
            out.push(PreTokenizer::ByteLevel);
        }
        "Split" => out.push(PreTokenizer::Split {
            pattern: pattern(&n.get("pattern"))?,
            behavior: behavior(&n.get("behavior"))?,
            invert: n.get("invert").bool_or(false)?,
        }),
        "Metaspace" => out.push(metaspace(n)?),
        "BertPreTokenizer" | "WhitespaceSplit" | "Digits" | "Punctuation" => by_class(n, out)?,
        "Whitespace" => out.push(PreTokenizer::Split {
            pattern: n.regex(r"\w+|[^\w\s]+")?,
            behavior: Behavior::Removed,
            invert: true,
        }),
        "CharDelimiterSplit" | "Delimiter" => {
            let delimiter = n.get("delimiter").char()?;
            out.push(split(Pattern::Char(Box::new(move |c| c == delimiter)), Behavior::Removed));
        }
        "FixedLength" => {
            let length = n.get("length");
            let n = if length.value.is_null() { 5 } else { length.usize()? };
            if n == 0 {
                return Err(length.wrong("expected at least 1"));
            }
            out.push(PreTokenizer::FixedLength(n));
        }
        _ => return Err(n.unsupported(PRE_TOKENIZERS)),
    }
    Ok(())
}

/// Appends the splits at characters of a class.
fn by_class(n: &Node<'_>, out: &mut Vec<PreTokenizer>) -> Result<(), TokenizerError> {
    let at = |is: fn(char) -> bool, behavior| split(Pattern::Char(Box::new(is)), behavior);
    match n.kind()? {
        "BertPreTokenizer" => out.extend([
            at(char::is_whitespace, Behavior::Removed),
            at(unicode::is_punctuation, Behavior::Isolated),
        ]),
        "WhitespaceSplit" => out.push(at(char::is_whitespace, Behavior::Removed)),
        "Digits" => {
            let alone = n.get("individual_digits").bool_or(false)?;
            let behavior = if alone { Behavior::Isolated } else { Behavior::Contiguous };
            out.push(at(char::is_numeric, behavior));
        }
        _ => {
            let given = n.get("behavior");
            let isolated = given.value.is_null();
            let behavior = if isolated { Behavior::Isolated } else { behavior(&given)? };
            out.push(at(unicode::is_punctuation, behavior));
        }
    }
    Ok(())
}

fn split(pattern: Pattern, behavior: Behavior) -> PreTokenizer {
    PreTokenizer::Split { pattern, behavior, invert: false }
}

fn metaspace(n: &Node<'_>) -> Result<PreTokenizer, TokenizerError> {
    Ok(PreTokenizer::Metaspace {
        replacement: n.get("replacement").char()?,
        prepend: prepend_scheme(n)?,
        split: n.get("split").bool_or(true)?,
    })
}

/// The scheme, or what the older `add_prefix_space` says.
pub(super) fn prepend_scheme(n: &Node<'_>) -> Result<Prepend, TokenizerError> {
    let scheme = n.get("prepend_scheme");
    let prefix = n.get("add_prefix_space").bool_or(true)?;
    match scheme.value.as_str() {
        Some("never") => Ok(Prepend::Never),
        Some(_) if !prefix => Err(scheme.wrong("it contradicts add_prefix_space = false")),
        Some("always") => Ok(Prepend::Always),
        Some("first") => Ok(Prepend::First),
        Some(other) => Err(TokenizerError::unsupported(scheme.path, other, "always, first, never")),
        None if scheme.value.is_null() && prefix => Ok(Prepend::Always),
        None if scheme.value.is_null() => Ok(Prepend::Never),
        None => Err(scheme.wrong("expected a string")),
    }
}

fn behavior(n: &Node<'_>) -> Result<Behavior, TokenizerError> {
    const KNOWN: &str = "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous";
    Ok(match n.str()? {
        "Removed" => Behavior::Removed,
        "Isolated" => Behavior::Isolated,
        "MergedWithPrevious" => Behavior::MergedWithPrevious,
        "MergedWithNext" => Behavior::MergedWithNext,
        "Contiguous" => Behavior::Contiguous,
        other => return Err(TokenizerError::unsupported(&n.path, other, KNOWN)),
    })
}

/// `{"String": ...}` or `{"Regex": ...}`.
pub(super) fn pattern(n: &Node<'_>) -> Result<Pattern, TokenizerError> {
    let (text, regex) = (n.get("String"), n.get("Regex"));
    if !regex.value.is_null() {
        return regex.regex(regex.str()?);
    }
    match text.str()? {
        "" => Err(text.wrong("an empty pattern")),
        t => Ok(Pattern::Text(t.to_owned())),
    }
}

/// The bytes of standard base64, in which a `tokenizer.json` has its character map; none if it is none.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        Some(u32::from(match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0, |acc, &b| Some(acc << 6 | digit(b)?))?;
        match group.len() {
            4 => out.extend(&bits.to_be_bytes()[1..]),
            3 => out.extend(&(bits >> 2).to_be_bytes()[2..]),
            2 => out.push((bits >> 4) as u8),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64() {
        let cases = [("", &b""[..]), ("Zg==", b"f"), ("Zm8=", b"fo"), ("Zm9v", b"foo")];
        for (text, bytes) in cases {
            assert_eq!(super::base64(text).unwrap(), bytes);
        }
        assert_eq!(super::base64("Zm9v/+"), Some(b"foo\xff".to_vec()));
        assert!(super::base64("Z").is_none() && super::base64("Z*==").is_none());
    }
}
