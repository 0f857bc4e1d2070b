//! Ctrl-C: stops an answer, and ends the program where there is none.
use rinfer_engine::request::Cancel;
use std::sync::{Arc, Mutex, PoisonError};

/// What Ctrl-C does now.
#[derive(Clone)]
pub struct Interrupt(Arc<Mutex<Action>>);

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
        let interrupt = Interrupt(Arc::new(Mutex::new(Action::Exit)));
        let handler = interrupt.clone();
        ctrlc::set_handler(move || match handler.replace(Action::Exit) {
            Action::Exit => std::process::exit(130),
            Action::Cancel(cancel) => cancel.cancel(),
            Action::Hint(text) => eprint!("\n{text}"),
        })?;
        Ok(interrupt)
    }
    /// Ctrl-C ends this answer.
    pub fn cancels(&self, cancel: Cancel) {
        self.replace(Action::Cancel(cancel));
    }
    /// Ctrl-C says this first.
    pub fn hints(&self, text: &'static str) {
        self.replace(Action::Hint(text));
    }
    /// Ctrl-C ends the program.
    pub fn exits(&self) {
        self.replace(Action::Exit);
    }
    fn replace(&self, action: Action) -> Action {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut now, action)
    }
}
