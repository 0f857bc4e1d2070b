//! Markdown as it streams: every character stays, in its order, with attributes that say what it is.
//! So what is copied is what was said, and nothing that stands is ever written again.
use crate::code::Code;
use crate::style::{Color, Spans, Style};

const MARKER: Style = Style::DIM;
const CODE: Style = Style::colored(Color::Cyan);
/// The longest line that may yet turn out to open a block of code, and longest run of markers.
const LONGEST: usize = 80;

/// A stream of Markdown. Little of it is held back: markers whose meaning hangs on what follows.
#[derive(Debug, Default)]
pub struct Markdown {
    place: Place,
    held: String,
    line: Line,
}

#[derive(Debug, Default)]
enum Place {
    /// At the beginning of a line, of which all is held back.
    #[default]
    Start,
    Inline,
    Block(Block),
}

/// What is open in a line, and ends with it at the latest.
#[derive(Debug, Default)]
struct Line {
    quoted: bool,
    heading: bool,
    strong: Option<char>,
    emphasis: Option<char>,
    /// The length of the run that ends it.
    code: Option<usize>,
    escaped: bool,
    last: Option<char>,
}

/// Between fences.
#[derive(Debug)]
struct Block {
    mark: char,
    run: usize,
    quoted: bool,
    /// Whether the line so far may be the fence that ends it.
    may_end: bool,
    code: Code,
}

impl Markdown {
    /// What the next piece makes certain.
    pub fn push(&mut self, text: &str) -> Spans {
        let mut out = Spans::default();
        for c in text.chars() {
            match &mut self.place {
                Place::Start => self.start(c, &mut out),
                Place::Inline => self.inline(c, &mut out),
                Place::Block(_) => self.block(c, &mut out),
            }
        }
        out
    }

    /// What was held back, when the text ends.
    pub fn finish(&mut self) -> Spans {
        let mut out = Spans::default();
        if let Place::Start = self.place {
            self.close(&mut out);
        }
        match &mut self.place {
            Place::Start | Place::Inline => self.run(None, &mut out),
            Place::Block(block) => {
                block.code.flush(&mut out);
                out.push(MARKER, &self.held);
            }
        }
        *self = Markdown::default();
        out
    }

    fn start(&mut self, c: char, out: &mut Spans) {
        if c == '\n' {
            self.close(out);
            if let Place::Block(_) = self.place {
                return out.push(Style::PLAIN, "\n");
            }
            return self.inline(c, out);
        }
        self.held.push(c);
        match opening(&self.held) {
            Opening::Unsure => {}
            Opening::Text => self.text(out),
            Opening::Quote => {
                self.line.quoted = true;
                out.push(MARKER, &std::mem::take(&mut self.held));
            }
            Opening::Heading | Opening::Item => {
                self.line.heading = opening(&self.held) == Opening::Heading;
                out.push(MARKER, &std::mem::take(&mut self.held));
                self.place = Place::Inline;
            }
        }
    }

    /// The line ends while all of it is held back.
    fn close(&mut self, out: &mut Spans) {
        let line = self.held.trim();
        let mark = line.chars().next().unwrap_or(' ');
        let run = line.chars().take_while(|c| *c == mark).count();
        match mark {
            '`' | '~' if run >= 3 => {
                let code = Code::new(line[run..].trim());
                let quoted = self.line.quoted;
                self.place = Place::Block(Block { mark, run, quoted, may_end: true, code });
                out.push(MARKER, &std::mem::take(&mut self.held));
                self.line = Line::default();
            }
            '-' | '*' | '_' if run >= 3 && run == line.len() => {
                out.push(MARKER, &std::mem::take(&mut self.held));
                self.place = Place::Inline;
            }
            _ => self.text(out),
        }
    }

    /// What is held back is text after all.
    fn text(&mut self, out: &mut Spans) {
        self.place = Place::Inline;
        let held = std::mem::take(&mut self.held);
        held.chars().for_each(|c| self.inline(c, out));
    }

    fn inline(&mut self, c: char, out: &mut Spans) {
        if self.held.starts_with(c) && self.held.len() < LONGEST {
            return self.held.push(c);
        }
        self.run(Some(c), out);
        if c == '\n' {
            out.push(Style::PLAIN, "\n");
            (self.line, self.place) = (Line::default(), Place::Start);
            return;
        }
        let marks = if self.line.code.is_some() { c == '`' } else { matches!(c, '`' | '*' | '_') };
        if marks && !self.line.escaped {
            return self.held.push(c);
        }
        self.line.escaped = c == '\\' && !self.line.escaped && self.line.code.is_none();
        self.line.last = Some(c);
        out.push(self.line.style(), c.encode_utf8(&mut [0; 4]));
    }

