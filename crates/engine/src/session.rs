//! A conversation. Every turn renders the whole of it, so a prompt never depends on how it came
//! about; what an earlier turn computed is found again by its tokens.
use crate::error::{Error, Result};
use crate::model::Model;
use crate::request::{Cancel, Finish, Progress, Usage};
use crate::sample::Sampling;
use crate::turn::{Ask, Turn};
use rinfer_text::chat::{Message, Role};
use rinfer_text::reply::{self, Delta};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A conversation with a model.
pub struct Session {
    model: Model,
    system: Option<String>,
    messages: Vec<Message>,
    sampling: Sampling,
    pub(crate) show_schema: bool,
}

/// What a file says of a conversation.
#[derive(Serialize, Deserialize)]
struct Note {
    system: Option<String>,
    messages: Vec<Message>,
}

impl Model {
    /// The conversation that [`Session::save`] wrote.
    ///
    /// # Errors
    /// As [`Model::restore`]; a file that holds no conversation.
    pub fn open_session(&self, path: impl AsRef<Path>) -> Result<Session> {
        let note = self.restore(path.as_ref())?.note;
        let note: Note = serde_json::from_slice(&note).map_err(|_| Error::Saved {
            file: path.as_ref().display().to_string(),
            problem: "it holds what a model keeps, but no conversation".into(),
        })?;
        let mut session = self.session();
        (session.system, session.messages) = (note.system, note.messages);
        Ok(session)
    }
}

impl Session {
    pub(crate) fn new(model: Model) -> Session {
        let sampling = model.language().sampling.clone();
        Session { model, system: None, messages: Vec::new(), sampling, show_schema: true }
    }

    /// Sets what the model is told before the conversation; an empty text is nothing.
    pub fn system(&mut self, text: impl Into<String>) -> &mut Session {
        self.system = Some(text.into()).filter(|text| !text.is_empty());
        self
    }

    /// Whether [`Session::ask`] tells the model the schema of the type, as one line of JSON after the
    /// message: it does by itself, as a form shows the model nothing in advance. For messages that say
    /// what is wanted, and for models that were trained on one form.
    pub fn show_schema(&mut self, show: bool) -> &mut Session {
        self.show_schema = show;
        self
    }

    /// How the next answers are chosen.
    pub fn sampling(&mut self) -> &mut Sampling {
        &mut self.sampling
    }

    /// Asks for the answer to `text`. What of the answer is taken from the reply, perhaps not all,
    /// becomes part of the conversation; if nothing is, neither does `text`.
    ///
    /// # Errors
    /// A model without a chat template, a conversation that the template refuses or that leaves
    /// no room in the context, or an option out of its range. The conversation is then as before.
    pub fn say(&mut self, text: impl Into<String>) -> Result<Reply<'_>> {
        self.messages.push(Message::new(Role::User, text));
        let ask = Ask { messages: self.all(), ..Ask::default() };
        match self.model.turn(&ask, &self.sampling) {
            Ok(turn) => Ok(Reply { session: self, turn, said: reply::Reply::default() }),
            Err(error) => {
                self.messages.pop();
                Err(error)
            }
        }
    }

    /// Asks for another answer to the last message, with the next seed. None if there is none.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn retry(&mut self) -> Option<Result<Reply<'_>>> {
        let text = self.undo()?;
        self.sampling.seed = self.sampling.seed.wrapping_add(1);
        Some(self.say(text))
    }

    /// Takes the last message and its answer back. Returns the message.
    pub fn undo(&mut self) -> Option<String> {
        let last = self.messages.iter().rposition(|m| m.role == Role::User)?;
        let text = self.messages[last].content.as_ref().map(|c| c.text());
        self.messages.truncate(last);
        Some(text.unwrap_or_default())
    }

    /// Forgets the conversation, but not what the model is told before it.
    pub fn reset(&mut self) {
        self.messages.clear();
    }

    /// Writes the conversation to a file, whole or not at all, with what is kept of its state, so that
    /// [`Model::open_session`] goes on from there without computing it again. How answers are chosen is
    /// not part of it. Returns how many positions of state that are.
    ///
    /// # Errors
    /// A conversation that the template refuses, and those of writing.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize> {
        let ask = Ask { messages: self.all(), ..Ask::default() };
        let (tokens, _) = self.model.prompt(&ask, self.sampling.think)?;
        let note = Note { system: self.system.clone(), messages: self.messages.clone() };
        // Writing to memory can't fail.
        let note = serde_json::to_vec(&note).unwrap_or_default();
        self.model.write(Some(tokens), note, path.as_ref())
    }

    fn all(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new(Role::System, text.as_str()));
        system.chain(self.messages.iter().cloned()).collect()
    }

    /// Keeps the first `length` messages.
    pub(crate) fn forget_after(&mut self, length: usize) {
        self.messages.truncate(length);
    }

    /// Goes on from these messages, oldest first and without the system's, in the place of its own.
    pub fn continue_from(&mut self, messages: Vec<Message>) -> &mut Session {
        self.messages = messages;
        self
    }

    /// The model that it is with.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The messages, oldest first, without the system's.
    pub fn history(&self) -> &[Message] {
        &self.messages
    }

    /// What the model is told before the conversation.
    pub fn system_message(&self) -> Option<&str> {
        self.system.as_deref()
    }
}

/// The answer to a message, in pieces: what the model says. What it thinks is passed over, and told
/// by [`Reply::next_delta`].
pub struct Reply<'a> {
    session: &'a mut Session,
    turn: Turn,
    said: reply::Reply,
}

impl Reply<'_> {
    /// The next piece of what the model says or thinks.
    pub fn next_delta(&mut self) -> Option<Result<Delta>> {
        let delta = self.turn.next()?;
        if let Ok(delta) = &delta {
            self.said.push(delta);
        }
        Some(delta)
    }
    /// What it thought so far.
    pub fn thoughts(&self) -> &str {
        &self.said.reasoning
    }
    /// Why it ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.turn.finish()
    }
    /// Tokens so far, thoughts included.
    pub fn usage(&self) -> Usage {
        self.turn.usage()
    }
    /// What ends it from another thread.
    pub fn canceller(&self) -> Cancel {
        self.turn.canceller()
    }
    /// How far it is, for another thread to ask.
    pub fn progress(&self) -> Progress {
        self.turn.progress()
    }
}

impl Iterator for Reply<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        loop {
            match self.next_delta()? {
                Ok(Delta::Content(text)) => return Some(Ok(text)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        let said = std::mem::take(&mut self.said);
        if said.content.is_empty() && self.turn.finish() != Some(Finish::Stop) {
            self.session.messages.pop();
        } else {
            self.session.messages.push(said.message(|index| format!("call_{index}")));
        }
    }
}
