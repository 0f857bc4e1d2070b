//! An answer as it is told: shown, collected and timed.
use super::spinner::Spinner;
use super::{Environment, Interrupt};
use rinfer_engine::error::Error;
use rinfer_engine::request::{Cancel, Finish, Progress, Usage as Tokens};
use rinfer_engine::session::Reply;
use rinfer_terminal::Screen;
use rinfer_text::reply::Delta;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An answer under way.
pub struct Told<'a> {
    interrupt: &'a Interrupt,
    env: &'a Environment,
    screen: Screen,
    /// Turns while there is nothing to show.
    spinner: Option<Spinner>,
    /// Thoughts came that are not shown.
    hidden: Arc<AtomicBool>,
    /// Ctrl-C before there was an answer to stop.
    early: Cancel,
    pub text: String,
    pub thoughts: String,
    pub finish: Option<Finish>,
    pub usage: Tokens,
    pub timing: Timing,
}

/// When an answer started, had its first piece, and ended.
pub struct Timing {
    start: Instant,
    first: Option<Instant>,
    end: Option<Instant>,
}

impl Timing {
    pub fn prefill(&self) -> Duration {
        self.first.or(self.end).unwrap_or(self.start) - self.start
    }
    pub fn decode(&self) -> Duration {
        self.end.zip(self.first).map(|(end, first)| end - first).unwrap_or_default()
    }
}

impl Told<'_> {
    /// From now on Ctrl-C ends the answer, even before it is asked for.
    pub fn new<'a>(interrupt: &'a Interrupt, env: &'a Environment, screen: Screen) -> Told<'a> {
        let early = Cancel::default();
        interrupt.cancels(early.clone());
        Told {
            interrupt,
            env,
            screen,
            spinner: None,
            hidden: Arc::default(),
            early,
            text: String::new(),
            thoughts: String::new(),
            finish: None,
            usage: Tokens::default(),
            timing: Timing { start: Instant::now(), first: None, end: None },
        }
    }
    /// The answer is asked for: `prompt` is its tokens.
    pub fn start(&mut self, cancel: Cancel, progress: Progress, prompt: usize) {
        self.interrupt.cancels(cancel.clone());
        if self.early.is_cancelled() {
            cancel.cancel();
        }
        let hidden = self.hidden.clone();
        let start = self.timing.start;
        let label = move || match hidden.load(Ordering::Relaxed) {
            true => format!("thinking, {} s", start.elapsed().as_secs()),
            false => format!("reading {} of {prompt} tokens", progress.tokens().min(prompt)),
        };
        self.spinner = Spinner::start(self.env, self.interrupt, label);
    }
    /// All of a reply.
    ///
    /// # Errors
    /// The model's, and those of writing.
    pub fn reply(&mut self, reply: &mut Reply) -> anyhow::Result<()> {
        self.start(reply.canceller(), reply.progress(), reply.usage().prompt);
        while let Some(delta) = reply.next_delta() {
            match delta? {
                Delta::Reasoning(text) => self.thought(&text),
                Delta::Content(text) => self.piece(Ok(text))?,
                // There are no tools, and so no calls.
                _ => {}
            }
        }
        self.end(reply.finish(), reply.usage())
    }
    fn thought(&mut self, text: &str) {
        self.timing.first.get_or_insert_with(Instant::now);
        self.thoughts += text;
        if self.screen.shows_thoughts() {
            self.spinner = None;
            self.screen.think(text);
        } else {
            self.hidden.store(true, Ordering::Relaxed);
        }
    }
    /// The next piece of what the model says.
    ///
    /// # Errors
    /// The model's, and those of writing.
    pub fn piece(&mut self, piece: Result<String, Error>) -> anyhow::Result<()> {
        let piece = piece?;
        self.timing.first.get_or_insert_with(Instant::now);
        if self.screen.shows_text() {
            self.spinner = None;
        }
        self.text += &piece;
        Ok(self.screen.say(&piece)?)
    }
    /// The answer is over.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end(&mut self, finish: Option<Finish>, usage: Tokens) -> anyhow::Result<()> {
        self.timing.end = Some(Instant::now());
        self.spinner = None;
        (self.finish, self.usage) = (finish, usage);
        Ok(self.screen.end()?)
    }
    /// One line for `--verbose` and `/stats`.
    pub fn stats(&self) -> String {
        let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
        let Tokens { prompt, cached, generated } = self.usage;
        let (prefill, decode) = (self.timing.prefill(), self.timing.decode());
        format!(
            "prompt {prompt} tokens, {cached} of them cached, {:.2} s ({:.1} tokens/s); \
             answer {generated} tokens, {:.2} s ({:.1} tokens/s)",
            prefill.as_secs_f64(),
            rate(prompt - cached, prefill),
            decode.as_secs_f64(),
            rate(generated.saturating_sub(1), decode),
        )
    }
}
