//! One turn of the assistant: a conversation in, and thoughts, text and calls of tools out, as they
//! come. What a session and a server have in common.
mod calls;
mod guard;
mod said;
mod scores;
mod shapes;
mod speech;

pub use scores::{Part, Scored};

use crate::batch::TokenId;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::request::{Cancel, Chosen, Event, Events, Finish, Progress, RequestError, Usage};
use crate::sample::{Sampling, Think};
use calls::Watch;
use guard::{Guard, Held};
use rinfer_grammar::{After, Constraint, Matcher};
use rinfer_text::chat::{Chat, Message, Tool};
use rinfer_text::reply::{Budget, Delta};
use rinfer_text::tokenizer::Special;
use rinfer_text::tools::{Syntax, Tools};
use said::Said;
use scores::Scores;
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
    /// Whether it may make at most one call.
    pub single: bool,
    /// Further variables for the chat template, such as `documents`.
    pub vars: Map<String, Value>,
    /// Reports how probable each token was, and this many most probable ones: [`Turn::scores`].
    pub logprobs: Option<usize>,
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

impl Ask {
    /// The tools that the model is shown.
    fn shown(&self) -> &[Tool] {
        if self.choice == ToolChoice::None { &[] } else { &self.tools }
    }
    /// The template's variables, with those that ask for thoughts or against them.
    fn switched(&self, think: Think) -> Map<String, Value> {
        let mut vars = self.vars.clone();
        switch(think, &mut vars);
        vars
    }
}

impl Model {
    /// The prompt that [`Model::turn`] goes on from: its tokens, and its text.
    ///
    /// # Errors
    /// As there, of the conversation.
    pub fn prompt(&self, ask: &Ask, think: Think) -> Result<(Vec<TokenId>, String)> {
        calls::distinct(ask.shown())?;
        let vars = ask.switched(think);
        let (messages, tools) = (ask.messages.clone(), ask.shown().to_vec());
        let chat = Chat { messages, tools, add_generation_prompt: true, vars };
        let language = self.language();
        language.render_chat(&language.format()?.admit(chat)?, self.now())
    }

    /// Asks for the assistant's turn. `sampling.grammar` is about what it says, not what it thinks.
    ///
    /// # Errors
    /// A model without a chat template, a conversation or tools that the template refuses, a
    /// conversation that leaves no room in the context, or an option out of its range.
    pub fn turn(&self, ask: &Ask, sampling: &Sampling) -> Result<Turn> {
        self.begin(ask, sampling, self.prompt(ask, sampling.think)?)
    }

    /// Asks for `n` of them, each with a seed of its own, from `sampling.seed` on. The prompt is rendered
    /// once, and computed once unless `sampling` keeps it to itself.
    ///
    /// # Errors
    /// As [`Model::turn`].
    pub fn turns(&self, ask: &Ask, sampling: &Sampling, n: usize) -> Result<Vec<Turn>> {
        let prompt = self.prompt(ask, sampling.think)?;
        let seeds = (0..n).map(|i| sampling.seed.wrapping_add(i as u64));
        let one = |seed| self.begin(ask, &Sampling { seed, ..sampling.clone() }, prompt.clone());
        seeds.map(one).collect()
    }

    fn begin(
        &self,
        ask: &Ask,
        sampling: &Sampling,
        prompt: (Vec<TokenId>, String),
    ) -> Result<Turn> {
        let language = self.shared_language();
        let format = language.format()?;
        let (prompt, text) = prompt;
        let mut callable = Tools::new(ask.shown());
        if let Some(syntax) = format.syntax.filter(|_| ask.choice != ToolChoice::None) {
            callable = callable.with_built_in(syntax, &ask.switched(sampling.think));
        }
        let callable = Arc::new(callable);
        let mut speech =
            Speech::new(language.clone(), format, callable.clone(), &text, &sampling.stop);
        let usage = Usage { prompt: prompt.len(), ..Usage::default() };
        let mut request = self.request(prompt, sampling);
        request.logprobs = ask.logprobs;
        let must = self.must(ask, &callable)?;
        request.constraint = self.guard(sampling, &mut speech, &text, (ask, &callable), must)?;
        if !sampling.stop.is_empty() {
            let mut watched = speech.clone();
            request.until = Some(Box::new(move |id| {
                watched.push(id);
                watched.stopped()
            }));
        }
        let events = self.submit(request)?;
        let (waiting, over, finish) = (Vec::new().into_iter(), false, None);
        let (scores, _model) = (ask.logprobs.map(|_| Scores::default()), self.clone());
        let (thoughts, calls) = (0, 0);
        Ok(Turn { events, speech, scores, waiting, over, finish, usage, thoughts, calls, _model })
    }
}

