//! The commands, one a file, and what they share.
pub mod bench;
pub mod bundle;
pub mod chat;
pub mod check;
pub mod detokenize;
pub mod doctor;
pub mod embed;
pub mod eval;
pub mod inspect;
mod interrupt;
#[cfg(feature = "pull")]
pub mod models;
mod options;
pub mod packages;
#[cfg(feature = "pull")]
mod progress;
#[cfg(feature = "pull")]
pub mod pull;
mod resolve;
#[cfg(feature = "pull")]
pub mod rm;
pub mod run;
pub mod serve;
mod spinner;
pub mod tokenize;
mod told;

pub use interrupt::Interrupt;
pub use options::{Loading, Sampler};

use anyhow::Context;
use rinfer_engine::backend::Limits;
use rinfer_engine::error::Error;
use rinfer_engine::load::{Load, Opened};
use rinfer_formats::executable::Place;
use rinfer_terminal::{Terminal, neutral};
use rinfer_text::template::DateTime;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::PathBuf;

/// What `main` read from the environment.
#[derive(Clone)]
pub struct Environment {
    /// `RINFER_TIER`: the CPU tier to use.
    pub tier: Option<String>,
    /// Whether stderr shows colour.
    pub color: bool,
    /// What is at the ends of the streams.
    pub terminal: Terminal,
    /// The person's own folder, which `~` is.
    pub home: Option<PathBuf>,
    /// Where what was typed is kept; none is nowhere.
    pub history: Option<PathBuf>,
    /// `RINFER_LOG`, `--verbose`: what is said on stderr.
    pub log: Log,
    /// `RINFER_API_KEY`: what the server's requests must have.
    pub api_key: Option<String>,
    /// The time.
    pub clock: fn() -> DateTime,
    /// The time, in seconds since 1970.
    pub seconds: fn() -> u64,
    /// This program's file.
    pub program: PathBuf,
    /// Where its own model lies in it, if it has one.
    pub own: Option<Place>,
    /// Where models are kept, and the way to the hub.
    #[cfg(feature = "pull")]
    pub hub: fn() -> Result<rinfer::hub::Config, rinfer::hub::Error>,
}

/// What is said on stderr besides errors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// Nothing.
    Off,
    /// What the user may not expect.
    Warn,
    /// What is done, and how long it takes.
    Info,
}

impl Environment {
    /// The hub, as the environment has it.
    #[cfg(feature = "pull")]
    pub fn hub(&self) -> anyhow::Result<rinfer::hub::Hub> {
        Ok(rinfer::hub::Hub::new((self.hub)()?))
    }
    /// The model and what else of the command line follows it. A program with a model of its own takes
    /// one word for that: it is asked, more often than about another model.
    pub fn shift<'a>(
        &self,
        model: &'a Option<String>,
        word: &'a Option<String>,
    ) -> (Option<&'a str>, Option<&'a str>) {
        match (model.as_deref(), word.as_deref()) {
            (only, None) if self.own.is_some() => (None, only),
            both => both,
        }
    }
    /// Says something that is not the answer.
    pub fn say(&self, level: Log, text: impl Display) {
        if level <= self.log {
            note(self.color, text);
        }
    }
}

/// Writes what is not the answer on stderr, dimmed where it shows colour.
fn note(color: bool, text: impl Display) {
    let (dim, normal) = if color { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
    eprintln!("{dim}{}{normal}", neutral(&text.to_string()));
}

/// How to get a first model.
pub fn no_model() -> Usage {
    let fetched = if cfg!(feature = "pull") {
        "; or let it be fetched: rinfer run demo:tiny \"Hello\" (98 MB, once)"
    } else {
        ""
    };
    Usage(format!(
        "no model is given. Take any .gguf file or Hugging Face folder of a supported family and \
         give its path: rinfer run path/to/model.gguf \"Hello\"{fetched}"
    ))
}

/// The command line asks for something that is not offered: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The user pressed Ctrl-C: exit code 130, without a message.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Whether whoever read our output has enough of it.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(io)
}

/// What an executor is sized for, saying so where memory is the reason for a smaller context.
///
/// # Errors
/// As [`Opened::limits`].
pub fn limits(opened: &Opened, load: &Load, env: &Environment) -> Result<Limits, Error> {
    let limits = opened.limits(load)?;
    let usual = load.limits(&opened.spec)?.context;
    if limits.context < usual {
        let context = limits.context;
        env.say(Log::Warn, format!("context {context}, not {usual}: memory has no room for more"));
    }
    if let Some(resident) = limits.resident {
        let mib = resident.bytes >> 20;
        let text = format!("memory has room for {mib} MiB of the weights: others are read anew");
        env.say(Log::Warn, text);
    }
    Ok(limits)
}

/// A tensor of a model's files.
pub struct Line<'a> {
    pub name: &'a str,
    /// How its elements are stored: a type, or a bundle's layout.
    pub kind: &'a str,
    pub shape: Vec<usize>,
    pub bytes: usize,
}

/// Every tensor of a model's files.
pub fn tensors(opened: &Opened) -> impl Iterator<Item = Line<'_>> {
    let weights = opened.files.weights();
    weights.names().into_iter().filter_map(|name| match weights.prepared(name) {
        Some(p) => {
            let (kind, shape, bytes) = (p.layout, p.shape.to_vec(), p.bytes.len());
            Some(Line { name, kind, shape, bytes })
        }
        None => {
            // Of what is stored in an order of its own, as it is multiplied: no tensor is made for this.
            let (dtype, shape) = weights.describe(name)?;
            let format = weights.order(name).map_or(dtype, |(dtype, _)| dtype).format();
            let bytes = shape.iter().product::<usize>() / format.elems * format.bytes;
            Some(Line { name, kind: format.name, shape, bytes })
        }
    })
}

/// Writes to stdout and flushes, so that a reader sees every piece at once. What is in files does not drive
/// a terminal.
pub fn put(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let shown = if out.is_terminal() { neutral(text).into() } else { Cow::Borrowed(text) };
    out.write_all(shown.as_bytes()).and_then(|()| out.flush()).context("stdout")
}

/// What was piped in, if stdin is no terminal.
pub fn piped() -> anyhow::Result<Option<String>> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).context("stdin")?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Usage(format!("stdin is not UTF-8: byte {at} can't be read as text"))
    })?;
    Ok(Some(text))
}
