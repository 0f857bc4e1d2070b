//! How a piece of text looks, and the escape sequences for it.
use std::fmt::Write;

/// Attributes of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub color: Option<Color>,
}

/// Of the eight that every terminal has, and that its owner chose to be legible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Green = 32,
    Yellow = 33,
    Magenta = 35,
    Cyan = 36,
}

impl Style {
    pub const PLAIN: Style =
        Style { bold: false, dim: false, italic: false, underline: false, color: None };
    pub const DIM: Style = Style { dim: true, ..Style::PLAIN };

    pub const fn colored(color: Color) -> Style {
        Style { color: Some(color), ..Style::PLAIN }
    }
}

/// Pieces of text, each with its looks; neighbours that look alike are one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(Style, String)>);

impl Spans {
    pub fn push(&mut self, style: Style, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some((last, said)) if *last == style => said.push_str(text),
            _ => self.0.push((style, text.to_owned())),
        }
    }
    /// What a terminal is sent. It is left as it was found, so that whatever ends the program leaves no
    /// attribute behind.
    pub fn painted(&self) -> String {
        let mut out = String::new();
        for (style, text) in &self.0 {
            if *style == Style::PLAIN {
                out += text;
                continue;
            }
            let flags = [(style.bold, 1), (style.dim, 2), (style.italic, 3), (style.underline, 4)];
            let codes = flags.iter().filter(|(on, _)| *on).map(|(_, code)| *code);
            let codes = codes.chain(style.color.map(|color| color as u8));
            let mut separator = "\x1b[";
            for code in codes {
                // Writing to memory can't fail.
                let _ = write!(out, "{separator}{code}");
                separator = ";";
            }
            out += "m";
            out += text;
            out += "\x1b[0m";
        }
        out
    }
    #[cfg(test)]
    pub fn list(&self) -> &[(Style, String)] {
        &self.0
    }
    #[cfg(test)]
    pub fn append(&mut self, other: Spans) {
        other.0.iter().for_each(|(style, text)| self.push(*style, text));
    }
}
