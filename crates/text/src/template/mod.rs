//! Chat templates: a conversation to a prompt, byte for byte as transformers renders it.
//!
//! Templates come with models, so they are not trusted: work, depth and output are bounded. What
//! people write is not trusted either: [`Prompt::plain`] says where it must not be read as markup.
mod clock;
mod context;
mod json;
mod lists;
mod marks;
mod python;
mod source;

pub use clock::DateTime;

use crate::chat::Chat;
use context::Form;
use marks::{Controls, Marks};
use minijinja::{Environment, Error, ErrorKind, Value, syntax::SyntaxConfig};
use serde_json::{Map, Value as Json};
use std::io::{self, Write};
use std::ops::Range;

/// No template that models come with is near this size.
const MAX_SOURCE: usize = 1 << 20;
/// Steps a rendering may take and bytes it may write, and how many more for each byte of input.
/// The longest of sixty published templates takes 2,000 steps for a dozen messages.
const FUEL: u64 = 300_000;
const FUEL_PER_BYTE: u64 = 16;
const MAX_OUTPUT: usize = 1 << 20;
const OUTPUT_PER_BYTE: usize = 16;

/// A model's chat template.
#[derive(Debug)]
pub struct Template {
    env: Environment<'static>,
    source: String,
    tokens: Vec<(String, String)>,
    controls: Controls,
    /// What the template itself looks for in messages.
    searched: Vec<String>,
    tests_content: bool,
    knows_developer: bool,
    /// Whether it takes tools as a text called `functions`.
    wants_functions: bool,
}

/// A rendered conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Byte ranges of `text` that spell control tokens but are what someone wrote: a control token
    /// that overlaps one is to be read as text. Sorted by their start; they may overlap.
    pub plain: Vec<Range<usize>>,
    /// Whether the text starts with the beginning-of-sequence token, so that the tokenizer must
    /// not add another.
    pub has_bos: bool,
}

