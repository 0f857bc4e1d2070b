//! Where an answer is told: what the model says to stdout, what it thinks to stderr.
use crate::Terminal;
use crate::markdown::Markdown;
use crate::neutral::Neutral;
use crate::style::{Spans, Style};
use std::io::Write;

/// How what a model says is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// Not at all.
    Silent,
    /// As it is, byte by byte: a program reads it.
    Raw,
    /// With control characters made visible.
    Plain,
    /// So, and Markdown with attributes.
    Marked,
}

/// Tells an answer as it comes. Between two pieces the terminal is as it was found.
pub struct Screen {
    looks: Looks,
    /// Whether thoughts are shown, and dimmed.
    thoughts: Option<Style>,
    said: Neutral,
    thought: Neutral,
    markdown: Markdown,
    /// Thoughts came last.
    thinking: bool,
}

impl Screen {
    /// For a person if there is a terminal, else for a program. `marked` asks for Markdown's looks.
    pub fn new(terminal: Terminal, marked: bool) -> Screen {
        let looks = match terminal {
            Terminal { output: false, .. } => Looks::Raw,
            Terminal { colors: true, .. } if marked => Looks::Marked,
            _ => Looks::Plain,
        };
        let style = if terminal.colors { Style::DIM } else { Style::PLAIN };
        Screen { thoughts: terminal.errors.then_some(style), ..Screen::silent() }.looking(looks)
    }
    /// Tells nothing.
    pub fn silent() -> Screen {
        let (said, thought, markdown) = Default::default();
        Screen { looks: Looks::Silent, thoughts: None, said, thought, markdown, thinking: false }
    }
    fn looking(mut self, looks: Looks) -> Screen {
        self.looks = looks;
        self
    }
    /// Thoughts are not shown.
    pub fn folded(mut self) -> Screen {
        self.thoughts = None;
        self
    }
    /// Whether thoughts are.
    pub fn shows_thoughts(&self) -> bool {
        self.thoughts.is_some()
    }
    /// Whether what is said is.
    pub fn shows_text(&self) -> bool {
        self.looks != Looks::Silent
    }

    /// What the model says next.
    ///
    /// # Errors
    /// Those of writing.
    pub fn say(&mut self, text: &str) -> std::io::Result<()> {
        self.end_thoughts();
        let shown = match self.looks {
            Looks::Silent => return Ok(()),
            Looks::Raw => text.to_owned(),
            Looks::Plain => self.said.push(text),
            Looks::Marked => self.markdown.push(&self.said.push(text)).painted(),
        };
        put(&shown)
    }

    /// What the model thinks next.
    pub fn think(&mut self, text: &str) {
        if let Some(style) = self.thoughts {
            eprint!("{}", painted(style, &self.thought.push(text)));
            self.thinking = true;
        }
    }

    /// The answer is over.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end(&mut self) -> std::io::Result<()> {
        self.end_thoughts();
        let rest = self.said.finish();
        match self.looks {
            Looks::Silent | Looks::Raw => Ok(()),
            Looks::Plain => put(rest),
            Looks::Marked => {
                put(&self.markdown.push(rest).painted())?;
                put(&self.markdown.finish().painted())
            }
        }
    }

    /// A blank line between what is thought and what is said.
    fn end_thoughts(&mut self) {
        if std::mem::take(&mut self.thinking) {
            let style = self.thoughts.unwrap_or_default();
            eprintln!("{}\n", painted(style, self.thought.finish()));
        }
    }
}

fn painted(style: Style, text: &str) -> String {
    let mut spans = Spans::default();
    spans.push(style, text);
    spans.painted()
}

/// Writes to stdout and flushes, so that a reader sees every piece at once.
fn put(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_the_terminals() {
        let check = |output: bool, colors: bool, marked: bool, expect: Looks| {
            let terminal = Terminal { output, colors, ..Terminal::default() };
            assert_eq!(Screen::new(terminal, marked).looks, expect);
        };
        check(false, true, true, Looks::Raw);
        check(true, true, true, Looks::Marked);
        check(true, true, false, Looks::Plain);
        check(true, false, true, Looks::Plain);
    }
}
