//! Takes an answer apart; see [`Delta`].
use super::{Channels, Delta, Format, Recipient};
use crate::tools::machine::{Machine, Run};
use crate::tools::tape::{Found, Tape};
use crate::tools::{Op, Opening, Tools};
use std::sync::Arc;

/// Reads one answer.
#[derive(Clone, Debug)]
pub struct Reader {
    format: Format,
    tools: Arc<Tools>,
    tape: Tape,
    machine: Machine,
    place: Place,
    /// White space that is shown if other text follows it.
    blank: String,
    /// Whether white space before the next text is dropped.
    strip: bool,
    /// Whether nothing but white space has been said, or since the last call.
    fresh: bool,
    /// Whether there were thoughts.
    thought: bool,
    /// With what calls begin, if an answer is calls or has a form.
    openings: Option<Vec<String>>,
    deltas: Vec<Delta>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In what the model says.
    Content,
    /// In what it thinks; whether that is a message of its own.
    Thoughts {
        message: bool,
    },
    Call,
    /// In a message's header; of its text so far, the prompt gave this many bytes.
    Header {
        text: String,
        given: usize,
    },
}

/// What a tag in an answer does.
#[derive(Clone, Copy)]
enum Tag {
    Call(&'static [Op]),
    Think,
    Header,
    Drop,
}

impl Reader {
    /// Of the answer to a prompt, whose end says where the answer begins: perhaps in thoughts.
    /// Calls are read only if there are tools.
    pub fn new(format: &Format, tools: Arc<Tools>, prompt: &str) -> Reader {
        let machine = Machine::new(format.markup(), tools.clone());
        let mut reader = Reader {
            format: format.clone(),
            tools,
            tape: Tape::default(),
            machine,
            place: Place::Content,
            blank: String::new(),
            strip: false,
            fresh: true,
            thought: false,
            openings: None,
            deltas: Vec::new(),
        };
        reader.begin(prompt);
        reader
    }
    /// Takes text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        self.tape.push(text);
        self.advance();
        std::mem::take(&mut self.deltas)
    }
    /// Takes a token of the markup by its name; `shown` is whether it is text where it is none.
    pub fn push_token(&mut self, name: &str, shown: bool) -> Vec<Delta> {
        self.tape.push_token(name, shown);
        self.advance();
        std::mem::take(&mut self.deltas)
    }
    /// The rest, at the end of the answer. A call that the end cuts through is broken; if the model
    /// ended by itself (not `cut`), one that only lacks its closing tag is complete.
    pub fn finish(&mut self, cut: bool) -> Vec<Delta> {
        self.tape.end(cut);
        loop {
            self.advance();
            match &mut self.place {
                Place::Call => {
                    let ends = !cut && self.tape.text().trim().is_empty();
                    match ends && self.machine.close_whole(&mut self.deltas) {
                        true => self.called(),
                        false => self.take_back(),
                    }
                }
                Place::Header { text, given } => {
                    let text = text.split_off(*given);
                    self.place = Place::Content;
                    self.say(&text);
                }
                Place::Content | Place::Thoughts { .. } => break,
            }
        }
        if self.place == Place::Content && !self.strip {
            let blank = std::mem::take(&mut self.blank);
            self.delta(Delta::Content(blank));
        }
        std::mem::take(&mut self.deltas)
    }
    /// Whether the model is thinking.
    pub fn is_thinking(&self) -> bool {
        matches!(self.place, Place::Thoughts { .. })
    }
    /// Whether the model is in what it says, not in thoughts, a call or a message's header.
    pub fn is_saying(&self) -> bool {
        self.place == Place::Content
    }

    /// What there is of a message's header, if the answer is in one; with what the prompt gave.
    pub fn in_header(&self) -> Option<&str> {
        match &self.place {
            Place::Header { text, .. } => Some(text),
            _ => None,
        }
    }
    /// Reads calls only where the answer begins with one of these texts, or a call before it ended:
    /// what does not has a form, in which nothing is a call.
    pub fn formed(&mut self, openings: Vec<String>) {
        self.openings = Some(openings);
    }
    /// Whether calls are read here. None if that can't be told yet.
    fn may_call(&self) -> Option<bool> {
        let Some(openings) = &self.openings else { return Some(true) };
        let text = self.tape.text().trim_start();
        let begins = |open: &String| text.starts_with(open.as_str());
        let may = |open: &String| open.starts_with(text) && !self.tape.has_ended();
        match self.fresh {
            true if openings.iter().any(begins) => Some(true),
            true if openings.iter().any(may) => None,
            _ => Some(false),
        }
    }

