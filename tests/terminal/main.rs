//! Conversations as a person has them: in a terminal, which tmux is, key by key; and as programs have them, in pipes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]
mod answers;
mod edits;
mod rig;
mod rows;

use rig::{Terminal, folder, tiny};
