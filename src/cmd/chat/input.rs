//! Where messages and commands come from: a person at a terminal, or a pipe, a line each.
use super::command::is_open;
use crate::cmd::{Environment, Interrupt, Interrupted, Log, Usage};
use rinfer_terminal::{Editor, Read, Typed};
use std::io::{BufRead, Write};

const HINT: &str = "Ctrl-C once more, Ctrl-D or /quit leaves";

/// Where they come from.
pub enum Input {
    /// A terminal that moves its cursor.
    Editor(Box<Editor>),
    /// Lines. At a terminal that can do no more, each is asked for.
    Lines { asks: bool, read: usize },
}

impl Input {
    /// The next message or command; none at the end.
    ///
    /// # Errors
    /// Ctrl-C twice, text that is not UTF-8 or breaks off, and those of reading.
    pub fn next(
        &mut self,
        env: &Environment,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<String>> {
        match self {
            Input::Editor(editor) => {
                interrupt.exits();
                edited(editor, env)
            }
            Input::Lines { asks, read } => lines(*asks, read, interrupt),
        }
    }
    /// Whether a person is there.
    pub fn is_person(&self) -> bool {
        matches!(self, Input::Editor(_) | Input::Lines { asks: true, .. })
    }
}

fn edited(editor: &mut Editor, env: &Environment) -> anyhow::Result<Option<String>> {
    let mut warned = false;
    loop {
        let Read { typed, note } = editor.read()?;
        if let Some(note) = note {
            env.say(Log::Warn, format!("note: {note}"));
        }
        match typed {
            Typed::Text(text) => return Ok(Some(text)),
            Typed::End => return Ok(None),
            Typed::Interrupt { empty: true } if warned => return Err(Interrupted.into()),
            Typed::Interrupt { empty: true } => {
                env.say(Log::Warn, HINT);
                warned = true;
            }
            Typed::Interrupt { empty: false } => warned = false,
        }
    }
}

/// A line, with those that follow a backslash at its end or are between quotes of three.
fn lines(asks: bool, read: &mut usize, interrupt: &Interrupt) -> anyhow::Result<Option<String>> {
    let mut text = String::new();
    loop {
        if asks {
            interrupt.hints("Ctrl-C once more, Ctrl-D or /quit leaves\n> ");
            eprint!("{}", if text.is_empty() { "> " } else { "… " });
            std::io::stderr().flush()?;
        }
        let Some(line) = line(read)? else {
            if asks {
                eprintln!();
            }
            if is_open(&text) {
                return Err(Usage("stdin ends between \"\"\" and \"\"\"".into()).into());
            }
            return Ok(Some(text).filter(|text| !text.is_empty()));
        };
        text += &line;
        if let Some(len) = text.strip_suffix('\\').map(str::len) {
            text.truncate(len);
        } else if !is_open(&text) {
            return Ok(Some(text));
        }
        text.push('\n');
    }
}

/// The next line of stdin, without its end.
fn line(read: &mut usize) -> anyhow::Result<Option<String>> {
    let mut bytes = Vec::new();
    if std::io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    *read += 1;
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Usage(format!("stdin is not UTF-8: line {read}, byte {at} can't be read as text"))
    })?;
    // What some programs begin UTF-8 with.
    let text = if *read == 1 { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}
