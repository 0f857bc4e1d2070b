//! A terminal and the person at it: text that can't drive it, Markdown in attributes around the text, and an editor of
//! messages. It knows nothing of models.
#![forbid(unsafe_code)]

mod code;
mod editor;
mod history;
mod markdown;
mod neutral;
mod screen;
mod style;

pub use editor::{Assist, Editor, Read, Typed};
pub use neutral::neutral;
pub use screen::Screen;

/// What is at the ends of the program's streams.
#[derive(Clone, Copy, Default)]
pub struct Terminal {
    /// Stdin is one.
    pub input: bool,
    /// Stdout is one.
    pub output: bool,
    /// Stderr is one.
    pub errors: bool,
    /// It moves its cursor as it is told: `TERM` is not `dumb`.
    pub moves: bool,
    /// It is to show colours and attributes: `NO_COLOR` is not set, and it moves its cursor.
    pub colors: bool,
}