/// Why a template gave no prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is no template.
    #[error("the chat template, line {line}: {reason}; give another template")]
    Syntax {
        /// From 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// The template is too long.
    #[error("the chat template has {0} bytes, more than {MAX_SOURCE}")]
    TooLong(usize),
    /// The template refuses this conversation, in its own words.
    #[error("the chat template refuses this conversation: {0}")]
    Refused(String),
    /// The template fails on this conversation.
    #[error("the chat template fails in line {line}: {reason}")]
    Failed {
        /// From 1.
        line: usize,
        /// What went wrong.
        reason: String,
    },
    /// The template works or writes without end.
    #[error("the chat template does not come to an end: it took all of its {0}")]
    Endless(&'static str),
    /// The messages use every character that could mark them.
    #[error("the messages use all noncharacters and private characters; at least two must be free")]
    NoMarks,
}

impl Template {
    /// Parses a template as Hugging Face's environment does.
    ///
    /// # Errors
    /// If it does not parse.
    pub fn new(source: &str) -> Result<Template, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError::TooLong(source.len()));
        }
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.map_err(syntax_error)?);
        env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        env.set_debug(false);
        python::add_to(&mut env);
        let adapted = source::adapt(source)
            .map_err(|(line, reason)| TemplateError::Syntax { line, reason })?;
        env.add_template_owned("chat", adapted).map_err(syntax_error)?;
        Ok(Template {
            env,
            source: source.to_owned(),
            tokens: Vec::new(),
            controls: Controls::new([]),
            searched: source::searched(source),
            tests_content: source::tests_content(source),
            knows_developer: source.contains("developer"),
            wants_functions: source::has_word(source, "functions")
                && !source::has_word(source, "tools"),
        })
    }
    /// Gives the template the model's named tokens: `bos_token`, `eos_token`, ...
    #[must_use]
    pub fn with_tokens(mut self, tokens: impl IntoIterator<Item = (String, String)>) -> Template {
        self.tokens = tokens.into_iter().collect();
        self
    }
    /// Names the strings that the tokenizer reads as control tokens.
    #[must_use]
    pub fn with_controls(mut self, controls: impl IntoIterator<Item = String>) -> Template {
        self.controls = Controls::new(controls);
        self
    }
    /// The template as it came.
    pub fn source(&self) -> &str {
        &self.source
    }
    /// Renders a conversation.
    ///
    /// The text is transformers' own, with these exceptions. Arguments of calls that are given as
    /// JSON text count as the object they hold. A template that prints a list of parts, or nothing,
    /// without looking inside prints the parts' text, or nothing. Where transformers fails on
    /// lists, objects or nothing (but not where the template refuses by itself), the template
    /// is given text.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] if the template itself refuses; others if it fails.
    pub fn render(&self, chat: &Chat, now: DateTime) -> Result<Prompt, TemplateError> {
        let used = context::characters(chat);
        let marks =
            Marks::new(&self.controls, |c| used.contains(&c)).ok_or(TemplateError::NoMarks)?;
        let mut first = None;
        for form in [Form::Exact, Form::Lenient, Form::Text, Form::Filled] {
            let context = context::Builder { template: self, marks, form, now }.chat(chat);
            match self.run(context, now, context::size(chat)) {
                Ok(marked) => return Ok(self.prompt(marks, &marked)),
                Err(e @ (TemplateError::Refused(_) | TemplateError::Endless(_))) => {
                    return Err(first.unwrap_or(e));
                }
                Err(e) => _ = first.get_or_insert(e),
            }
        }
        Err(first.unwrap_or(TemplateError::NoMarks))
    }
    /// Renders exactly what transformers does with these variables, or fails where it does.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn render_context(
        &self,
        context: &Map<String, Json>,
        now: DateTime,
    ) -> Result<String, TemplateError> {
        let tokens = self.tokens.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str())));
        let context = tokens.chain(context.iter().map(|(k, v)| (k.clone(), context::plain(v))));
        self.run(context.collect(), now, 0)
    }
    fn run(
        &self,
        mut context: Vec<(String, Value)>,
        now: DateTime,
        size: usize,
    ) -> Result<String, TemplateError> {
        let strftime = Value::from_function(move |format: &str| now.strftime(format));
        context.push(("strftime_now".to_owned(), strftime));
        let mut out = Limited {
            text: Vec::new(),
            left: MAX_OUTPUT.saturating_add(size.saturating_mul(OUTPUT_PER_BYTE)),
        };
        let mut env = self.env.clone();
        env.set_fuel(Some(FUEL.saturating_add(FUEL_PER_BYTE.saturating_mul(size as u64))));
        let template = env.get_template("chat").map_err(syntax_error)?;
        template
            .render_captured_to(Value::from_pairs(context), &mut out)
            .map_err(|error| failure(&error))?;
        String::from_utf8(out.text)
            .map_err(|e| TemplateError::Failed { line: 1, reason: e.to_string() })
    }
    fn prompt(&self, marks: Marks, marked: &str) -> Prompt {
        let (text, plain) = marks.unmark(marked);
        let bos = self.tokens.iter().find(|(name, _)| name == "bos_token");
        let has_bos = bos.is_some_and(|(_, bos)| {
            !bos.is_empty() && text.starts_with(bos) && plain.first().is_none_or(|r| r.start > 0)
        });
        Prompt { text, plain, has_bos }
    }
}

fn syntax_error(error: Error) -> TemplateError {
    TemplateError::Syntax { line: error.line().unwrap_or(1), reason: reason(&error) }
}

fn failure(error: &Error) -> TemplateError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(raised) = cause.downcast_ref::<python::Raised>() {
            return TemplateError::Refused(raised.0.clone());
        }
        match cause.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::OutOfFuel) => return TemplateError::Endless("steps"),
            Some(ErrorKind::WriteFailure) => return TemplateError::Endless("room"),
            _ => source = cause.source(),
        }
    }
    TemplateError::Failed { line: error.line().unwrap_or(1), reason: reason(error) }
}

fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// A buffer that refuses to grow without bound.
struct Limited {
    text: Vec<u8>,
    left: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
