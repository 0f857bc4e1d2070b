//! One turn of the assistant: a conversation in, and thoughts, text and calls of tools out, as they
//! come. What a session and a server have in common.
mod calls;
mod guard;
mod speech;

use crate::error::{Error, Result};
use crate::model::Model;
use crate::request::{Cancel, Event, Events, Finish, RequestError, Usage};
use crate::sample::{Sampling, Think};
use calls::Watch;
use guard::{Guard, Held};
use rinfer_grammar::{After, Constraint, Matcher};
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
    /// Whether it may, or must.
    pub choice: ToolChoice,
    /// Further variables for the chat template, such as `documents`.
    pub vars: Map<String, Value>,
}

/// Whether a model may call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It may not, and is shown none.
    None,
    /// It must call one or more.
    Required,
    /// It must call this one.
    Named(String),
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
        let messages = ask.messages.clone();
        let tools = match ask.choice {
            ToolChoice::None => Vec::new(),
            _ => ask.tools.clone(),
        };
        let callable = Arc::new(Tools::new(&tools));
        let chat = Chat { messages, tools, add_generation_prompt: true, vars };
        let chat = format.admit(chat)?;
        let (prompt, text) = language.render_chat(&chat, self.now())?;
        let speech = Speech::new(language.clone(), format, callable.clone(), &text, &sampling.stop);
        let usage = Usage { prompt: prompt.len(), ..Usage::default() };
        if sampling.grammar.is_some() && !callable.is_empty() {
            return Err(Error::Option {
                option: "grammar",
                found: "with tools".into(),
                problem: "an answer is held to one or calls the others: ask for one of them".into(),
            });
        }
        let mut request = self.request(prompt, sampling);
        let must = self.must(&ask.choice, &callable)?;
        request.constraint = self.guard(sampling, &speech, &text, &callable, must)?;
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
    /// The grammar of the calls that must be made.
    fn must(&self, choice: &ToolChoice, tools: &Tools) -> Result<Option<Matcher>> {
        let refused = |found: &str, problem: String| {
            Err(Error::Option { option: "tool_choice", found: found.into(), problem })
        };
        let (found, named) = match choice {
            ToolChoice::Auto | ToolChoice::None => return Ok(None),
            ToolChoice::Required => ("required", tools.all()),
            ToolChoice::Named(name) => match tools.all().iter().position(|t| t.name == *name) {
                Some(at) => (name.as_str(), &tools.all()[at..=at]),
                None => return refused(name, "it is none of the tools".into()),
            },
        };
        let language = self.language();
        let Some(syntax) = language.format()?.syntax.filter(|_| !named.is_empty()) else {
            return refused(found, "there are no tools to call".into());
        };
        let many = *choice == ToolChoice::Required;
        let Some(grammar) = calls::grammar(language, syntax, named, many) else {
            let problem = format!("calls in the syntax {} can't be forced: use auto", syntax.name);
            return refused(found, problem);
        };
        let vocabulary = language.vocabulary().map_err(RequestError::from)?;
        Ok(Some(grammar.compile(vocabulary).map_err(RequestError::from)?))
    }

    /// What holds a turn: a budget to its thoughts, a grammar to what follows them, and schemas to
    /// its calls. `must` is the grammar of calls that must be made.
    fn guard(
        &self,
        sampling: &Sampling,
        speech: &Speech,
        prompt: &str,
        tools: &Tools,
        must: Option<Matcher>,
    ) -> Result<Option<Box<dyn Constraint>>> {
        let language = self.language();
        let format = language.format()?;
        let most = if sampling.think == Think::Off { Some(0) } else { sampling.think_budget };
        let matcher = if must.is_some() { must } else { self.matcher(sampling)? };
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
        let watch = || match format.syntax.filter(|_| !tools.is_empty()) {
            Some(syntax) => Watch::new(language, syntax, tools.all()),
            None => Ok(None),
        };
        let held = match matcher {
            Some(matcher) => Held::Said(Box::new(matcher)),
            None => watch()?.map_or(Held::Nothing, |calls| Held::Calls(Box::new(calls))),
        };
        if budget.is_none() && matches!(held, Held::Nothing) {
            return Ok(None);
        }
        Ok(Some(Box::new(Guard::new(speech.clone(), budget, held))))
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
