//! Regular expressions as ECMAScript and JSON Schema write them, turned into expressions over the
//! text itself or over its spelling inside a JSON string.
//!
//! A character has one spelling in a JSON string (`\n`, not `\u000a`), so the spelling of an
//! intersection is the intersection of the spellings.
use crate::ecma::Translator;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use std::fmt::Write;

/// How characters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// As they are.
    Plain,
    /// As in a JSON string, without the quotes.
    Json,
}

/// Any character.
pub const ANY: &str = r"[\x{0}-\x{10FFFF}]";
/// Any character, as spelled in a JSON string.
pub const ANY_JSON: &str = concat!(
    r"(?:[^\x{0}-\x{1F}\x{22}\x{5C}]|\x{5C}(?:[\x{22}\x{5C}bfnrt]",
    r"|u00(?:0[0-7bBeEfF]|1[0-9a-fA-F])))"
);
/// Longest source that is read.
const LONGEST: usize = 32 << 10;
/// Most repetitions of one character by counts inside one another.
pub const MOST_COUNTED: u64 = 100_000;

/// A regular expression that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Hir);

impl Pattern {
    /// Reads an expression.
    ///
    /// # Errors
    /// What it uses that no automaton does: look-around, back-references, word boundaries.
    pub fn new(source: &str) -> Result<Pattern, String> {
        if source.len() > LONGEST {
            return Err(format!("it has {} bytes: at most {LONGEST} are read", source.len()));
        }
        let rust = Translator::new(source).run()?;
        let parsed = regex_syntax::ParserBuilder::new().nest_limit(100).build().parse(&rust);
        match parsed {
            Ok(hir) if counted(&hir) > MOST_COUNTED => Err(format!(
                "its counts multiply to more than {MOST_COUNTED}: use smaller ones, or * and +"
            )),
            Ok(hir) => Ok(Pattern(hir)),
            Err(regex_syntax::Error::Parse(e)) => Err(e.kind().to_string()),
            Err(regex_syntax::Error::Translate(e)) => Err(e.kind().to_string()),
            Err(_) => Err("it can't be read".to_owned()),
        }
    }

    /// An expression, in the syntax of Rust's `regex`, for whole texts: those that this one
    /// matches anywhere with `search`, else from start to end.
    ///
    /// # Errors
    /// For `^` or `$` where it could only sometimes match.
    pub fn whole(&self, spelling: Spelling, search: bool) -> Result<String, String> {
        let mut out = String::new();
        edges(&self.0, search, search, true, true, spelling, &mut out)?;
        Ok(out)
    }
}

/// How often the counts in an expression repeat a character at most, where they count.
fn counted(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Repetition(r) => {
            counted(&r.sub).saturating_mul(u64::from(r.max.unwrap_or(r.min)).max(1))
        }
        HirKind::Capture(group) => counted(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(counted).max().unwrap_or(1)
        }
        _ => 1,
    }
}

/// Writes `hir` with any text before it if `before`, and after it if `after`. `first` and `last`
/// tell whether it touches the ends of the whole text, where `^` and `$` may stand.
fn edges(
    hir: &Hir,
    before: bool,
    after: bool,
    first: bool,
    last: bool,
    spelling: Spelling,
    out: &mut String,
) -> Result<(), String> {
    match hir.kind() {
        _ if hir.properties().look_set().is_empty() => {
            any(before, spelling, out);
            print(hir, spelling, out);
            any(after, spelling, out);
        }
        HirKind::Capture(group) => {
            edges(&group.sub, before, after, first, last, spelling, out)?;
        }
        HirKind::Alternation(options) => {
            for (i, option) in options.iter().enumerate() {
                out.push_str(if i == 0 { "(?:" } else { "|" });
                edges(option, before, after, first, last, spelling, out)?;
            }
            out.push(')');
        }
        HirKind::Look(Look::Start) if first => any(after, spelling, out),
        HirKind::Look(Look::End) if last => any(before, spelling, out),
        HirKind::Concat(parts) => {
            let is = |h: &Hir, look| matches!(h.kind(), HirKind::Look(l) if *l == look);
            let starts = parts.iter().take_while(|h| first && is(h, Look::Start)).count();
            let rest = &parts[starts..];
            let ends = rest.iter().rev().take_while(|h| last && is(h, Look::End)).count();
            let rest = &rest[..rest.len() - ends];
            let (before, after) = (before && starts == 0, after && ends == 0);
            if rest.is_empty() {
                any(before || after, spelling, out);
            }
            for (i, part) in rest.iter().enumerate() {
                let (f, l) = (i == 0, i + 1 == rest.len());
                let (f_edge, l_edge) = (f && starts == 0 && first, l && ends == 0 && last);
                edges(part, before && f, after && l, f_edge, l_edge, spelling, out)?;
            }
        }
        _ => {
            return Err("it has ^ or $ (or a look-around) inside: \
                        they are supported at its ends only"
                .to_owned());
        }
    }
    Ok(())
}