    /// A run of markers, if one is held back, ends before `next`.
    fn run(&mut self, next: Option<char>, out: &mut Spans) {
        let held = std::mem::take(&mut self.held);
        let Some(mark) = held.chars().next() else { return };
        let style = self.line.style();
        let means = match mark {
            '`' => self.line.tick(held.len(), next),
            _ => self.line.star(mark, held.len(), next),
        };
        out.push(if means { MARKER } else { style }, &held);
        self.line.last = Some(mark);
    }

    fn block(&mut self, c: char, out: &mut Spans) {
        let Place::Block(block) = &mut self.place else { return };
        if !block.may_end {
            block.code.push(c, out);
            block.may_end = c == '\n';
            return;
        }
        if c != '\n' {
            self.held.push(c);
        }
        let line = self.held.trim_start_matches([' ', if block.quoted { '>' } else { ' ' }]);
        let run = line.chars().take_while(|c| *c == block.mark).count();
        let only = line[run..].trim().is_empty();
        if c == '\n' && only && run >= block.run {
            block.code.flush(out);
            out.push(MARKER, &std::mem::take(&mut self.held));
            out.push(Style::PLAIN, "\n");
            self.place = Place::Start;
        } else if c == '\n' || !only || self.held.len() > LONGEST {
            let held = std::mem::take(&mut self.held);
            held.chars().for_each(|c| block.code.push(c, out));
            if c == '\n' {
                block.code.push(c, out);
            }
            block.may_end = c == '\n';
        }
    }
}

impl Line {
    fn style(&self) -> Style {
        if self.code.is_some() {
            return CODE;
        }
        let (bold, italic) = (self.heading || self.strong.is_some(), self.emphasis.is_some());
        Style { bold, italic, underline: self.heading, ..Style::PLAIN }
    }

    /// A run of backticks: whether it begins or ends code.
    fn tick(&mut self, run: usize, next: Option<char>) -> bool {
        match self.code {
            Some(open) if open == run => self.code = None,
            None if next.is_some_and(|c| c != '\n') => self.code = Some(run),
            _ => return false,
        }
        true
    }

    /// A run of stars or underscores: whether it begins or ends emphasis, as CommonMark has it but for
    /// products such as `2*3`.
    fn star(&mut self, mark: char, run: usize, next: Option<char>) -> bool {
        let space = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let within = |c: Option<char>| match (mark, run) {
            ('*', 1) => c.is_some_and(|c| c.is_ascii_alphanumeric()),
            ('*', _) => false,
            _ => word(c),
        };
        let (one, two) = (run & 1 == 1, run & 2 == 2);
        if run > 3 {
            return false;
        }
        let ends = |open: Option<char>| open == Some(mark);
        let closes = !space(self.last) && (mark == '*' || !word(next));
        if closes && (!one || ends(self.emphasis)) && (!two || ends(self.strong)) {
            self.emphasis = self.emphasis.filter(|_| !one);
            self.strong = self.strong.filter(|_| !two);
            return true;
        }
        let opens = !space(next) && !within(self.last);
        if opens && (!one || self.emphasis.is_none()) && (!two || self.strong.is_none()) {
            self.emphasis = self.emphasis.or(one.then_some(mark));
            self.strong = self.strong.or(two.then_some(mark));
            return true;
        }
        false
    }
}

/// What a line begins.
#[derive(Debug, PartialEq, Eq)]
enum Opening {
    /// The next character says more, or the line's end.
    Unsure,
    Text,
    Heading,
    Item,
    /// Another beginning follows.
    Quote,
}

