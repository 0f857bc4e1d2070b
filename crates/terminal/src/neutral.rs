//! Text that can't drive a terminal: whatever a model says, no escape sequence of it arrives.

/// Control characters of a stream of text made visible. Line breaks and tabs stay as they are.
#[derive(Debug, Default)]
pub struct Neutral {
    /// A carriage return came last: before a line break it is part of that.
    returned: bool,
}

impl Neutral {
    /// What of the next piece is shown.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if std::mem::take(&mut self.returned) && c != '\n' {
                out.push('␍');
            }
            match c {
                '\r' => self.returned = true,
                c => out.push(visible(c)),
            }
        }
        out
    }
    /// What was held back.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.returned) { "␍" } else { "" }
    }
}

/// All of a text, as [`Neutral`] shows it.
pub fn neutral(text: &str) -> String {
    let mut stream = Neutral::default();
    let mut out = stream.push(text);
    out += stream.finish();
    out
}

/// A character that a terminal only shows: a picture of a control character, and a mark in the place of
/// those of ISO 6429's second set, and of those that turn the order of what follows.
fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{FFFD}'),
        '\x7f' => '␡',
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{FFFD}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_drives_a_terminal() {
        let check = |text: &str, expect: &str| {
            assert_eq!(neutral(text), expect);
            // However it is cut.
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let mut stream = Neutral::default();
                let cut = stream.push(&text[..at]) + &stream.push(&text[at..]) + stream.finish();
                assert_eq!(cut, expect, "cut at {at}");
            }
        };
        check("a\tb\nc", "a\tb\nc");
        check("\x1b[31mred\x1b]0;title\x07", "␛[31mred␛]0;title␇");
        check("\x1b]52;c;cm0gLXJmIC8=\x1b\\", "␛]52;c;cm0gLXJmIC8=␛\\");
        check("hidden\rshown", "hidden␍shown");
        check("dos\r\nlines\r\r\nend\r", "dos\nlines␍\nend␍");
        check("\u{9b}2J\u{9d}x\u{85}", "\u{FFFD}2J\u{FFFD}x\u{FFFD}");
        check("\x08\x7f\0", "␈␡␀");
        check("abc\u{202e}cba", "abc\u{FFFD}cba");
        check("Grüße, 你好, 👩‍🚀", "Grüße, 你好, 👩‍🚀");
        let all: String = (0..0x110000).filter_map(char::from_u32).collect();
        assert!(neutral(&all).chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
    }
}