    /// Where the prompt leaves off.
    fn begin(&mut self, prompt: &str) {
        if let Some(Channels { start, message, .. }) = self.format.channels
            && let Some(at) = prompt.rfind(start)
        {
            let header = &prompt[at + start.len()..];
            match header.split_once(message) {
                None => {
                    let (text, given) = (header.to_owned(), header.len());
                    self.place = Place::Header { text, given };
                }
                Some((header, rest)) if rest.trim().is_empty() => self.address(header),
                Some(_) => {}
            }
        }
        if let Some(tags) = self.format.thinking
            && prompt.trim_end().ends_with(tags.open.trim_end())
        {
            self.think(false);
        }
    }
    fn think(&mut self, message: bool) {
        self.place = Place::Thoughts { message };
        (self.strip, self.thought) = (true, true);
        self.blank.clear();
    }
    fn delta(&mut self, delta: Delta) {
        if !matches!(&delta, Delta::Content(text) | Delta::Reasoning(text) if text.is_empty()) {
            self.deltas.push(delta);
        }
    }
    fn advance(&mut self) {
        loop {
            let goes_on = match &self.place {
                Place::Content => self.content(),
                Place::Thoughts { message } => self.thoughts(*message),
                Place::Call => self.call(),
                Place::Header { .. } => self.header(),
            };
            if !goes_on {
                return;
            }
        }
    }
    fn content(&mut self) -> bool {
        let Some(calls) = self.may_call() else { return false };
        if calls
            && self.fresh
            && let Some(goes_on) = self.bare()
        {
            return goes_on;
        }
        let tags = self.tags(calls);
        let texts: Vec<&str> = tags.iter().map(|(text, _)| *text).collect();
        let markup = self.format.markup();
        let (at, tag) = match self.tape.find(&texts, &markup) {
            Found::At(at, which) => (at, Some(tags[which])),
            Found::NotBefore(at) => (at, None),
        };
        let before = self.tape.take_shown(at);
        self.say(&before);
        let Some((text, tag)) = tag else { return false };
        // Where the tag is no token, text may spell it: thoughts are where the answer begins.
        if matches!(tag, Tag::Think) && !self.fresh && !markup.is_token(text) {
            let text = self.tape.take(text.len());
            self.say(&text);
            return true;
        }
        match tag {
            Tag::Call(ops) => self.begin_call(ops, None, ""),
            Tag::Think => self.think(false),
            Tag::Header => self.place = Place::Header { text: String::new(), given: 0 },
            Tag::Drop => {}
        }
        if !matches!(tag, Tag::Call(_)) {
            self.tape.take(text.len());
        }
        true
    }
    /// A call without a tag, where one may begin. None if there is none.
    fn bare(&mut self) -> Option<bool> {
        let called = self.machine.count() > 0;
        let calls = self.format.syntax.filter(|_| !self.tools.is_empty())?.calls;
        let first = self.tape.text().trim_start().chars().next();
        if first.is_none() && self.tape.is_blank_so_far() {
            return Some(false);
        }
        let (_, ops) = calls.iter().find(|(opening, _)| match opening {
            Opening::Bare(c) => first == Some(*c) && (called || *c == '{'),
            _ => false,
        })?;
        let space = self.tape.text().len() - self.tape.text().trim_start().len();
        self.blank += &self.tape.take(space);
        self.begin_call(ops, None, "");
        Some(true)
    }
    /// The tags that have a meaning in what the model says, those of calls only if it may be one.
    fn tags(&self, calls: bool) -> Vec<(&'static str, Tag)> {
        let mut tags = Vec::new();
        if let Some(syntax) = self.format.syntax.filter(|_| calls && !self.tools.is_empty()) {
            tags.extend(syntax.calls.iter().filter_map(|(opening, ops)| match opening {
                Opening::Tag(tag) => Some((*tag, Tag::Call(ops))),
                _ => None,
            }));
        }
        // In an answer of a form nothing but a message's end is markup.
        let free = self.openings.is_none() || self.fresh;
        if let Some(thinking) = self.format.thinking.filter(|_| free) {
            tags.push((thinking.open, Tag::Think));
            // A token that ends thoughts where there are none is no text either.
            if self.format.markup().is_token(thinking.close) {
                tags.push((thinking.close, Tag::Drop));
            }
            let answer = thinking.answer.iter().filter(|_| self.thought);
            tags.extend(answer.map(|tag| (*tag, Tag::Drop)));
        }
        if let Some(channels) = self.format.channels {
            tags.push((channels.start, Tag::Header));
            tags.extend(channels.ends.iter().map(|end| (*end, Tag::Drop)));
        }
        tags
    }
    /// Shows text, less the white space around calls and after thoughts.
    fn say(&mut self, text: &str) {
        let text = if self.strip { text.trim_start() } else { text };
        // Calls have white space around them, and thoughts before them.
        let waits = !self.tools.is_empty()
            || self.fresh && self.format.thinking.is_some() && text.trim().is_empty();
        let body = if waits { text.trim_end() } else { text };
        let said = if body.is_empty() { String::new() } else { std::mem::take(&mut self.blank) };
        self.blank += &text[body.len()..];
        if !body.trim().is_empty() {
            (self.strip, self.fresh) = (false, false);
        }
        self.delta(Delta::Content(said + body));
    }
    fn thoughts(&mut self, message: bool) -> bool {
        let markup = self.format.markup();
        let ends: Vec<&str> = match (self.format.channels, self.format.thinking) {
            (Some(channels), _) if message => {
                channels.ends.iter().copied().chain([channels.start]).collect()
            }
            (_, Some(tags)) => vec![tags.close],
            _ => Vec::new(),
        };
        let found = self.tape.find(&ends, &markup);
        let (Found::At(at, _) | Found::NotBefore(at)) = found;
        let text = self.tape.take_shown(at);
        let text = if self.strip { text.trim_start() } else { text.as_str() };
        let body = text.trim_end();
        let said = if body.is_empty() { String::new() } else { std::mem::take(&mut self.blank) };
        self.blank += &text[body.len()..];
        self.strip = self.strip && body.is_empty();
        self.delta(Delta::Reasoning(said + body));
        let Found::At(_, which) = found else { return false };
        if !message || ends[which] != self.format.channels.map_or("", |c| c.start) {
            self.tape.take(ends[which].len());
        }
        self.blank.clear();
        (self.place, self.strip) = (Place::Content, true);
        true
    }
    fn header(&mut self) -> bool {
        let Some(channels) = self.format.channels else { return false };
        let Place::Header { text: header, .. } = &mut self.place else { return false };
        let found = self.tape.find(&[channels.message], &self.format.markup());
        let (Found::At(at, _) | Found::NotBefore(at)) = found;
        *header += &self.tape.take(at);
        if let Found::NotBefore(_) = found {
            return false;
        }
        let header = std::mem::take(header);
        self.tape.take(channels.message.len());
        self.address(&header);
        true
    }
    /// Goes into the message after a header.
    fn address(&mut self, header: &str) {
        let Some(channels) = self.format.channels else { return };
        self.place = Place::Content;
        let whole = || format!("{}{header}{}", channels.start, channels.message);
        let message = self.format.syntax.and_then(|syntax| {
            syntax.calls.iter().find(|(opening, _)| matches!(opening, Opening::Message(_)))
        });
        match ((channels.read)(header, &self.tools), message) {
            (Some(Recipient::User), _) => {}
            (Some(Recipient::Itself), _) => self.think(true),
            (Some(Recipient::Tool(name)), Some((_, ops))) if !self.tools.is_empty() => {
                self.begin_call(ops, Some(name), &whole());
            }
            (Some(Recipient::Tool(_)) | None, _) => self.say(&whole()),
        }
    }
    fn begin_call(&mut self, ops: &'static [Op], name: Option<String>, before: &str) {
        self.place = Place::Call;
        self.deltas.extend(self.machine.begin(ops, name, before));
    }
    fn call(&mut self) -> bool {
        match self.machine.run(&mut self.tape, &mut self.deltas) {
            Run::Waits => return false,
            // At the end of the answer, what only lacks its closing tag may be whole.
            Run::Failed if self.tape.is_over() => return false,
            Run::Done if self.machine.closed() > 0 => self.called(),
            Run::Done | Run::Failed => self.take_back(),
        }
        true
    }
    /// After calls.
    fn called(&mut self) {
        self.place = Place::Content;
        self.blank.clear();
        (self.strip, self.fresh) = (true, true);
    }
    /// After what was no call, or only the beginning of one.
    fn take_back(&mut self) {
        if self.machine.closed() > 0 {
            self.called();
        }
        self.place = Place::Content;
        match self.machine.take_back() {
            Delta::Content(text) => self.say(&text),
            broken => {
                self.blank.clear();
                (self.strip, self.fresh) = (false, false);
                self.delta(broken);
            }
        }
    }
}
