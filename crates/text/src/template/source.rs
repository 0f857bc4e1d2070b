//! What Hugging Face's Jinja does and the engine does not, written in terms of what it does.
//!
//! `{% generation %}` marks the assistant's part for training and prints nothing. A loop over
//! nothing (`None`) is an error there. And a string marked `|safe` escapes what is added to it,
//! which one generation of templates relies on.
//!
//! The engine bounds steps and recursion, but neither how long one expression is nor how deep a
//! value may grow by assignments: both are bounded here, as both end in its own recursion.
use super::lists;
use std::ops::Range;

/// The filter that a loop's operand passes through.
pub(super) const EACH: &str = "__each";
/// The filter that what a variable is set to passes through.
pub(super) const STORE: &str = "__store";
/// The same for an attribute.
pub(super) const STORE_IN: &str = "__store_in";
/// The filter that escapes what is added to a `|safe` string.
pub(super) const ESCAPE: &str = "__escape";

/// No template has this many words and operators in one tag, or `elif`s in all.
const MAX_TOKENS: usize = 1000;
const MAX_ELIFS: usize = 200;

/// Rewrites a template's tags; its text and line numbers stay. An error is a line and a reason.
pub(super) fn adapt(source: &str) -> Result<String, (usize, String)> {
    let mut out = String::with_capacity(source.len() + 256);
    let mut elifs = 0;
    for piece in pieces(source) {
        let Piece::Tag(tag) = piece else {
            out.push_str(piece.text());
            continue;
        };
        let line = || out.matches('\n').count() + 1;
        elifs += usize::from(keyword(tag) == Some("elif"));
        if elifs > MAX_ELIFS {
            return Err((line(), format!("more than {MAX_ELIFS} elif")));
        }
        if tokens(tag).count() > MAX_TOKENS {
            return Err((line(), format!("more than {MAX_TOKENS} words and operators in one tag")));
        }
        match tag.starts_with("{{") {
            true => out.push_str(&escape_sums(tag)),
            false => match lists::changed(parts(tag).0, parts(tag).1, parts(tag).2) {
                Some(tags) => pieces(&tags).iter().for_each(|piece| match piece {
                    Piece::Tag(tag) => out.push_str(&adapt_block(tag)),
                    Piece::Text(text) => out.push_str(text),
                }),
                None => out.push_str(&adapt_block(tag)),
            },
        }
    }
    Ok(out)
}

/// The string literals that the template searches messages for: compared, split by, looked for.
pub(super) fn searched(source: &str) -> Vec<String> {
    const SEARCHES: [&str; 9] = [
        "split",
        "rsplit",
        "partition",
        "startswith",
        "endswith",
        "replace",
        "find",
        "rfind",
        "count",
    ];
    let mut found = Vec::new();
    for piece in pieces(source) {
        let Piece::Tag(tag) = piece else { continue };
        for literal in literals(tag) {
            let before = tag[..literal.start].trim_end();
            let after = tag[literal.end..].trim_start();
            let argument = before
                .strip_suffix('(')
                .is_some_and(|call| SEARCHES.iter().any(|name| call.trim_end().ends_with(name)));
            let compared = before.ends_with("==") || before.ends_with("!=");
            let looked_for = ["in ", "not in "].iter().any(|op| after.starts_with(op));
            if argument || compared || looked_for {
                found.push(tag[literal.start + 1..literal.end - 1].to_owned());
            }
        }
    }
    found
}

/// Whether the template asks if a message's content is `none`.
pub(super) fn tests_content(source: &str) -> bool {
    let words: Vec<&str> = source.split(|c| !is_word(c)).filter(|w| !w.is_empty()).collect();
    let none = |word: Option<&&str>| word.is_some_and(|w| w.eq_ignore_ascii_case("none"));
    words.windows(2).enumerate().any(|(i, pair)| {
        let not = usize::from(words.get(i + 2) == Some(&"not"));
        pair == ["content", "is"] && none(words.get(i + 2 + not))
    })
}

/// Whether a template has this word, in a tag or in its text.
pub(super) fn has_word(source: &str, word: &str) -> bool {
    source.split(|c| !is_word(c)).any(|other| other == word)
}

enum Piece<'a> {
    /// Text, comments and raw blocks.
    Text(&'a str),
    /// `{{ … }}` or `{% … %}`.
    Tag(&'a str),
}

impl<'a> Piece<'a> {
    fn text(&self) -> &'a str {
        match self {
            Piece::Text(text) | Piece::Tag(text) => text,
        }
    }
}

fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = source;
    while let Some(at) = next_tag(rest) {
        let (text, from) = rest.split_at(at);
        pieces.push(Piece::Text(text));
        let end = if from.starts_with("{#") {
            from.find("#}").map_or(from.len(), |i| i + 2)
        } else {
            tag_end(from)
        };
        let (tag, after) = from.split_at(end);
        rest = after;
        if from.starts_with("{#") {
            pieces.push(Piece::Text(tag));
        } else if keyword(tag) == Some("raw") {
            let end = end_of_raw(after);
            pieces.extend([Piece::Text(tag), Piece::Text(&after[..end])]);
            rest = &after[end..];
        } else {
            pieces.push(Piece::Tag(tag));
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn next_tag(text: &str) -> Option<usize> {
    let mut braces = text.match_indices('{').map(|(at, _)| at);
    braces.find(|at| text[at + 1..].starts_with(['{', '%', '#']))
}

fn end_of_raw(text: &str) -> usize {
    let mut at = 0;
    while let Some(i) = text[at..].find("{%") {
        at += i;
        if keyword(&text[at..]) == Some("endraw") {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// The first word of a `{% … %}` tag.
fn keyword(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix("{%")?.trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !is_word(c)).unwrap_or(inner.len());
    Some(&inner[..end])
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the tag that `text` starts with ends: its closing brace outside strings and brackets.
fn tag_end(text: &str) -> usize {
    let close = if text.starts_with("{{") { "}}" } else { "%}" };
    let mut depth = 0usize;
    let mut at = 2;
    while let Some(c) = text[at..].chars().next() {
        if depth == 0 && text[at..].starts_with(close) {
            return at + 2;
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\'' | '"' => {
                at = literal_end(text, at);
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    text.len()
}

/// Where the string literal that starts at `from` ends, its quotes included.
fn literal_end(text: &str, from: usize) -> usize {
    let quote = text.as_bytes()[from];
    let mut escaped = false;
    for (i, b) in text.bytes().enumerate().skip(from + 1) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b if b == quote => return i + 1,
            _ => {}
        }
    }
    text.len()
}

fn literals(tag: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(i) = tag[at..].find(['\'', '"']) {
        let start = at + i;
        at = literal_end(tag, start);
        if at > start + 1 {
            found.push(start..at);
        }
    }
    found
}

/// A tag's words, operators and literals, each with its place and how many brackets it is in.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str, usize)> {
    let (mut at, mut depth) = (0, 0usize);
    std::iter::from_fn(move || {
        at += text[at..].find(|c: char| !c.is_whitespace())?;
        let c = text[at..].chars().next()?;
        let start = at;
        at = match c {
            '\'' | '"' => literal_end(text, at),
            c if is_word(c) => text[at..].find(|c| !is_word(c)).map_or(text.len(), |i| at + i),
            c => at + c.len_utf8(),
        };
        depth = depth.saturating_sub(usize::from(matches!(c, ')' | ']' | '}')));
        let token = (start, &text[start..at], depth);
        depth += usize::from(matches!(c, '(' | '[' | '{'));
        Some(token)
    })
}

/// A tag's words and operators outside strings and brackets, each with its place.
fn top_level(text: &str) -> Vec<(usize, &str)> {
    let outside = tokens(text).filter(|(_, t, depth)| {
        *depth == 0 && !t.starts_with(['\'', '"', '(', '[', '{', ')', ']', '}'])
    });
    outside.map(|(at, token, _)| (at, token)).collect()
}

/// A tag's opening, its content and its closing.
fn parts(tag: &str) -> (&str, &str, &str) {
    let start = 2 + usize::from(tag[2..].starts_with(['-', '+']));
    let mut end = tag.len().saturating_sub(2).max(start);
    if end > start && tag[..end].ends_with(['-', '+']) {
        end -= 1;
    }
    (&tag[..start], &tag[start..end], &tag[end..])
}

fn adapt_block(tag: &str) -> String {
    let (open, inner, close) = parts(tag);
    let through = |operand: Option<Range<usize>>, filter: &str| match operand {
        Some(at) => {
            let (before, operand, after) =
                (&inner[..at.start], inner[at.clone()].trim(), &inner[at.end..]);
            format!("{open}{before} ({operand})|{filter} {after}{close}")
        }
        None => tag.to_owned(),
    };
    match keyword(tag) {
        Some("generation" | "endgeneration") => {
            format!("{open}{}{close}", inner.replacen("generation", "with", 1))
        }
        Some("for") => through(loop_operand(inner), EACH),
        Some("set") => match assigned(inner) {
            Some(at) if inner[..at.start].contains('.') => through(Some(at), STORE_IN),
            at => through(at, STORE),
        },
        _ => tag.to_owned(),
    }
}

/// Where `set x = VALUE` has its value.
fn assigned(inner: &str) -> Option<Range<usize>> {
    let tokens = top_level(inner);
    let (at, _) = tokens.iter().find(|(_, token)| *token == "=")?;
    Some(at + 1..inner.len())
}

/// Where `for x in OPERAND if …` has its operand.
fn loop_operand(inner: &str) -> Option<Range<usize>> {
    let words = top_level(inner);
    let (i, &(at, _)) = words.iter().enumerate().find(|(_, (_, word))| *word == "in")?;
    let end = words[i + 1..]
        .iter()
        .find(|(_, word)| ["if", "recursive"].contains(word))
        .map_or(inner.len(), |(at, _)| *at);
    Some(at + 2..end)
}

/// `a|safe + b` with `b` escaped.
fn escape_sums(tag: &str) -> String {
    let (open, inner, close) = parts(tag);
    let tokens = top_level(inner);
    let simple = tokens.iter().all(|(_, t)| t.starts_with(is_word) || ["+", "|", "."].contains(t));
    let keyword = tokens.iter().any(|(_, t)| ["if", "in", "is", "and", "or", "not"].contains(t));
    if !simple || keyword || !tokens.iter().any(|(_, t)| *t == "safe") {
        return tag.to_owned();
    }
    let mut start = 0;
    let ends = tokens.iter().filter(|(_, t)| *t == "+").map(|(at, _)| *at).chain([inner.len()]);
    let terms: Vec<String> = ends
        .map(|end| {
            let term = inner[start..end].trim();
            start = end + 1;
            if term.ends_with("safe") { term.to_owned() } else { format!("({term})|{ESCAPE}") }
        })
        .collect();
    format!("{open} {} {close}", terms.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C2: Hugging Face's tag is none of Jinja's.
    #[test]
    fn tags_are_rewritten_and_text_is_not() {
        let cases = [
            ("{%- generation -%}a{% endgeneration %}", "{%- with -%}a{% endwith %}"),
            ("{% for a, b in x.items() if a %}", "{% for a, b in (x.items())|__each if a %}"),
            ("{% for c in 'in' %}", "{% for c in ('in')|__each %}"),
            ("{# {% for x in y %} #}", "{# {% for x in y %} #}"),
            ("{% raw %}{% for x in y %}{% endraw %}", "{% raw %}{% for x in y %}{% endraw %}"),
            ("{{ '%}' + \"{% generation %}\" }}", "{{ '%}' + \"{% generation %}\" }}"),
            (
                "{{ 'a'|safe + b + c|tojson() }}",
                "{{ 'a'|safe + (b)|__escape + (c|tojson())|__escape }}",
            ),
            ("{{ {'a': {'b': 1}} }} {{ 'x'", "{{ {'a': {'b': 1}} }} {{ 'x'"),
            ("{% set ns.a, b = [c == 1], '=' %}", "{% set ns.a, b = ([c == 1], '=')|__store_in %}"),
            ("{%set x='a' ~ b%}", "{%set x= ('a' ~ b)|__store %}"),
            ("{%- set x | f(a=1) -%}", "{%- set x | f(a=1) -%}"),
            ("{% if 'é' in x %}ü", "{% if 'é' in x %}ü"),
        ];
        for (source, want) in cases {
            assert_eq!(adapt(source).as_deref(), Ok(want));
        }
        assert!(adapt(&format!("a\n{{{{ 1{} }}}}", "+1".repeat(600))).is_err_and(|e| e.0 == 2));
        assert!(adapt(&"{% elif 1 %}".repeat(300)).is_err());
    }

    #[test]
    fn literals_that_are_searched_for() {
        let source = "{% if '</think>' in c %}{{ c.split('<a>')[0] + '<b>' }}{% if r == \"<c>\" %}";
        assert_eq!(searched(source), ["</think>", "<a>", "<c>"]);
    }

    #[test]
    fn content_that_may_be_none() {
        assert!(tests_content("{% if m['content'] is  not none %}"));
        assert!(tests_content("{% if m.content is None %}"));
        assert!(!tests_content("{% if m.content is string and x is none %}"));
    }
}
