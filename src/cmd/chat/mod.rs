//! `rinfer chat`: a conversation at a terminal, or with a program, line by line.
mod command;
mod complete;
mod input;
mod obey;
mod saved;

use super::options::draw_seed;
use super::run::load_watched;
use super::told::Told;
use super::{Environment, Interrupt, Interrupted, Loading, Log, Sampler, put};
use anyhow::{Context, anyhow};
use command::Asked;
use complete::Words;
use input::Input;
use rinfer_engine::error::Error;
use rinfer_engine::model::Model;
use rinfer_engine::request::Finish;
use rinfer_engine::sample::Sampling;
use rinfer_engine::session::{Reply, Session};
use rinfer_grammar::Grammar;
use rinfer_terminal::{Editor, Screen, Terminal, neutral};
use saved::Saved;
use std::path::Path;
use std::sync::Arc;

/// Talk with a model: rinfer chat model.gguf
///
/// A line that ends with a backslash goes on in the next. Ctrl-C stops an answer, Ctrl-D leaves. Piped lines are
/// messages and commands; the exit code is 1 if one of them failed.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Go on with the conversation that /save wrote to FILE
    #[arg(long, value_name = "FILE")]
    resume: Option<String>,
    /// Keep nothing of what is typed for later conversations
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    sampler: Sampler,
    #[command(flatten)]
    loading: Loading,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    args.sampler.check()?;
    let mut flags = args.sampler.clone();
    flags.seed = flags.seed.or_else(|| Some(draw_seed()));
    let given = Given { saved: None, set: vec![flags] };
    let form = args.sampler.form()?;
    let resumed = args.resume.as_ref().map(|file| Saved::read(Path::new(file))).transpose()?;
    let interrupt = Interrupt::install()?;
    let model = open(args.model.as_deref(), args, env, &interrupt)?;
    if form.is_some() {
        // While the first message is typed.
        model.prepare_forms();
    }
    let mut session = model.session();
    session.system(args.system.clone().unwrap_or_default());
    given.apply(session.sampling());
    session.sampling().grammar = form.clone();
    let mut input = input(args, env)?;
    let mut chat = Chat {
        session: Some(session),
        context: model.limits().context,
        model: args.model.clone(),
        args,
        interrupt,
        env,
        given,
        form,
        folds: false,
        stats: None,
        thoughts: String::new(),
        person: input.is_person(),
    };
    drop(model);
    chat.tell(format!("{}, context {}. /help shows commands", chat.name(), chat.context));
    if let Some(saved) = resumed {
        chat.go_on(saved);
        chat.insist();
    }
    let mut failed = false;
    while let Some(line) = input.next(env, &chat.interrupt)? {
        match chat.obey(&line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.is::<Fault>() => {
                eprintln!("error: {}", neutral(&format!("{error:#}")));
                failed = true;
            }
            Err(error) => return Err(error),
        }
    }
    match failed && !chat.person {
        true => Err(anyhow!("not all lines could be answered")),
        false => Ok(()),
    }
}

/// What is wrong with one line: the conversation goes on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

/// A model to talk with.
fn open(
    model: Option<&str>,
    args: &Args,
    env: &Environment,
    interrupt: &Interrupt,
) -> anyhow::Result<Model> {
    let model = load_watched(model, args.loading.load(env), env, interrupt)?;
    match &model.language().template {
        Ok(_) => Ok(model),
        Err(none) => Err(Error::NoTemplate(none.clone()))
            .context("rinfer run --raw MODEL PROMPT goes without a template"),
    }
}

fn input(args: &Args, env: &Environment) -> anyhow::Result<Input> {
    let Terminal { input, moves, colors, .. } = env.terminal;
    if !input || !moves {
        return Ok(Input::Lines { asks: input, read: 0 });
    }
    let words = Words { flags: obey::flags(), models: models(env), home: env.home.clone() };
    let history = env.history.clone().filter(|_| !args.no_history);
    let (editor, note) = Editor::new(Arc::new(words), history, colors)?;
    if let Some(note) = note {
        env.say(Log::Warn, format!("note: {note}"));
    }
    Ok(Input::Editor(Box::new(editor)))
}

/// What `/model` may be given, besides files.
#[cfg(feature = "pull")]
fn models(env: &Environment) -> Vec<String> {
    // Where there is no cache, there are no names.
    env.hub().map(|hub| super::models::names(&hub)).unwrap_or_default()
}

#[cfg(not(feature = "pull"))]
fn models(_: &Environment) -> Vec<String> {
    Vec::new()
}

/// What was said about how answers are chosen: for another model, whose defaults are others.
struct Given {
    /// What a conversation had that was loaded.
    saved: Option<Sampling>,
    /// What was set since.
    set: Vec<Sampler>,
}

