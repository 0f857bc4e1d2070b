//! A model's answer, taken apart as it comes: what it thinks, what it says, what tools it calls.
//!
//! A [`Reader`] takes pieces of text and the tokens that are markup, and gives [`Delta`]s. All that
//! it gives, joined, is the same however the text was cut. How a model writes is its [`Format`],
//! which is found from its template.
mod budget;
mod channels;
mod format;
mod reader;
mod tags;

pub use budget::Budget;
pub use channels::{Channels, Recipient};
pub use format::{Format, FormatError};
pub use reader::Reader;
pub use tags::{TAGS, Tags};

use crate::chat::{Content, Function, Message, Role, ToolCall};
use serde_json::Value;

/// A part of an answer. Each call is opened, has its arguments in pieces, and is closed or broken,
/// before the next is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// What the model says.
    Content(String),
    /// What it thinks before that.
    Reasoning(String),
    /// A call of a tool begins.
    Open {
        /// Counts the answer's calls from 0. One that was broken is counted too.
        index: usize,
        /// The function.
        name: String,
    },
    /// More of the arguments: JSON text, as the model wrote it where it wrote JSON.
    Arguments {
        /// The call.
        index: usize,
        /// The next piece; all joined are an object.
        json: String,
    },
    /// The call is complete: its arguments are one JSON object.
    Close {
        /// The call.
        index: usize,
    },
    /// The call is not complete and never will be: it was cut off, or turned out to be none.
    Broken {
        /// The call.
        index: usize,
        /// All of it as it was written.
        text: String,
    },
}

/// An answer's parts, joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What the model says. A broken call is part of it, as it was written.
    pub content: String,
    /// What it thought.
    pub reasoning: String,
    /// The complete calls, in order: name, and arguments as JSON text.
    pub calls: Vec<(String, String)>,
    /// Name and arguments so far of the call that is open.
    open: Option<(String, String)>,
}

impl Reply {
    /// Adds the next part.
    pub fn push(&mut self, delta: &Delta) {
        match delta {
            Delta::Content(text) => self.content += text,
            Delta::Reasoning(text) => self.reasoning += text,
            Delta::Open { name, .. } => self.open = Some((name.clone(), String::new())),
            Delta::Arguments { json, .. } => {
                self.open.iter_mut().for_each(|(_, arguments)| *arguments += json);
            }
            Delta::Close { .. } => self.calls.extend(self.open.take()),
            Delta::Broken { text, .. } => {
                self.open = None;
                self.content += text;
            }
        }
    }
    /// The message that this adds to the conversation. `id` names the calls.
    pub fn message(self, mut id: impl FnMut(usize) -> String) -> Message {
        let call = |(index, (name, arguments)): (usize, (String, String))| ToolCall {
            id: Some(id(index)),
            function: Function { name, arguments: Value::String(arguments) },
        };
        let only_calls = self.content.is_empty() && !self.calls.is_empty();
        Message {
            tool_calls: self.calls.into_iter().enumerate().map(call).collect(),
            reasoning_content: Some(self.reasoning).filter(|text| !text.is_empty()),
            content: Some(Content::Text(self.content)).filter(|_| !only_calls),
            ..Message::new(Role::Assistant, "")
        }
    }
}

impl<'a> FromIterator<&'a Delta> for Reply {
    fn from_iter<I: IntoIterator<Item = &'a Delta>>(deltas: I) -> Reply {
        deltas.into_iter().fold(Reply::default(), |mut reply, delta| {
            reply.push(delta);
            reply
        })
    }
}
