//! The texts in the program's sources.
use std::path::{Path, PathBuf};

/// All sources of what is shipped, without their unit tests.
pub fn sources(root: &Path) -> Vec<String> {
    let crates = ["engine", "formats", "grammar", "kernels", "server", "terminal", "text"];
    let mut folders: Vec<PathBuf> =
        crates.iter().map(|name| root.join("crates").join(name).join("src")).collect();
    folders.push(root.join("src"));
    let mut all = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                all.push(text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned());
            }
        }
    }
    assert!(all.len() > 200);
    all
}

/// The string literals of a source, as they are at run time; what is formatted into them is `…`.
pub fn of(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text: Vec<char> = lines.flat_map(|line| line.chars().chain(['\n'])).collect();
    let (mut all, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match text[at] {
            // A character, which may be a quote; a lifetime has no end.
            '\'' if text.get(at + 1) == Some(&'\\') => at += 4,
            '\'' if text.get(at + 2) == Some(&'\'') => at += 3,
            '"' => {
                let (literal, end) = literal(&text, at + 1);
                all.push(literal);
                at = end;
            }
            _ => at += 1,
        }
    }
    all
}

/// The literal that begins here, and where it has ended.
fn literal(text: &[char], mut at: usize) -> (String, usize) {
    let (mut out, mut depth) = (String::new(), 0);
    while at < text.len() && text[at] != '"' {
        match (text[at], text.get(at + 1)) {
            ('\\', Some('\n')) => {
                at += 2;
                while text.get(at).is_some_and(|c| c.is_whitespace()) {
                    at += 1;
                }
                continue;
            }
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some(escaped)) => out.push(*escaped),
            ('{', Some('{')) | ('}', Some('}')) => out.push(text[at]),
            ('{', _) => {
                out.push('…');
                (depth, at) = (depth + 1, at + 1);
                continue;
            }
            ('}', _) => {
                (depth, at) = (0, at + 1);
                continue;
            }
            (c, _) => {
                if depth == 0 {
                    out.push(c);
                }
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    (out, at + 1)
}

/// What the variants of a source's error types say, where that is more than what is put into it.
pub fn errors(source: &str) -> impl Iterator<Item = String> {
    let attributes =
        source.split("#[error(").skip(1).filter(|rest| !rest.starts_with("transparent"));
    let said = |rest: &str| of(rest.split_once("\")]").map_or(rest, |_| rest)).into_iter().next();
    let fixed =
        |literal: &String| literal.replace('…', "").chars().filter(|c| c.is_alphanumeric()).count();
    attributes.filter_map(said).filter(move |literal| fixed(literal) > 11)
}

/// What programs tell a refusal by.
pub fn codes(source: &str) -> impl Iterator<Item = &str> {
    source.split("code(\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(code, _)| code)
}
