//! What the server is told when it starts.
use crate::hub::Hub;
use crate::models::Keep;
use std::sync::Arc;
use std::time::Duration;

/// Where the server says what happens.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// How the server is set up. The default serves whoever is on this machine.
#[derive(Clone)]
pub struct Config {
    /// What a request may be made with, as `Authorization: Bearer` or `x-api-key`; none asks for no key.
    pub keys: Vec<String>,
    /// Names besides the machine's own by which the server may be asked.
    pub hosts: Vec<String>,
    /// Web pages' origins, besides those of this machine, that may ask; `*` is all.
    pub origins: Vec<String>,
    /// Bytes of a request's body.
    pub max_body: usize,
    /// How long a request's body may take to come.
    pub body_timeout: Duration,
    /// Bytes that loaded models may take together; none is any number.
    pub memory: Option<usize>,
    /// How long a model that nobody uses stays loaded, unless a request says otherwise.
    pub keep_alive: Keep,
    /// How long a request waits for a model's memory while others use it.
    pub patience: Duration,
    /// Answers have at most so many tokens, whatever is asked.
    pub max_tokens: Option<usize>,
    /// Refuses fields that no API documents, rather than naming them in `x-rinfer-ignored`.
    pub strict: bool,
    /// Whether `/admin/…` is there, for whoever has a key.
    pub admin: bool,
    /// Whether the page is there, at `/`.
    pub web: bool,
    /// Where the page may have models fetched from. The server asks it for nothing by itself.
    pub hub: Option<Arc<dyn Hub>>,
    /// How long answers may go on after the server is told to stop.
    pub drain: Duration,
    /// Whether Ctrl-C and SIGTERM end the server, and a second one at once.
    pub signals: bool,
    /// Seconds since 1970.
    pub clock: fn() -> u64,
    /// A random number of at least 32 bits, for seeds and names.
    pub draw: fn() -> u64,
    /// One line about each request, and about what goes wrong.
    pub log: Log,
}

impl Config {
    /// The default, with a clock and a source of chance.
    pub fn new(clock: fn() -> u64, draw: fn() -> u64) -> Config {
        Config {
            keys: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body: 32 << 20,
            body_timeout: Duration::from_secs(60),
            memory: None,
            keep_alive: Keep::Forever,
            patience: Duration::from_secs(60),
            max_tokens: None,
            strict: false,
            admin: false,
            web: false,
            hub: None,
            drain: Duration::from_secs(5),
            signals: false,
            clock,
            draw,
            log: Arc::new(|_| {}),
        }
    }
    /// A name for an answer, such as `chatcmpl-0123456789abcdef01234567`.
    pub(crate) fn name(&self, prefix: &str) -> String {
        let part = || (self.draw)() as u32;
        format!("{prefix}{:08x}{:08x}{:08x}", part(), part(), part())
    }
}
