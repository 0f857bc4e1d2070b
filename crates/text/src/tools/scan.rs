//! JSON as it comes, character by character: where a value ends, and that it is one (RFC 8259).

/// Values inside one another; more is no call's arguments.
const MAX_DEPTH: usize = 128;

/// Reads one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Open objects and lists.
    open: Vec<Kind>,
    place: Place,
    /// A number or word so far.
    word: String,
    /// What a string expects.
    escape: Escape,
    /// Whether the string is an object's key.
    key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    List,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Value,
    /// After `{`.
    FirstKey,
    Key,
    Colon,
    /// After `[`.
    FirstItem,
    /// After a value inside another.
    Next,
    String,
    Word,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After a backslash; whether half of a pair came before.
    Slash(bool),
    /// Digits to come, their value so far, and whether half of a pair came before.
    Digits(u8, u32, bool),
    /// After the first half of a pair.
    Half,
}

/// What a character did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The value goes on.
    More,
    /// The value ends with this character.
    Done,
    /// The value ended before this character.
    Before,
    /// This is no JSON.
    Wrong,
}

impl Scan {
    /// Takes the next character of the value and of white space before it.
    pub fn push(&mut self, c: char) -> Step {
        match self.place {
            Place::String => self.string(c),
            Place::Word => self.word(c),
            _ if matches!(c, ' ' | '\t' | '\n' | '\r') => Step::More,
            Place::Value => self.value(c),
            Place::FirstItem if c == ']' => self.close(Kind::List),
            Place::FirstItem => self.value(c),
            Place::FirstKey if c == '}' => self.close(Kind::Object),
            Place::FirstKey | Place::Key => match c {
                '"' => self.enter(Place::String, true),
                _ => Step::Wrong,
            },
            Place::Colon => match c {
                ':' => self.enter(Place::Value, false),
                _ => Step::Wrong,
            },
            Place::Next => self.next(c),
        }
    }
    fn enter(&mut self, place: Place, key: bool) -> Step {
        (self.place, self.key) = (place, key);
        Step::More
    }
    fn value(&mut self, c: char) -> Step {
        let (kind, place) = match c {
            '{' => (Kind::Object, Place::FirstKey),
            '[' => (Kind::List, Place::FirstItem),
            '"' => return self.enter(Place::String, false),
            '-' | '0'..='9' | 't' | 'f' | 'n' => {
                self.word = c.into();
                return self.enter(Place::Word, false);
            }
            _ => return Step::Wrong,
        };
        if self.open.len() == MAX_DEPTH {
            return Step::Wrong;
        }
        self.open.push(kind);
        self.enter(place, false)
    }
    fn next(&mut self, c: char) -> Step {
        match (c, self.open.last()) {
            (',', Some(Kind::Object)) => self.enter(Place::Key, false),
            (',', Some(Kind::List)) => self.enter(Place::Value, false),
            ('}', Some(Kind::Object)) => self.close(Kind::Object),
            (']', Some(Kind::List)) => self.close(Kind::List),
            _ => Step::Wrong,
        }
    }
    fn close(&mut self, kind: Kind) -> Step {
        debug_assert_eq!(self.open.last(), Some(&kind));
        self.open.pop();
        self.ended()
    }
    fn ended(&mut self) -> Step {
        self.place = Place::Next;
        if self.open.is_empty() { Step::Done } else { Step::More }
    }
    fn word(&mut self, c: char) -> Step {
        if c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.') {
            self.word.push(c);
            return Step::More;
        }
        if !is_word(&self.word) {
            return Step::Wrong;
        }
        self.place = Place::Next;
        if self.open.is_empty() { Step::Before } else { self.push(c) }
    }
    fn string(&mut self, c: char) -> Step {
        let (escape, half) = match self.escape {
            Escape::Half if c != '\\' => return Step::Wrong,
            Escape::None | Escape::Half => (None, self.escape == Escape::Half),
            Escape::Slash(half) => (Some(None), half),
            Escape::Digits(left, value, half) => (Some(Some((left, value))), half),
        };
        self.escape = match (escape, c) {
            (None, '\\') => Escape::Slash(half),
            (None, '"') if self.key => return self.enter(Place::Colon, false),
            (None, '"') => return self.ended(),
            (None, c) if c < ' ' => return Step::Wrong,
            (None, _) => Escape::None,
            (Some(None), 'u') => Escape::Digits(4, 0, half),
            (Some(None), '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') if !half => Escape::None,
            (Some(None), _) => return Step::Wrong,
            (Some(Some((left, value))), c) => {
                let Some(digit) = c.to_digit(16) else { return Step::Wrong };
                match (left, value * 16 + digit) {
                    (1, 0xDC00..=0xDFFF) if half => Escape::None,
                    (1, 0xD800..=0xDBFF) if !half => Escape::Half,
                    (1, 0xDC00..=0xDFFF) => return Step::Wrong,
                    (1, _) if half => return Step::Wrong,
                    (1, _) => Escape::None,
                    (left, value) => Escape::Digits(left - 1, value, half),
                }
            }
        };
        Step::More
    }
}

fn is_word(word: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// How many bytes of a text are a value.
    fn read(text: &str) -> Option<usize> {
        let mut scan = Scan::default();
        // A number or a word ends before what follows.
        for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
            match scan.push(c) {
                Step::More => {}
                Step::Done => return Some(at + c.len_utf8()),
                Step::Before => return Some(at),
                Step::Wrong => return None,
            }
        }
        None
    }

    #[test]
    fn ends_values_where_they_end() {
        let values = [
            "{}",
            "[]",
            r#""a""#,
            "1",
            "-1.5e+3",
            "true",
            "null",
            r#"{"a": [1, {"b": "]}\""}], "c": {}}"#,
            r#"["\ud83d\ude00", "\u00e9\\\/\b\f\n\r\t", "é😀"]"#,
            " \n[ 1 ,\t2 ] ",
        ];
        for value in values {
            let end = value.trim_end().len();
            assert_eq!(read(value), Some(end), "{value}");
            assert_eq!(read(&format!("{value},x")).map(|n| n.min(end)), Some(end), "{value}");
        }
    }

    #[test]
    fn accepts_what_a_parser_does() {
        let wrong = [
            "{",
            "[1,]",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{a:1}",
            "'a'",
            "01",
            "1.",
            "-",
            "tru",
            "nul",
            "[1 2]",
            "]",
            "}",
            r#"{"a":1]"#,
            r#"["\ud83d"]"#,
            r#"["\ude00"]"#,
            r#"["\x"]"#,
            r#"["\u12g4"]"#,
            "[\"\n\"]",
            r#"["\ud83d\n"]"#,
            r#"["\ud83dx"]"#,
            "NaN",
            "[+1]",
            "",
        ];
        for text in wrong {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&"[".repeat(200)), None);
    }
}
