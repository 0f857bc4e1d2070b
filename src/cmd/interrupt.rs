//! Ctrl-C: stops an answer, and ends the program where there is none. It also owns the line that says
//! what is waited for, so that none is left behind or drawn after the end.
use rinfer_engine::request::Cancel;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What Ctrl-C does now.
#[derive(Clone)]
pub struct Interrupt(Arc<Mutex<State>>);

struct State {
    action: Action,
    /// A line stands on stderr that is to be cleared.
    drawn: bool,
    /// Stderr is a terminal, which has just shown `^C`.
    terminal: bool,
}

enum Action {
    /// Ends the program at once.
    Exit,
    /// Cancels the answer; once more ends the program.
    Cancel(Cancel),
    /// Says this; once more ends the program.
    Hint(&'static str),
}

impl Interrupt {
    /// From now on Ctrl-C ends the program with code 130 until told otherwise.
    pub fn install() -> anyhow::Result<Interrupt> {
        let terminal = std::io::stderr().is_terminal();
        let state = State { action: Action::Exit, drawn: false, terminal };
        let interrupt = Interrupt(Arc::new(Mutex::new(state)));
        let handler = interrupt.clone();
        ctrlc::set_handler(move || {
            let mut state = handler.state();
            match std::mem::replace(&mut state.action, Action::Exit) {
                Action::Exit => {
                    state.clear();
                    if state.terminal {
                        eprintln!();
                    }
                    // What is held here lets nobody draw any more.
                    std::process::exit(130)
                }
                Action::Cancel(cancel) => cancel.cancel(),
                Action::Hint(text) => eprint!("\n{text}"),
            }
        })?;
        Ok(interrupt)
    }
    /// Ctrl-C ends this answer.
    pub fn cancels(&self, cancel: Cancel) {
        self.state().action = Action::Cancel(cancel);
    }
    /// Ctrl-C says this first.
    pub fn hints(&self, text: &'static str) {
        self.state().action = Action::Hint(text);
    }
    /// Ctrl-C ends the program.
    pub fn exits(&self) {
        self.state().action = Action::Exit;
    }
    /// Writes a line on stderr in the place of the last one.
    pub fn draw(&self, line: &str) {
        let mut state = self.state();
        state.drawn = true;
        eprint!("\r\x1b[K{line}");
    }
    /// Takes that line away.
    pub fn clear(&self) {
        self.state().clear();
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprint!("\r\x1b[K");
        }
    }
}