fn opening(line: &str) -> Opening {
    let text = line.trim_start_matches([' ', '\t']);
    let Some(first) = text.chars().next() else { return Opening::Unsure };
    let digit = |c: char| c.is_ascii_digit();
    let run = match first {
        '0'..='9' => text.chars().take_while(|c| digit(*c)).count(),
        _ if first.is_ascii() => text.chars().take_while(|c| *c == first).count(),
        _ => return Opening::Text,
    };
    let rest = &text[run..];
    let spaced = |rest: &str, then: Opening| match rest.chars().next() {
        None => Opening::Unsure,
        Some(' ' | '\t') => then,
        Some(_) => Opening::Text,
    };
    match first {
        _ if text.len() > LONGEST => Opening::Text,
        '>' => Opening::Quote,
        '#' if run <= 6 => spaced(rest, Opening::Heading),
        '`' | '~' if rest.is_empty() || (run >= 3 && !rest.contains('`')) => Opening::Unsure,
        '-' | '+' | '*' if run == 1 => spaced(rest, Opening::Item),
        '-' | '*' | '_' if rest.is_empty() => Opening::Unsure,
        '0'..='9' if run <= 9 => match rest.strip_prefix(['.', ')']) {
            Some(rest) => spaced(rest, Opening::Item),
            None if rest.is_empty() => Opening::Unsure,
            None => Opening::Text,
        },
        _ => Opening::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOLD: Style = Style { bold: true, ..Style::PLAIN };
    const EM: Style = Style { italic: true, ..Style::PLAIN };
    const HEAD: Style = Style { underline: true, ..BOLD };
    const BOTH: Style = Style { italic: true, ..BOLD };

    fn spans(pieces: &[&str]) -> Spans {
        let (mut markdown, mut all) = (Markdown::default(), Spans::default());
        pieces.iter().for_each(|piece| all.append(markdown.push(piece)));
        all.append(markdown.finish());
        all
    }

    /// The looks of a text, told at once, character by character, and cut in two everywhere.
    fn check(text: &str, expect: &[(Style, &str)]) {
        let whole = spans(&[text]);
        let found: Vec<(Style, &str)> = whole.list().iter().map(|(s, t)| (*s, &**t)).collect();
        if !expect.is_empty() {
            assert_eq!(found, expect, "{text}");
        }
        let said: String = found.iter().map(|(_, text)| *text).collect();
        assert_eq!(said, text, "every character stays");
        let each: Vec<String> = text.chars().map(String::from).collect();
        let each: Vec<&str> = each.iter().map(|c| &**c).collect();
        assert_eq!(spans(&each), whole, "{text}");
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            assert_eq!(spans(&[&text[..at], &text[at..]]), whole, "{text:?} cut at {at}");
        }
    }

    #[test]
    fn emphasis_and_code() {
        let plain = |text: &'static str| (Style::PLAIN, text);
        let mark = |text: &'static str| (MARKER, text);
        check("a **b** c", &[plain("a "), mark("**"), (BOLD, "b"), mark("**"), plain(" c")]);
        check("*b* c", &[mark("*"), (EM, "b"), mark("*"), plain(" c")]);
        check("x ***b***", &[plain("x "), mark("***"), (BOTH, "b"), mark("***")]);
        check("粗**体**字", &[plain("粗"), mark("**"), (BOLD, "体"), mark("**"), plain("字")]);
        check("`a*b*`.", &[mark("`"), (CODE, "a*b*"), mark("`"), plain(".")]);
        check("``a`b``", &[mark("``"), (CODE, "a`b"), mark("``")]);
        for same in
            ["2*3*4 = 24", "a * b * c", "snake_case_name", "\\*not\\*", "2 ** 3", "a ****", "x `"]
        {
            check(same, &[plain(same)]);
        }
        // What is never closed ends with its line.
        check("**kw\nx", &[mark("**"), (BOLD, "kw"), plain("\nx")]);
    }

    #[test]
    fn blocks() {
        let plain = |text: &'static str| (Style::PLAIN, text);
        let mark = |text: &'static str| (MARKER, text);
        check("# T\nx", &[mark("# "), (HEAD, "T"), plain("\nx")]);
        check("#T", &[plain("#T")]);
        check("- a\n10. b", &[mark("- "), plain("a\n"), mark("10. "), plain("b")]);
        check("> - q\n", &[mark("> - "), plain("q\n")]);
        check("---\n3.5", &[mark("---"), plain("\n3.5")]);
        check(
            "```py\nx = 1\n```\ny",
            &[
                mark("```py"),
                plain("\nx = "),
                (Style::colored(Color::Yellow), "1"),
                plain("\n"),
                mark("```"),
                plain("\ny"),
            ],
        );
        check("~~~\n```\n~~~", &[mark("~~~"), plain("\n```\n"), mark("~~~")]);
        check("````\n```\n````\n", &[mark("````"), plain("\n```\n"), mark("````"), plain("\n")]);
        check(
            "> ```\n> a\n> ```\n",
            &[mark("> ```"), plain("\n> a\n"), mark("> ```"), plain("\n")],
        );
    }

    #[test]
    fn whatever_comes_stays() {
        for text in [
            "",
            "\n\n",
            "   ",
            "#",
            "-",
            "```",
            "```rust",
            "1",
            "1.",
            ">",
            "> >",
            "***",
            "__",
            "`",
            "```a`b\nc",
            "```\nopen",
            "```\n``",
            "| a | b |\n|---|---|\n| *x* | `y` |",
            "* * *",
            "**a *b* c**",
            "_a_b_",
            "*a",
            "a*",
            "\\",
            "\\`x`",
            "[x](http://a_b_c)",
            "- [ ] task",
            "\t- deep",
            "```sh\n# c\necho \"a\n```\n**x**",
            "````````````````````````````````````````````````````````````````````````````````````````````x",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn markers_in_any_order_stay() {
        let alphabet: Vec<char> = "```***__##-->~~ \n\n1.)a\u{301}b|\\你".chars().collect();
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..4000 {
            let length = next(40);
            let text: String = (0..length).map(|_| alphabet[next(alphabet.len())]).collect();
            check(&text, &[]);
        }
    }
}
