//! What the commands do.
use super::command::{Verb, help};
use super::saved::{Saved, expanded};
use super::{Chat, Fault, open};
use crate::cmd::options::describe;
use crate::cmd::{Log, Sampler, Usage};
use clap::{CommandFactory, Parser};
use rinfer_engine::session::Session;
use rinfer_grammar::{Grammar, Spacing};
use rinfer_terminal::neutral;
use std::sync::Arc;

/// `/set` takes what the program's flags take.
#[derive(Parser)]
#[command(name = "/set", disable_help_flag = true)]
struct SetLine {
    #[command(flatten)]
    sampler: Sampler,
}

/// The names that `/set` takes.
pub fn flags() -> Vec<String> {
    let command = SetLine::command();
    let mut names: Vec<String> =
        command.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect();
    names.sort();
    names
}

impl Chat<'_> {
    /// Does what a command asks. False if that is to leave.
    pub(super) fn command(&mut self, verb: Verb, rest: &str) -> anyhow::Result<bool> {
        let takes_none = matches!(
            verb,
            Verb::Params | Verb::Retry | Verb::Undo | Verb::Reset | Verb::Stats | Verb::Quit
        );
        if takes_none && !rest.is_empty() {
            return fault(format!("this command takes nothing, and '{rest}' follows it"));
        }
        match verb {
            Verb::Quit => return Ok(false),
            Verb::Help => eprintln!("{}", help()),
            Verb::Reset => self.session().reset(),
            Verb::System => _ = self.session().system(rest),
            Verb::Set => self.set(rest)?,
            Verb::Params => self.params(),
            Verb::Think => self.think(rest)?,
            Verb::Json => self.json(rest)?,
            Verb::Image => {
                let text = format!("{} sees no images: no model does yet", self.name());
                return fault(text);
            }
            Verb::Retry => self.answer(Session::retry)?,
            Verb::Undo => match self.session().undo() {
                Some(text) => eprintln!("taken back: {}", brief(&text)),
                None => return fault("there is nothing to take back"),
            },
            Verb::Save => self.save(rest)?,
            Verb::Load => self.load(rest)?,
            Verb::Model => self.model(rest)?,
            Verb::Stats => self.stats(),
        }
        Ok(true)
    }

    fn params(&mut self) {
        let (context, folds) = (self.context, self.folds);
        let session = self.session();
        let system = session.system_message().unwrap_or("none").to_owned();
        let sampling = session.sampling();
        let form = match sampling.grammar.as_deref() {
            None => "any text",
            Some(Grammar::Object(_)) => "a JSON object",
            Some(Grammar::Schema(..)) => "JSON of a schema",
            Some(_) => "held to a form",
        };
        let sampling = describe(sampling);
        let thoughts = if folds { "folded" } else { "shown" };
        let system = neutral(&system);
        eprintln!(
            "{sampling}\nanswers: {form}; thoughts: {thoughts}; context {context}\nsystem: {system}"
        );
    }

    fn stats(&self) {
        match &self.stats {
            Some(stats) => eprintln!("{stats}; context {}", self.context),
            None => eprintln!("no answer yet"),
        }
    }

    fn set(&mut self, text: &str) -> anyhow::Result<()> {
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if name.is_empty() {
            return fault(format!("/set NAME VALUE; the names are {}", flags().join(", ")));
        }
        let name = name.trim_start_matches('-').replace('_', "-");
        let flag = match (&*name, value.trim()) {
            ("json-object", "") => "--json-object".to_owned(),
            (_, value) => format!("--{name}={value}"),
        };
        let line = SetLine::try_parse_from(["/set", &flag]).map_err(|error| {
            // Its first line says what is wrong, the others how the program is called.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Fault(first.trim_start_matches("error: ").to_owned())
        })?;
        let faulty = |Usage(text)| Fault(text);
        line.sampler.check().map_err(faulty)?;
        let form = line.sampler.form().map_err(faulty)?;
        if form.is_some() {
            self.hold(form)?;
        }
        line.sampler.apply(self.session().sampling());
        self.given.set.push(line.sampler);
        Ok(())
    }

    /// Answers are of this form from now on, if it can be used; none is any.
    fn hold(&mut self, form: Option<Arc<Grammar>>) -> anyhow::Result<()> {
        let session = self.session();
        if let Some(form) = &form {
            session.model().prepare_form(form).map_err(|e| Fault(e.to_string()))?;
        }
        session.sampling().grammar = form;
        Ok(())
    }

    fn json(&mut self, rest: &str) -> anyhow::Result<()> {
        let form = match rest {
            "off" => None,
            "" => Some(Grammar::Object(Spacing::default())),
            path => {
                let file = expanded(path, self.env.home.as_deref());
                let read = std::fs::read_to_string(&file);
                let text = read.map_err(|e| Fault(format!("{path}: {e}")))?;
                Some(Grammar::schema(&text).map_err(|e| Fault(format!("{path}: {e}")))?)
            }
        };
        self.hold(form.map(Arc::new))
    }

    fn think(&mut self, rest: &str) -> anyhow::Result<()> {
        match rest {
            "" if self.thoughts.is_empty() => {
                eprintln!("no thoughts came before the last answer");
            }
            "" => eprintln!("{}", neutral(&self.thoughts)),
            "show" | "fold" => self.folds = rest == "fold",
            how => self.set(&format!("think {how}"))?,
        }
        Ok(())
    }

    fn save(&mut self, rest: &str) -> anyhow::Result<()> {
        if rest.is_empty() {
            return fault("/save FILE: name a file for the conversation");
        }
        let (model, path) = (self.name(), expanded(rest, self.env.home.as_deref()));
        let session = self.session();
        let saved = Saved {
            model,
            system: session.system_message().map(str::to_owned),
            messages: session.history().to_vec(),
            sampling: session.sampling().clone(),
        };
        saved.write(&path).map_err(|e| Fault(e.to_string()))?;
        self.tell(format!("{} messages are in {}", saved.messages.len(), path.display()));
        Ok(())
    }

    fn load(&mut self, rest: &str) -> anyhow::Result<()> {
        if rest.is_empty() {
            return fault("/load FILE: name a file that /save wrote");
        }
        let path = expanded(rest, self.env.home.as_deref());
        self.go_on(Saved::read(&path).map_err(|e| Fault(e.to_string()))?);
        Ok(())
    }

    /// Goes on from a conversation in a file, in the place of what there is.
    pub(super) fn go_on(&mut self, saved: Saved) {
        let Saved { model, system, messages, sampling } = saved;
        self.tell(format!("the conversation has {} messages", messages.len()));
        if model != self.name() {
            let text = format!("note: it was held with {model}, and goes on with {}", self.name());
            self.env.say(Log::Warn, text);
        }
        let session = self.session();
        session.system(system.unwrap_or_default()).continue_from(messages);
        *session.sampling() = sampling.clone();
        (self.stats, self.thoughts) = (None, String::new());
        self.given.saved = Some(sampling);
        self.given.set.clear();
    }

    /// Goes on with another model. Memory has room for one: if the other can't be had, the first is loaded
    /// again.
    fn model(&mut self, rest: &str) -> anyhow::Result<()> {
        if rest.is_empty() {
            eprintln!("{}, context {}", self.name(), self.context);
            return Ok(());
        }
        self.env.open(Some(rest)).map_err(|e| Fault(format!("{e:#}")))?;
        let Some(mut session) = self.session.take() else { return Ok(()) };
        let (system, messages) =
            (session.system_message().map(str::to_owned), session.history().to_vec());
        let before = session.sampling().clone();
        drop(session);
        let open = |name: Option<&str>| open(name, self.args, self.env, &self.interrupt);
        let (model, refused) = match open(Some(rest)) {
            Ok(model) => (model, None),
            Err(error) => (open(self.model.as_deref())?, Some(Fault(format!("{error:#}")))),
        };
        self.context = model.limits().context;
        let mut session = model.session();
        session.system(system.unwrap_or_default()).continue_from(messages);
        if refused.is_some() {
            *session.sampling() = before;
        } else {
            self.given.apply(session.sampling());
            (session.sampling().seed, session.sampling().grammar) = (before.seed, before.grammar);
            self.model = Some(rest.to_owned());
            self.tell(format!("{rest}, context {}", self.context));
        }
        self.session = Some(session);
        refused.map_or(Ok(()), |fault| Err(fault.into()))
    }
}

/// The first line of a text, and how many there are.
fn brief(text: &str) -> String {
    let first = neutral(text.lines().next().unwrap_or_default());
    match text.lines().count() {
        0 | 1 => first,
        lines => format!("{first} … ({lines} lines)"),
    }
}

fn fault<T>(text: impl Into<String>) -> anyhow::Result<T> {
    Err(Fault(text.into()).into())
}
