//! ECMAScript's regular expressions in the syntax of `regex-syntax`.
use crate::pattern::ANY;
use std::fmt::Write;

const SPACE: &str = concat!(
    r"\x{9}-\x{D}\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}",
    r"\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}"
);

const WORD: &str = "0-9A-Za-z_";
const DIGIT: &str = "0-9";
/// ECMAScript's syntax into that of `regex-syntax`.
pub struct Translator {
    source: Vec<char>,
    at: usize,
    out: String,
}

impl Translator {
    /// Of a source.
    pub fn new(source: &str) -> Translator {
        Translator { source: source.chars().collect(), at: 0, out: String::new() }
    }
    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.at + ahead).copied()
    }
    /// The same expression.
    ///
    /// # Errors
    /// What it uses that is not supported.
    pub fn run(mut self) -> Result<String, String> {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\\' => self.escape(false)?,
                '.' => self.out.push_str(r"[^\n\r\x{2028}\x{2029}]"),
                '(' => self.group()?,
                '[' => self.class()?,
                '{' => self.count()?,
                '^' | '$' | '|' | ')' | '*' | '+' | '?' => self.out.push(c),
                _ => self.literal(c),
            }
        }
        Ok(self.out)
    }
    fn literal(&mut self, c: char) {
        let _ = write!(self.out, r"\x{{{:X}}}", u32::from(c));
    }
    fn group(&mut self) -> Result<(), String> {
        self.out.push_str("(?:");
        if self.peek(0) != Some('?') {
            return Ok(());
        }
        match (self.peek(1), self.peek(2)) {
            (Some(':'), _) => self.at += 2,
            (Some('=' | '!'), _) => return Err("look-ahead is not supported".to_owned()),
            (Some('<'), Some('=' | '!')) => return Err("look-behind is not supported".to_owned()),
            (Some('<'), _) => {
                while self.peek(0).is_some_and(|c| c != '>') {
                    self.at += 1;
                }
                self.at += 1;
            }
            _ => return Err("(? must be followed by : or <name>".to_owned()),
        }
        Ok(())
    }
    fn count(&mut self) -> Result<(), String> {
        let rest: String = self.source[self.at..].iter().take_while(|c| **c != '}').collect();
        let bad =
            || format!("{{{rest} is no count: {{n}}, {{n,}} or {{n,m}} are; write \\{{ for {{");
        if self.source.get(self.at + rest.chars().count()) != Some(&'}') {
            return Err(bad());
        }
        let number =
            |s: &str| s.parse::<u32>().ok().filter(|_| !s.starts_with('+')).ok_or_else(bad);
        let (min, max) = match rest.split_once(',') {
            None => (number(&rest)?, Some(number(&rest)?)),
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        if max.is_some_and(|max| max < min) {
            return Err(format!("{{{rest}}} counts down: the first number is the least"));
        }
        self.at += rest.chars().count() + 1;
        let _ = match max {
            Some(max) => write!(self.out, "{{{min},{max}}}"),
            None => write!(self.out, "{{{min},}}"),
        };
        Ok(())
    }
    fn class(&mut self) -> Result<(), String> {
        let negated = self.peek(0) == Some('^');
        self.at += usize::from(negated);
        if self.peek(0) == Some(']') {
            self.at += 1;
            self.out.push_str(if negated { ANY } else { r"[^\x{0}-\x{10FFFF}]" });
            return Ok(());
        }
        self.out.push_str(if negated { "[^" } else { "[" });
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '-' => {
                    // Between two ends a range, else itself.
                    let open = self.out.ends_with('[') || self.out.ends_with("[^");
                    let after_set = self.out.ends_with(']');
                    if open || after_set || self.peek(0) == Some(']') {
                        self.literal('-');
                    } else {
                        self.out.push('-');
                    }
                }
                _ => self.literal(c),
            }
        }
        Err("a [ is never closed".to_owned())
    }
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(c) = self.peek(0) else { return Err("it ends with a backslash".to_owned()) };
        self.at += 1;
        let set = match c {
            'd' | 'D' => DIGIT,
            'w' | 'W' => WORD,
            's' | 'S' => SPACE,
            _ => "",
        };
        if !set.is_empty() {
            let not = if c.is_ascii_uppercase() { "^" } else { "" };
            let _ = write!(self.out, "[{not}{set}]");
            return Ok(());
        }
        let plain = match c {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'b' if in_class => '\u{8}',
            'b' | 'B' => return Err("word boundaries (\\b) are not supported".to_owned()),
            '0' if !self.peek(0).is_some_and(|c| c.is_ascii_digit()) => '\0',
            '0'..='9' | 'k' => return Err("back-references are not supported".to_owned()),
            'c' => self.control()?,
            'x' => self.hex(2)?,
            'u' => self.unicode()?,
            'p' | 'P' => return self.property(c),
            c if c.is_ascii_alphanumeric() => return Err(format!("\\{c} is no known escape")),
            c => c,
        };
        self.literal(plain);
        Ok(())
    }
    fn control(&mut self) -> Result<char, String> {
        let Some(c) = self.peek(0).filter(char::is_ascii_alphabetic) else {
            return Err("\\c must be followed by a letter".to_owned());
        };
        self.at += 1;
        Ok(char::from(c as u8 & 31))
    }
    fn digits(&mut self, n: usize) -> Result<u32, String> {
        let text: String = self.source[self.at..].iter().take(n).collect();
        let hex = text.chars().count() == n && text.chars().all(|c| c.is_ascii_hexdigit());
        let value = u32::from_str_radix(&text, 16).ok().filter(|_| hex);
        self.at += n;
        value.ok_or_else(|| format!("\\{n} hexadecimal digits expected, found {text:?}"))
    }
    fn hex(&mut self, n: usize) -> Result<char, String> {
        let value = self.digits(n)?;
        char::from_u32(value).ok_or_else(|| format!("U+{value:04X} is no character"))
    }
    fn unicode(&mut self) -> Result<char, String> {
        if self.peek(0) == Some('{') {
            let n = self.source[self.at..].iter().take_while(|c| **c != '}').count() - 1;
            self.at += 1;
            let c = self.hex(n)?;
            self.at += 1;
            return Ok(c);
        }
        let high = self.digits(4)?;
        if !(0xD800..0xDC00).contains(&high) {
            return char::from_u32(high).ok_or_else(|| format!("U+{high:04X} is no character"));
        }
        let low = if self.peek(0) == Some('\\') && self.peek(1) == Some('u') {
            self.at += 2;
            self.digits(4)?
        } else {
            0
        };
        let pair = 0x10000 + ((high - 0xD800) << 10) + low.wrapping_sub(0xDC00);
        let c = (0xDC00..0xE000).contains(&low).then(|| char::from_u32(pair)).flatten();
        c.ok_or_else(|| format!("\\u{high:X} is half a character"))
    }
    fn property(&mut self, c: char) -> Result<(), String> {
        let name: String = self.source[self.at..].iter().take_while(|c| **c != '}').collect();
        let Some(inner) = name.strip_prefix('{') else {
            return Err(format!("\\{c} must be followed by {{name}}"));
        };
        let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '=';
        if !inner.chars().all(known) {
            return Err(format!("\\{c}{name}}} is no known property"));
        }
        self.at += name.chars().count() + 1;
        let _ = write!(self.out, r"[\{c}{{{inner}}}]");
        Ok(())
    }
}
