//! The looks of code: comments, texts, numbers and the words that most languages reserve.
use crate::style::{Color, Spans, Style};

/// Code of a language, character by character.
#[derive(Debug)]
pub struct Code {
    language: Option<&'static Language>,
    /// A word that goes on, or what may begin a comment.
    held: String,
    place: Place,
    /// What came before.
    last: char,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Code,
    Comment,
    /// In quotes; and whether the next character is only that.
    Text(char, bool),
}

#[derive(Debug)]
struct Language {
    names: &'static [&'static str],
    comment: &'static str,
    quotes: &'static [char],
}

const LANGUAGES: [Language; 4] = [
    Language {
        names: &[
            "bash",
            "dockerfile",
            "elixir",
            "make",
            "makefile",
            "nix",
            "perl",
            "powershell",
            "ps1",
            "py",
            "python",
            "r",
            "rb",
            "ruby",
            "sh",
            "shell",
            "toml",
            "yaml",
            "yml",
            "zsh",
        ],
        comment: "#",
        quotes: &['"', '\''],
    },
    Language {
        names: &[
            "c",
            "c++",
            "cpp",
            "cs",
            "csharp",
            "dart",
            "go",
            "h",
            "java",
            "javascript",
            "js",
            "json",
            "jsonc",
            "jsx",
            "kotlin",
            "kt",
            "php",
            "scala",
            "swift",
            "ts",
            "tsx",
            "typescript",
            "zig",
        ],
        comment: "//",
        quotes: &['"', '\'', '`'],
    },
    // A single quote begins a lifetime as well.
    Language { names: &["rs", "rust"], comment: "//", quotes: &['"'] },
    Language {
        names: &["elm", "haskell", "hs", "lua", "sql"],
        comment: "--",
        quotes: &['"', '\''],
    },
];

/// In alphabetical order.
const WORDS: [&str; 82] = [
    "AND",
    "AS",
    "BY",
    "CREATE",
    "DELETE",
    "FROM",
    "False",
    "GROUP",
    "INSERT",
    "INTO",
    "JOIN",
    "NOT",
    "NULL",
    "None",
    "ON",
    "OR",
    "ORDER",
    "SELECT",
    "SET",
    "TABLE",
    "True",
    "UPDATE",
    "VALUES",
    "WHERE",
    "and",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "def",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "enum",
    "except",
    "export",
    "false",
    "fi",
    "finally",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "in",
    "interface",
    "is",
    "let",
    "local",
    "loop",
    "match",
    "mut",
    "new",
    "nil",
    "not",
    "null",
    "or",
    "pass",
    "pub",
    "public",
    "raise",
    "return",
    "static",
    "struct",
    "switch",
    "then",
    "throw",
    "true",
    "try",
    "use",
    "var",
    "while",
];

impl Code {
    /// `name` is what follows the fence; in an unknown language everything is plain.
    pub fn new(name: &str) -> Code {
        let name = name.split([' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
        let language = LANGUAGES.iter().find(|language| language.names.contains(&&*name));
        Code { language, held: String::new(), place: Place::Code, last: '\n' }
    }

    pub fn push(&mut self, c: char, out: &mut Spans) {
        let Some(language) = self.language else {
            return out.push(PLAIN, c.encode_utf8(&mut [0; 4]));
        };
        match self.place {
            Place::Code => self.code(language, c, out),
            Place::Comment => self.one(Style::DIM, c, out),
            Place::Text(quote, escaped) => {
                self.one(TEXT, c, out);
                self.place = match c {
                    _ if escaped => Place::Text(quote, false),
                    '\\' => Place::Text(quote, true),
                    c if c == quote => Place::Code,
                    _ => self.place,
                };
            }
        }
        if c == '\n' {
            self.place = Place::Code;
        }
    }

    fn code(&mut self, language: &Language, c: char, out: &mut Spans) {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let goes_on = match self.held.chars().next() {
            Some(first) if word(first) => word(c) && self.held.len() < LONGEST,
            Some(_) => language.comment.starts_with(&self.held) && language.comment.contains(c),
            None => false,
        };
        if !goes_on {
            self.flush(out);
        }
        // `#` within a word, and in `$#`, is no comment.
        let apart = language.comment.len() > 1 || self.last.is_whitespace();
        if word(c) {
            self.held.push(c);
        } else if language.comment.starts_with(c) && apart {
            self.held.push(c);
            if self.held == language.comment {
                self.place = Place::Comment;
                out.push(Style::DIM, &std::mem::take(&mut self.held));
            }
        } else if language.quotes.contains(&c) {
            self.place = Place::Text(c, false);
            self.one(TEXT, c, out);
        } else {
            self.one(PLAIN, c, out);
        }
        self.last = c;
    }

    fn one(&mut self, style: Style, c: char, out: &mut Spans) {
        self.last = c;
        out.push(style, c.encode_utf8(&mut [0; 4]));
    }

    /// What is held back is complete.
    pub fn flush(&mut self, out: &mut Spans) {
        let held = std::mem::take(&mut self.held);
        let style = if WORDS.binary_search(&&*held).is_ok() {
            WORD
        } else if held.starts_with(|c: char| c.is_ascii_digit()) {
            NUMBER
        } else {
            PLAIN
        };
        out.push(style, &held);
    }
}

const LONGEST: usize = 64;
const PLAIN: Style = Style::PLAIN;
const WORD: Style = Style::colored(Color::Magenta);
const TEXT: Style = Style::colored(Color::Green);
const NUMBER: Style = Style::colored(Color::Yellow);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks() {
        let check = |name: &str, code: &str, expect: &[(Style, &str)]| {
            let (mut spans, mut state) = (Spans::default(), Code::new(name));
            code.chars().for_each(|c| state.push(c, &mut spans));
            state.flush(&mut spans);
            let found: Vec<(Style, &str)> = spans.list().iter().map(|(s, t)| (*s, &**t)).collect();
            assert_eq!(found, expect, "{code}");
        };
        assert!(WORDS.is_sorted());
        check(
            "python",
            "if x: # if 1\n",
            &[(WORD, "if"), (PLAIN, " x: "), (Style::DIM, "# if 1\n")],
        );
        check(
            "rust",
            "let a = \"\\\"//\"; 10/2 // x",
            &[
                (WORD, "let"),
                (PLAIN, " a = "),
                (TEXT, "\"\\\"//\""),
                (PLAIN, "; "),
                (NUMBER, "10"),
                (PLAIN, "/"),
                (NUMBER, "2"),
                (PLAIN, " "),
                (Style::DIM, "// x"),
            ],
        );
        check("rust", "&'a str\nif", &[(PLAIN, "&'a str\n"), (WORD, "if")]);
        check("sh", "echo $# 'a\nif", &[(PLAIN, "echo $# "), (TEXT, "'a\n"), (WORD, "if")]);
        check("sql", "a-b --c", &[(PLAIN, "a-b "), (Style::DIM, "--c")]);
        check("", "if 1 // \"x\"", &[(PLAIN, "if 1 // \"x\"")]);
    }
}
