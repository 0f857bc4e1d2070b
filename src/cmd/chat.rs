//! `rinfer chat`: a conversation, line by line.
use super::options::{describe, draw_seed};
use super::run::{Told, load};
use super::{Environment, Interrupt, Interrupted, Loading, Log, Sampler, Usage, put};
use anyhow::Context;
use clap::Parser;
use rinfer_engine::error::Error;
use rinfer_engine::request::Finish;
use rinfer_engine::session::{Reply, Session};
use std::io::{BufRead, IsTerminal, Write};

/// Talk with a model: rinfer chat model.gguf
///
/// A line that ends with a backslash goes on in the next. Ctrl-C stops an answer, Ctrl-D leaves.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    sampler: Sampler,
    #[command(flatten)]
    loading: Loading,
}

const HELP: &str = "\
/system [TEXT]     set what the model is told before the conversation; nothing clears it
/set NAME VALUE    set a sampling flag: /set temperature 0.7
/params            show the sampling in force
/think [HOW]       auto, on or off; alone, what the model thought before its last answer
/retry             another answer to the last message
/undo              take the last message and its answer back
/reset             forget the conversation
/stats             tokens and speed of the last answer
/help              this
/quit              leave, as Ctrl-D
A message that starts with a slash is written with two. \\ at a line's end goes on in the next.";

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    args.sampler.check()?;
    let form = args.sampler.form()?;
    let interrupt = Interrupt::install()?;
    let model = load(args.model.as_deref(), args.loading.load(env), env)?;
    if let Err(none) = &model.language().template {
        let error = Error::NoTemplate(none.clone());
        return Err(error).context("rinfer run --raw MODEL PROMPT goes without a template");
    }
    if form.is_some() {
        // While the first message is typed.
        model.prepare_forms();
    }
    let mut session = model.session();
    session.system(args.system.clone().unwrap_or_default());
    args.sampler.apply(session.sampling());
    session.sampling().grammar = form;
    session.sampling().seed = args.sampler.seed.unwrap_or_else(draw_seed);
    let terminal = std::io::stdin().is_terminal();
    if terminal {
        let own = env.program.display().to_string();
        let (name, context) = (args.model.as_ref().unwrap_or(&own), model.limits().context);
        env.say(Log::Warn, format!("{name}, context {context}. /help shows commands"));
    }
    let mut chat = Chat { session, interrupt, env, stats: None, thoughts: String::new(), terminal };
    while let Some(line) = chat.read()? {
        if !chat.obey(&line)? {
            break;
        }
    }
    Ok(())
}

struct Chat<'a> {
    session: Session,
    interrupt: Interrupt,
    env: &'a Environment,
    stats: Option<String>,
    /// Before the last answer.
    thoughts: String,
    terminal: bool,
}

impl Chat<'_> {
    /// A message or command; none at the end of input.
    fn read(&self) -> anyhow::Result<Option<String>> {
        let mut text = String::new();
        loop {
            self.interrupt.hints("Ctrl-D or /quit leaves; Ctrl-C once more ends the program\n> ");
            if self.terminal {
                eprint!("{}", if text.is_empty() { "> " } else { "… " });
                std::io::stderr().flush()?;
            }
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line)?;
            text += line.trim_end_matches(['\n', '\r']);
            match text.strip_suffix('\\').map(str::len) {
                Some(len) if read > 0 => {
                    text.truncate(len);
                    text.push('\n');
                }
                _ if read == 0 && text.is_empty() => {
                    if self.terminal {
                        eprintln!();
                    }
                    return Ok(None);
                }
                _ => return Ok(Some(text)),
            }
        }
    }

    /// Does what a line asks. False if that is to leave.
    fn obey(&mut self, line: &str) -> anyhow::Result<bool> {
        let Some(command) = line.strip_prefix('/') else {
            if !line.trim().is_empty() {
                self.answer(|session| Some(session.say(line)))?;
            }
            return Ok(true);
        };
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match name {
            "quit" | "exit" => return Ok(false),
            "help" => eprintln!("{HELP}"),
            "reset" => self.session.reset(),
            "system" => _ = self.session.system(rest),
            "set" => self.set(rest),
            "params" => eprintln!("{}", describe(self.session.sampling())),
            "retry" => self.answer(Session::retry)?,
            "undo" => match self.session.undo() {
                Some(text) => eprintln!("taken back: {text}"),
                None => eprintln!("there is nothing to take back"),
            },
            "think" if rest.is_empty() => match self.thoughts.as_str() {
                "" => eprintln!("no thoughts came before the last answer"),
                thoughts => eprintln!("{thoughts}"),
            },
            "think" => self.set(&format!("think {rest}")),
            "stats" => eprintln!("{}", self.stats.as_deref().unwrap_or("no answer yet")),
            _ if name.starts_with('/') => self.answer(|session| Some(session.say(command)))?,
            _ => eprintln!("there is no command /{name}; /help shows those there are"),
        }
        Ok(true)
    }

    /// Prints an answer. What is wrong with one message does not end the conversation.
    fn answer(
        &mut self,
        ask: impl for<'s> FnOnce(&'s mut Session) -> Option<Result<Reply<'s>, Error>>,
    ) -> anyhow::Result<()> {
        let mut told = Told::new(&self.interrupt, self.env, true);
        let result = match ask(&mut self.session) {
            None => {
                eprintln!("there is no message to answer again");
                return Ok(());
            }
            Some(Err(error)) => Err(error.into()),
            Some(Ok(mut reply)) => {
                told.start(reply.canceller());
                let told_all = told.reply(&mut reply);
                told.end(reply.finish(), reply.usage());
                told_all
            }
        };
        match result {
            Err(error) if error.is::<Error>() => eprintln!("error: {error:#}"),
            Err(error) => return Err(error),
            Ok(()) => {
                if !told.text.ends_with('\n') {
                    put("\n")?;
                }
                if told.finish == Some(Finish::Cancelled) && !self.terminal {
                    return Err(Interrupted.into());
                }
                if told.finish == Some(Finish::Length) {
                    self.env
                        .say(Log::Warn, "note: the answer was cut by --max-tokens or the context");
                }
                self.env.say(Log::Info, told.stats());
                self.stats = Some(told.stats());
                self.thoughts = told.thoughts;
            }
        }
        Ok(())
    }

    fn set(&mut self, text: &str) {
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let flag = format!("--{}={}", name.trim_start_matches('-').replace('_', "-"), value.trim());
        let given = SetLine::try_parse_from(["/set", &flag]).map_err(|e| {
            // Without clap's usage lines, which are about the program.
            e.to_string().lines().next().unwrap_or_default().to_owned()
        });
        let given = given.and_then(|line| match line.sampler.check() {
            Ok(()) => match line.sampler.form() {
                Ok(form) => Ok((line.sampler, form)),
                Err(Usage(text)) => Err(format!("error: {text}")),
            },
            Err(Usage(text)) => Err(format!("error: {text}")),
        });
        match given {
            Ok((sampler, form)) => {
                let sampling = self.session.sampling();
                sampler.apply(sampling);
                sampling.grammar = form.or_else(|| sampling.grammar.take());
            }
            Err(text) => eprintln!("{text}"),
        }
    }
}

/// `/set` takes what the program's flags take.
#[derive(Parser)]
#[command(name = "/set", disable_help_flag = true)]
struct SetLine {
    #[command(flatten)]
    sampler: Sampler,
}
