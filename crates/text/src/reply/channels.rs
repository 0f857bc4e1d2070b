//! Answers that are several messages, each with a header that says for whom it is.
use crate::tools::Tools;

/// How a model writes messages.
#[derive(Debug)]
pub struct Channels {
    /// Begins a header.
    pub start: &'static str,
    /// Ends a header.
    pub message: &'static str,
    /// End a message.
    pub ends: &'static [&'static str],
    /// Whom a header names; none if it is no header.
    pub read: fn(&str, &Tools) -> Option<Recipient>,
    /// Ends a message to itself and begins one to the person.
    pub answer: &'static str,
    /// Ends a message to itself and begins one to a tool, up to its name, if calls are messages.
    pub call: Option<&'static str>,
    /// The name of the syntax of calls, if they are messages themselves.
    pub syntax: &'static str,
    /// A template that has all of these texts has these messages.
    pub marks: &'static [&'static str],
}

/// For whom a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The person.
    User,
    /// The model itself: thoughts.
    Itself,
    /// A tool: the message is its arguments.
    Tool(String),
}

/// All kinds of channels.
pub(crate) const CHANNELS: &[Channels] = &[
    Channels {
        start: "<|start|>",
        message: "<|message|>",
        ends: &["<|end|>", "<|call|>", "<|return|>"],
        read: harmony,
        answer: "<|end|><|start|>assistant<|channel|>final<|message|>",
        call: Some("<|end|><|start|>assistant<|channel|>commentary to=functions."),
        syntax: "harmony",
        marks: &["<|start|>assistant", "<|channel|>analysis"],
    },
    Channels {
        start: "<|start|>",
        message: "<|message|>",
        ends: &["<|eom|>", "<|eot|>"],
        read: muse,
        answer: "<|eom|><|start|>assistant to=user<|message|>",
        call: None,
        syntax: "",
        marks: &["<|start|>assistant to=self<|message|>"],
    },
    Channels {
        start: ">>>",
        message: "\n",
        ends: &["<|eot_id|>"],
        read: functionary,
        answer: ">>>all\n",
        call: None,
        syntax: "functionary_v3_2",
        marks: &[">>>${recipient}"],
    },
];

impl Channels {
    /// The channels that a template's source has.
    pub fn of(source: &str) -> Option<&'static Channels> {
        CHANNELS.iter().find(|c| c.marks.iter().all(|mark| source.contains(mark)))
    }
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static str> {
        [self.start, self.message].into_iter().chain(self.ends.iter().copied())
    }
}

/// `assistant<|channel|>analysis`, or `commentary to=functions.NAME <|constrain|>json`, or both the
/// other way round.
fn harmony(header: &str, _: &Tools) -> Option<Recipient> {
    Some(match recipient(header) {
        Some(name) => Recipient::Tool(name.strip_prefix("functions.").unwrap_or(name).to_owned()),
        None if header.contains("<|channel|>analysis") => Recipient::Itself,
        None => Recipient::User,
    })
}

/// `assistant to=self`; calls are marked once more in their messages.
fn muse(header: &str, _: &Tools) -> Option<Recipient> {
    Some(match recipient(header) {
        Some("self") => Recipient::Itself,
        _ => Recipient::User,
    })
}

/// `all`, or a tool's name.
fn functionary(header: &str, tools: &Tools) -> Option<Recipient> {
    match header {
        "all" => Some(Recipient::User),
        name => tools.get(name).map(|tool| Recipient::Tool(tool.name.clone())),
    }
}

fn recipient(header: &str) -> Option<&str> {
    let name = header.split("to=").nth(1)?;
    let end = name.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}
