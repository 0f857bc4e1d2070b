//! The repository's files, and Rust text without what is not code.
use anyhow::Context;
use std::path::{Path, PathBuf};

/// What is generated, or data.
const SKIPPED: [&str; 6] = [".git", "Cargo.lock", "target", "goldens", "corpus", "artifacts"];

/// A file of text.
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

impl File {
    /// Whether it is Rust that ships: no test, bench or example, nor a tool.
    pub fn is_product(&self) -> bool {
        let tool = ["xtask/", "fuzz/", "tests/", "tools/", "crates/testkit/"];
        self.is_rust()
            && !tool.iter().any(|folder| self.path.starts_with(folder))
            && !["/tests/", "/benches/", "/examples/"].iter().any(|f| self.path.contains(f))
    }
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
    /// The text before the unit tests at the file's bottom.
    pub fn before_tests(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default()
    }
}

/// Every file of text in the repository that is not generated, sorted by path.
///
/// # Errors
/// If a folder can't be read.
pub fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let relative = relative(root, &path);
            let name = relative.rsplit('/').next().unwrap_or_default();
            if SKIPPED.contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                files.push(File { path: relative, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn relative(root: &Path, path: &Path) -> String {
    let path: PathBuf = path.strip_prefix(root).unwrap_or(path).into();
    path.to_string_lossy().replace('\\', "/")
}

/// A line of Rust without its strings and its comment. Strings over several lines are not seen;
/// code that looks like code in them counts as code.
pub fn code(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => break,
            '"' => {
                out.push('"');
                while let Some(c) = chars.next() {
                    match c {
                        '\\' => _ = chars.next(),
                        '"' => break,
                        _ => {}
                    }
                }
                out.push('"');
            }
            // A character that would open a string, or an escaped one.
            '\'' if chars.clone().nth(1) == Some('\'') => {
                chars.nth(1);
                out.push_str("' '");
            }
            c => out.push(c),
        }
    }
    out
}

/// The words of a line of code.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_strings_and_comments() {
        assert_eq!(code("let a = \"un\\\"safe\"; // unsafe"), "let a = \"\"; ");
        assert_eq!(code("x('\"', unsafe {})"), "x(' ', unsafe {})");
        assert_eq!(code("/// unsafe"), "");
    }
}