fn any(wanted: bool, spelling: Spelling, out: &mut String) {
    if wanted {
        out.push_str(if spelling == Spelling::Json { ANY_JSON } else { ANY });
        out.push('*');
    }
}

/// Writes an expression that looks at nothing but its own text.
fn print(hir: &Hir, spelling: Spelling, out: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => out.push_str("(?:)"),
        HirKind::Literal(l) => {
            for c in String::from_utf8_lossy(&l.0).chars() {
                class(&[(c, c)], spelling, out);
            }
        }
        HirKind::Class(Class::Unicode(set)) => {
            let ranges: Vec<_> = set.ranges().iter().map(|r| (r.start(), r.end())).collect();
            class(&ranges, spelling, out);
        }
        HirKind::Class(Class::Bytes(set)) => {
            let ranges = set.ranges().iter();
            let ranges: Vec<_> = ranges.map(|r| (r.start() as char, r.end() as char)).collect();
            class(&ranges, spelling, out);
        }
        HirKind::Repetition(r) => {
            out.push_str("(?:");
            print(&r.sub, spelling, out);
            let _ = match r.max {
                Some(max) => write!(out, "){{{},{max}}}", r.min),
                None => write!(out, "){{{},}}", r.min),
            };
        }
        HirKind::Capture(group) => print(&group.sub, spelling, out),
        HirKind::Concat(parts) => parts.iter().for_each(|p| print(p, spelling, out)),
        HirKind::Alternation(options) => {
            for (i, option) in options.iter().enumerate() {
                out.push_str(if i == 0 { "(?:" } else { "|" });
                print(option, spelling, out);
            }
            out.push(')');
        }
    }
}

/// Writes one character of a set.
fn class(ranges: &[(char, char)], spelling: Spelling, out: &mut String) {
    let mut set = String::new();
    let mut escaped = Vec::new();
    for &(from, to) in ranges {
        let (mut from, to) = (u32::from(from), u32::from(to));
        while spelling == Spelling::Json && from <= to && from <= 0x5C {
            match from {
                0..=0x1F | 0x22 | 0x5C => escaped.push(escape(from)),
                _ => {
                    let stop = if from < 0x22 { 0x21 } else { 0x5B };
                    let _ = write!(set, r"\x{{{from:X}}}-\x{{{:X}}}", to.min(stop));
                    from = to.min(stop);
                }
            }
            from += 1;
        }
        if from <= to {
            let _ = write!(set, r"\x{{{from:X}}}-\x{{{to:X}}}");
        }
    }
    if set.is_empty() && escaped.is_empty() {
        return out.push_str(r"[^\x{0}-\x{10FFFF}]");
    }
    if !set.is_empty() {
        escaped.insert(0, format!("[{set}]"));
    }
    match &escaped[..] {
        [one] => out.push_str(one),
        many => {
            let _ = write!(out, "(?:{})", many.join("|"));
        }
    }
}

/// The spelling of a character that JSON strings escape.
fn escape(c: u32) -> String {
    let short = match c {
        0x08 => 'b',
        0x09 => 't',
        0x0A => 'n',
        0x0C => 'f',
        0x0D => 'r',
        0x22 => return r"\x{5C}\x{22}".to_owned(),
        0x5C => return r"\x{5C}\x{5C}".to_owned(),
        _ => {
            let (high, low) = (c >> 4, c & 15);
            let (lower, upper) = (format!("{low:x}"), format!("{low:X}"));
            return format!(r"\x{{5C}}u00{high}[{lower}{upper}]");
        }
    };
    format!(r"\x{{5C}}{short}")
}
