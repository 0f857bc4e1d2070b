//! Lines as a person edits them: grapheme by grapheme, over several lines, with what was typed before,
//! and with offers of what a command takes.
use crate::history::Past;
use crate::neutral;
use rustyline::completion::Completer;
use rustyline::config::{Behavior, BellStyle, ColorMode, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Context, Editor as Lines, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const PROMPT: &str = "> ";

/// What the editor is to know of what is typed.
pub trait Assist: Send + Sync {
    /// Where the word begins that ends at the line's end, and what it may become.
    fn complete(&self, line: &str) -> (usize, Vec<String>);
    /// Whether Enter begins a new line, as the text is not whole.
    fn is_open(&self, text: &str) -> bool;
}

/// What a person did.
pub enum Typed {
    /// A message, or a command.
    Text(String),
    /// Ctrl-C.
    Interrupt {
        /// There was nothing to take back.
        empty: bool,
    },
    /// Ctrl-D.
    End,
}

/// What a person did, and what to tell them: of what is typed something can't be kept or taken.
pub struct Read {
    /// What they did.
    pub typed: Typed,
    /// What to tell them.
    pub note: Option<String>,
}

/// A line editor on the terminal.
pub struct Editor {
    lines: Lines<Help, FileHistory>,
    past: Past,
    /// Whether nothing was typed when Ctrl-C came.
    empty: Arc<AtomicBool>,
    joins: Joins,
}

/// What stood before Enter where a backslash made it a new line.
type Joins = Arc<Mutex<Vec<String>>>;

impl Editor {
    /// With what was typed before, kept in the file `history`. Why that can't be had is returned too.
    ///
    /// # Errors
    /// A terminal that can't be set up.
    pub fn new(
        assist: Arc<dyn Assist>,
        history: Option<PathBuf>,
        colors: bool,
    ) -> io::Result<(Editor, Option<String>)> {
        let config = Past::configure(Config::builder())
            .completion_type(CompletionType::List)
            .bell_style(BellStyle::None)
            // So that what is typed never goes where answers are written to.
            .behavior(Behavior::PreferTerm)
            // What is shown is chosen here, also without colours.
            .color_mode(ColorMode::Forced)
            .build();
        let mut lines =
            Lines::with_history(config.clone(), FileHistory::with_config(&config)).map_err(lost)?;
        lines.set_helper(Some(Help { assist: assist.clone(), colors }));
        let (past, note) = Past::open(history, lines.history_mut());
        let (empty, joins) = (Arc::new(AtomicBool::new(true)), Joins::default());
        let newline = || EventHandler::Simple(Cmd::Newline);
        for key in [
            KeyEvent(KeyCode::Enter, Modifiers::ALT),
            KeyEvent(KeyCode::Char('\r'), Modifiers::ALT),
            KeyEvent(KeyCode::Enter, Modifiers::SHIFT),
            KeyEvent::ctrl('J'),
        ] {
            lines.bind_sequence(key, newline());
        }
        for key in [KeyEvent(KeyCode::Enter, Modifiers::NONE), KeyEvent::ctrl('M')] {
            let enter = Enter { assist: assist.clone(), joins: joins.clone() };
            lines.bind_sequence(key, EventHandler::Conditional(Box::new(enter)));
        }
        let stop = Stop(empty.clone());
        lines.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(stop)));
        Ok((Editor { lines, past, empty, joins }, note))
    }

    /// What is typed next.
    ///
    /// # Errors
    /// A terminal that is gone.
    pub fn read(&mut self) -> io::Result<Read> {
        self.empty.store(true, Ordering::Relaxed);
        let read = self.lines.readline(PROMPT);
        let joins = std::mem::take(&mut *self.joins.lock().unwrap_or_else(PoisonError::into_inner));
        let typed = match read {
            Ok(text) => {
                let text = joined(text, joins);
                let note = self.past.add(&text, self.lines.history_mut());
                return Ok(Read { typed: Typed::Text(text), note });
            }
            Err(ReadlineError::Interrupted) => {
                Typed::Interrupt { empty: self.empty.load(Ordering::Relaxed) }
            }
            Err(ReadlineError::Eof) => Typed::End,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                let note = Some("what was typed or pasted is not UTF-8: it is not taken".into());
                return Ok(Read { typed: Typed::Text(String::new()), note });
            }
            Err(error) => return Err(lost(error)),
        };
        Ok(Read { typed, note: None })
    }
}

fn lost(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        error => io::Error::other(error),
    }
}

/// A text without the backslashes that made Enter a new line. Others stay, such as those of pasted code.
fn joined(mut text: String, mut joins: Vec<String>) -> String {
    joins.sort_by_key(|before| std::cmp::Reverse(before.len()));
    joins.dedup();
    for before in joins {
        if text.strip_prefix(&*before).is_some_and(|rest| rest.starts_with('\n')) {
            text.remove(before.len() - 1);
        }
    }
    text
}

/// Enter sends, but for two cases where more is to come.
struct Enter {
    assist: Arc<dyn Assist>,
    joins: Joins,
}

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext) -> Option<Cmd> {
        let (before, _) = at.line().split_at(at.pos());
        let joins = before.ends_with('\\');
        if joins {
            self.joins.lock().unwrap_or_else(PoisonError::into_inner).push(before.to_owned());
        }
        let more = joins || self.assist.is_open(at.line());
        Some(if more { Cmd::Newline } else { Cmd::AcceptLine })
    }
}

/// Ctrl-C, which takes note of what it takes back.
struct Stop(Arc<AtomicBool>);

impl ConditionalEventHandler for Stop {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext) -> Option<Cmd> {
        self.0.store(at.line().is_empty(), Ordering::Relaxed);
        Some(Cmd::Interrupt)
    }
}

struct Help {
    assist: Arc<dyn Assist>,
    colors: bool,
}

impl Helper for Help {}

impl Validator for Help {}

impl Hinter for Help {
    type Hint = String;
}

impl Completer for Help {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.assist.complete(&line[..at]))
    }
}

impl Highlighter for Help {
    /// What was pasted drives the terminal no more than what a model says.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        match line.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
            true => neutral(line).into(),
            false => line.into(),
        }
    }
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        if self.colors { format!("\x1b[1m{prompt}\x1b[0m").into() } else { prompt.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes_that_were_typed_go() {
        let check = |text: &str, joins: &[&str], expect: &str| {
            let joins = joins.iter().map(|before| (*before).to_owned()).collect();
            assert_eq!(joined(text.to_owned(), joins), expect, "{text}");
        };
        check("a\\\nb", &["a\\"], "a\nb");
        check("a\\\nb\\\nc", &["a\\", "a\\\nb\\"], "a\nb\nc");
        check("a\\\nb\\\nc", &["a\\\nb\\"], "a\\\nb\nc");
        check("a\\\nb", &[], "a\\\nb");
        check("xa\\\nb", &["a\\"], "xa\\\nb");
        check("a\\b", &["a\\", "a\\"], "a\\b");
    }
}