impl Given {
    fn apply(&self, sampling: &mut Sampling) {
        if let Some(saved) = &self.saved {
            *sampling = saved.clone();
        }
        self.set.iter().for_each(|flags| flags.apply(sampling));
    }
}

struct Chat<'a> {
    /// None only while another model is loaded.
    session: Option<Session>,
    context: usize,
    /// What it was called; none is the program's own.
    model: Option<String>,
    args: &'a Args,
    interrupt: Interrupt,
    env: &'a Environment,
    given: Given,
    /// What the command line holds answers to.
    form: Option<Arc<Grammar>>,
    /// Thoughts are not shown as they come.
    folds: bool,
    stats: Option<String>,
    /// Before the last answer.
    thoughts: String,
    /// A person is there.
    person: bool,
}

impl Chat<'_> {
    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("a model")
    }

    /// What the model is called.
    fn name(&self) -> String {
        self.model.clone().unwrap_or_else(|| self.env.program.display().to_string())
    }

    /// Tells a person what a program need not know.
    fn tell(&self, text: String) {
        let level = if self.person { Log::Warn } else { Log::Info };
        self.env.say(level, text);
    }

    /// What the command line says holds for a conversation that it resumes, too.
    fn insist(&mut self) {
        let (form, args) = (self.form.clone(), self.args);
        let session = self.session();
        if let Some(system) = &args.system {
            session.system(system.as_str());
        }
        args.sampler.apply(session.sampling());
        session.sampling().grammar = form.or_else(|| session.sampling().grammar.take());
        self.given.set.push(args.sampler.clone());
    }

    /// Does what a line asks. False if that is to leave.
    ///
    /// # Errors
    /// A [`Fault`], after which the conversation goes on; and what ends it.
    fn obey(&mut self, line: &str) -> anyhow::Result<bool> {
        match command::asked(line) {
            Asked::Nothing => {}
            Asked::Message(text) => self.answer(|session| Some(session.say(text)))?,
            Asked::Command(verb, rest) => return self.command(verb, rest),
            Asked::Unknown(name, nearest) => {
                let meant = nearest.map_or_else(String::new, |name| format!("; is /{name} meant?"));
                let text = format!(
                    "there is no command /{name}{meant} - /help shows those there are; a message that starts with a \
                     slash is written with two"
                );
                return Err(Fault(text).into());
            }
        }
        Ok(true)
    }

    /// Tells an answer.
    fn answer(
        &mut self,
        ask: impl for<'s> FnOnce(&'s mut Session) -> Option<Result<Reply<'s>, Error>>,
    ) -> anyhow::Result<()> {
        let mut screen = Screen::new(self.env.terminal, self.person);
        if self.folds {
            screen = screen.folded();
        }
        let mut told = Told::new(&self.interrupt, self.env, screen);
        let session = self.session.as_mut().expect("a model");
        let asked = match ask(session) {
            None => return Err(Fault("there is no message to answer again".into()).into()),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(mut reply)) => told.reply(&mut reply),
        };
        self.interrupt.exits();
        if let Err(error) = asked {
            // What was said before it failed is on a line of its own.
            if !told.text.is_empty() && !told.text.ends_with('\n') {
                put("\n")?;
            }
            return Err(if error.is::<Error>() {
                Fault(format!("{error:#}")).into()
            } else {
                error
            });
        }
        let most = session.sampling().max_tokens;
        self.answered(&told, most)?;
        self.env.say(Log::Info, told.stats());
        if self.person {
            eprintln!();
        }
        (self.stats, self.thoughts) = (Some(told.stats()), told.thoughts);
        Ok(())
    }

    /// Says how an answer ended, where that is not by itself.
    fn answered(&self, told: &Told, most: Option<usize>) -> anyhow::Result<()> {
        if !told.text.ends_with('\n') {
            put("\n")?;
        }
        match told.finish {
            Some(Finish::Cancelled) if !self.person => return Err(Interrupted.into()),
            Some(Finish::Cancelled) if told.text.is_empty() => self.env.say(
                Log::Warn,
                "stopped before the answer began: the message is not part of the conversation",
            ),
            Some(Finish::Cancelled) => self.env.say(
                Log::Warn,
                "stopped: the answer so far is part of the conversation; /retry asks again, /undo takes it back",
            ),
            Some(Finish::Length) if most != Some(told.usage.generated) => {
                self.env.say(Log::Warn, "note: the answer ends where the context does; see --context");
            }
            Some(Finish::Length) if self.person => {
                self.env.say(Log::Warn, "note: the answer was cut by max-tokens");
            }
            _ => {}
        }
        Ok(())
    }
}
