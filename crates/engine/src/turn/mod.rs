//! One turn of the assistant: a conversation in, and thoughts, text and calls of tools out, as they
//! come. What a session and a server have in common.
mod guard;
mod speech;

use crate::error::{Error, Result};
use crate::model::Model;
use crate::request::{Cancel, Event, Events, Finish, RequestError, Usage};
use crate::sample::{Sampling, Think};
use guard::Guard;
use rinfer_grammar::{After, Constraint};
use rinfer_text::chat::{Chat, Message, Tool};
use rinfer_text::reply::{Budget, Delta};
use rinfer_text::tokenizer::Special;
use rinfer_text::tools::Tools;
use serde_json::{Map, Value};
use speech::Speech;
use std::sync::Arc;

/// What is asked of the assistant. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// Further variables for the chat template, such as `documents`.
    pub vars: Map<String, Value>,
}

/// The variables by which templates are asked for thoughts, and their values for it and against it.
const SWITCHES: [(&str, Switch, Switch); 4] = [
    ("enable_thinking", Switch::Bool(true), Switch::Bool(false)),
    ("thinking", Switch::Bool(true), Switch::Bool(false)),
    ("reasoning", Switch::Bool(true), Switch::Bool(false)),
    ("thinking_mode", Switch::Text("enabled"), Switch::Text("disabled")),
];

#[derive(Clone, Copy)]
enum Switch {
    Bool(bool),
    Text(&'static str),
}

impl From<Switch> for Value {
    fn from(switch: Switch) -> Value {
        match switch {
            Switch::Bool(on) => on.into(),
            Switch::Text(text) => text.into(),
        }
    }
}

/// The template's variables that ask for thoughts or against them, where the caller has not set them.
fn switch(think: Think, vars: &mut Map<String, Value>) {
    for (name, on, off) in SWITCHES {
        let value = match think {
            Think::Auto => continue,
            Think::On => on,
            Think::Off => off,
        };
        vars.entry(name).or_insert_with(|| value.into());
    }
}

impl Model {
    /// Asks for the assistant's turn. `sampling.grammar` is about what it says, not what it thinks.
    ///
    /// # Errors
    /// A model without a chat template, a conversation or tools that the template refuses, a
    /// conversation that leaves no room in the context, or an option out of its range.
    pub fn turn(&self, ask: &Ask, sampling: &Sampling) -> Result<Turn> {
        let language = self.shared_language();
        let format = language.format()?;
        let mut vars = ask.vars.clone();
        switch(sampling.think, &mut vars);
        let (messages, tools) = (ask.messages.clone(), ask.tools.clone());
        let chat = Chat { messages, tools, add_generation_prompt: true, vars };
        let chat = format.admit(chat)?;
        let (prompt, text) = language.render_chat(&chat, self.now())?;
        let tools = Arc::new(Tools::new(&ask.tools));
        let speech = Speech::new(language.clone(), format, tools, &text, &sampling.stop);
        let usage = Usage { prompt: prompt.len(), ..Usage::default() };
        if sampling.grammar.is_some() && !ask.tools.is_empty() {
            return Err(Error::Option {
                option: "grammar",
                found: "with tools".into(),
                problem: "an answer is held to one or calls the others: ask for one of them".into(),
            });
        }
        let mut request = self.request(prompt, sampling);
        request.constraint = self.guard(sampling, &speech, &text)?;
        if !sampling.stop.is_empty() {
            let mut watched = speech.clone();
            request.until = Some(Box::new(move |id| {
                watched.push(id);
                watched.stopped()
            }));
        }
        let events = self.submit(request)?;
        let (waiting, over, finish) = (Vec::new().into_iter(), false, None);
        Ok(Turn { events, speech, waiting, over, finish, usage, calls: 0, _model: self.clone() })
    }
}

impl Model {
    /// What holds a turn: a budget to its thoughts, and a grammar to what follows them.
    fn guard(
        &self,
        sampling: &Sampling,
        speech: &Speech,
        prompt: &str,
    ) -> Result<Option<Box<dyn Constraint>>> {
        let language = self.language();
        let format = language.format()?;
        let most = if sampling.think == Think::Off { Some(0) } else { sampling.think_budget };
        let matcher = self.matcher(sampling)?;
        if let (Some(tags), None, Some(matcher)) = (format.thinking, format.channels, &matcher) {
            let vocabulary = language.vocabulary().map_err(RequestError::from)?;
            let after = After::new(matcher.clone(), vocabulary, tags.close, most);
            let after = after.map_err(RequestError::from)?;
            let closed = prompt.trim_end().ends_with(tags.close);
            return Ok(Some(match speech.is_thinking() {
                true => Box::new(after),
                false if closed || most == Some(0) => Box::new(matcher.clone()),
                false => Box::new(after.or_at_once(tags.open)),
            }));
        }
        let budget = most.zip(format.end_of_thoughts()).map(|(tokens, end)| {
            Budget::new(tokens, language.tokenizer.encode(end, Special::Parse))
        });
        if budget.is_none() && matcher.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(Guard::new(speech.clone(), budget, matcher))))
    }
}

/// The assistant's turn, in pieces, as they become certain. Dropping it ends the generation.
pub struct Turn {
    events: Events,
    speech: Speech,
    /// Read, but not taken.
    waiting: std::vec::IntoIter<Delta>,
    over: bool,
    finish: Option<Finish>,
    usage: Usage,
    calls: usize,
    /// Lives as long as its answers.
    _model: Model,
}

impl Turn {
    /// Why it ended, once it has. Whether it ended to call tools say its [`Turn::calls`].
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }
    /// Complete calls so far.
    pub fn calls(&self) -> usize {
        self.calls
    }
    /// Tokens so far, thoughts included.
    pub fn usage(&self) -> Usage {
        self.usage
    }
    /// What ends it from another thread.
    pub fn canceller(&self) -> Cancel {
        self.events.canceller()
    }
}

impl Iterator for Turn {
    type Item = Result<Delta>;

    fn next(&mut self) -> Option<Result<Delta>> {
        loop {
            if let Some(delta) = self.waiting.next() {
                self.calls += usize::from(matches!(delta, Delta::Close { .. }));
                return Some(Ok(delta));
            }
            if self.over {
                return None;
            }
            let deltas = match self.events.next()? {
                Event::Started { cached } => {
                    self.usage.cached = cached;
                    continue;
                }
                Event::Token(chosen) => {
                    self.usage.generated += 1;
                    self.speech.push(chosen.id)
                }
                Event::Done(finish, usage) => {
                    (self.finish, self.usage, self.over) = (Some(finish), usage, true);
                    self.speech.finish(finish != Finish::Stop)
                }
                Event::Failed(error) => {
                    self.over = true;
                    return Some(Err(Error::Request(error)));
                }
            };
            self.waiting = deltas.into_iter();
        }
    }
}