impl Model {
    /// The grammar of the calls that must be made.
    fn must(&self, ask: &Ask, tools: &Tools) -> Result<Option<Matcher>> {
        let refused = |found: &str, problem: String| {
            Err(Error::Option { option: "tool_choice", found: found.into(), problem })
        };
        let (found, named) = match &ask.choice {
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
        let many = ask.choice == ToolChoice::Required && !ask.single;
        let Some(grammar) = calls::grammar(language, syntax, named, many) else {
            let problem = format!(
                "a tool's arguments can't be written in the model's syntax {}: give its required \
                 parameters names of letters, digits and underscores, or use auto",
                syntax.name
            );
            return refused(found, problem);
        };
        calls::compile(language, &grammar).map(Some)
    }

    /// What holds a turn: a budget to its thoughts, a form to what follows them, and schemas to its
    /// calls. `must` is the grammar of calls that must be made.
    fn guard(
        &self,
        sampling: &Sampling,
        speech: &mut Speech,
        prompt: &str,
        asked: (&Ask, &Tools),
        must: Option<Matcher>,
    ) -> Result<Option<Box<dyn Constraint>>> {
        let (ask, tools) = asked;
        let language = self.language();
        let format = language.format()?;
        let most = if sampling.think == Think::Off { Some(0) } else { sampling.think_budget };
        let syntax = format.syntax.filter(|_| !tools.is_empty());
        let messages = syntax.is_some_and(Syntax::by_message);
        let forced = must.is_some();
        let mut held = Held::default();
        let mut ways = Vec::new();
        match must {
            Some(must) if messages => held.all = Some(Box::new(must)),
            Some(must) => ways.push(must),
            None => {
                let form = self.matcher(sampling)?;
                if form.is_some() && !messages {
                    speech.formed(Vec::new());
                }
                if let (Some(form), Some(syntax)) = (&form, syntax.filter(|_| !messages)) {
                    ways.push(self.calls_beside(form, speech, syntax, (ask, tools))?);
                }
                ways.extend(form);
            }
        }
        let said = Said::new(ways);
        if let (Some(tags), None, Some(said)) = (format.thinking, format.channels, &said) {
            let vocabulary = language.vocabulary().map_err(RequestError::from)?;
            let after = After::new(said.clone(), vocabulary, tags.close, most);
            let after = after.map_err(RequestError::from)?;
            let closed = prompt.trim_end().ends_with(tags.close);
            return Ok(Some(match speech.is_thinking() {
                true => Box::new(after),
                false if closed || most == Some(0) => Box::new(said.clone()),
                false => Box::new(after.or_at_once(tags.open)),
            }));
        }
        let budget = most.zip(format.end_of_thoughts(forced)).map(|(tokens, end)| {
            Budget::new(tokens, language.tokenizer.encode(end, Special::Parse))
        });
        if let Some(syntax) = syntax.filter(|_| !forced && (said.is_none() || messages)) {
            let watch = Watch::new(language, syntax, tools.all(), !ask.single)?;
            held.calls = watch.map(Box::new);
        }
        held.said = said.map(Box::new);
        if budget.is_none() && held.is_nothing() {
            return Ok(None);
        }
        Ok(Some(Box::new(Guard { speech: speech.clone(), budget, held })))
    }

    /// Calls that may be made instead of an answer of a form. What an answer is tells its beginning.
    fn calls_beside(
        &self,
        form: &Matcher,
        speech: &mut Speech,
        syntax: &Syntax,
        (ask, tools): (&Ask, &Tools),
    ) -> Result<Matcher> {
        let language = self.language();
        let refused = |problem: &str| {
            let problem = problem.to_owned();
            Err(Error::Option { option: "grammar", found: "with tools".into(), problem })
        };
        let shapes = syntax.shapes(tools.all(), !ask.single);
        let openings: Vec<String> = shapes.into_iter().map(|calls| calls.open).collect();
        let alike = openings.iter().any(|open| {
            let mut form = form.clone();
            let ids = language.tokenizer.encode(open, Special::Parse);
            ids.into_iter().all(|id| form.accept(id).is_ok())
        });
        if alike {
            return refused(
                "an answer of this form may begin as a call does: use a form that does not, or ask \
                 for one of them",
            );
        }
        let Some(calls) = calls::grammar(language, syntax, tools.all(), !ask.single) else {
            return refused("a tool's arguments can't be written in the model's syntax of calls");
        };
        speech.formed(openings);
        language.compile(&calls)
    }
}

/// The assistant's turn, in pieces, as they become certain. Dropping it ends the generation.
pub struct Turn {
    events: Events,
    speech: Speech,
    scores: Option<Scores>,
    /// Read, but not taken.
    waiting: std::vec::IntoIter<Delta>,
    over: bool,
    finish: Option<Finish>,
    usage: Usage,
    thoughts: usize,
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
    /// How many of them are of thoughts, with what ends those.
    pub fn thoughts(&self) -> usize {
        self.thoughts
    }
    /// The stop text that ended it, if one did.
    pub fn stop(&self) -> Option<&str> {
        self.speech.stop()
    }
    /// The tokens since this was last asked, up to those of which it is not known yet what they are
    /// part of. Without [`Ask::logprobs`] there are none.
    pub fn scores(&mut self) -> Vec<Scored> {
        self.scores.as_mut().map(Scores::take).unwrap_or_default()
    }
    /// What ends it from another thread.
    pub fn canceller(&self) -> Cancel {
        self.events.canceller()
    }
    /// How far it is, for another thread to ask.
    pub fn progress(&self) -> Progress {
        self.events.progress()
    }
    fn token(&mut self, chosen: Chosen) -> Vec<Delta> {
        self.usage.generated += 1;
        self.thoughts += usize::from(self.speech.is_thinking());
        let (id, part) = (chosen.id, self.speech.part(chosen.id));
        let deltas = self.speech.push(id);
        if let Some(scores) = &mut self.scores {
            scores.push(chosen, self.speech.bytes(id.0).to_vec(), part, &deltas);
        }
        deltas
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
                Event::Token(chosen) => self.token(chosen),
                Event::Done(finish, usage) => {
                    (self.finish, self.usage, self.over) = (Some(finish), usage, true);
                    self.scores.iter_mut().for_each(Scores::end);
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
