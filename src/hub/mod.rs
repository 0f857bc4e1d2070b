//! Models on the hub: a reference to a file or folder on this machine, fetched at first use.
//!
//! ```no_run
//! use rinfer::hub::{Config, Hub, Silent};
//! use rinfer::{Load, Model};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hub = Hub::new(Config::new("models".into()));
//! let path = hub.resolve("hf:owner/repo:Q4_K_M", &Silent)?;
//! let model = Model::load(path, Load::default())?;
//! # Ok(())
//! # }
//! ```
mod cache;
mod choose;
mod client;
mod demo;
mod digest;
mod download;
mod error;
mod listing;
mod part;
mod pull;
mod quant;
mod reference;
mod refusal;
mod route;
mod search;
mod space;
mod tls;
mod watch;

pub use cache::{Cache, Here};
pub use choose::{Choice, models};
pub use demo::{DEMOS, Demo};
pub use digest::Digest;
pub use error::{Error, bytes};
pub use listing::{Entry, Listing};
pub use part::held as part_bytes;
pub use reference::{Pick, Reference, Repo};
pub use route::{Proxies, Route, Secret};
pub use search::Found;
pub use tls::Trust;
pub use watch::{Silent, Watch};

use client::Client;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// Where models are kept and come from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cache: `RINFER_MODELS`.
    pub cache: PathBuf,
    /// Caches of other programs, which are only read: `HF_HOME`.
    pub others: Vec<PathBuf>,
    /// Never ask the hub: `HF_HUB_OFFLINE`.
    pub offline: bool,
    /// The way to the hub.
    pub route: Route,
    /// Connections at once, at most.
    pub connections: usize,
    /// How long one connection is watched before others join it; as long as it brings 320 MiB/s, it is alone.
    pub alone: Duration,
    /// Bytes that a request asks for.
    pub range: u64,
}

impl Config {
    /// Hugging Face's hub, without a token, keeping models in `cache`.
    pub fn new(cache: PathBuf) -> Config {
        let route = Route {
            endpoint: "https://huggingface.co".into(),
            token: None,
            proxies: Proxies::default(),
            trust: Trust::default(),
            silence: Duration::from_secs(30),
            tries: 5,
            pause: Duration::from_millis(500),
            patience: Duration::from_secs(60),
        };
        Config {
            cache,
            others: Vec::new(),
            offline: false,
            route,
            connections: 4,
            alone: Duration::from_millis(100),
            range: 32 << 20,
        }
    }
}

/// The hub, as this machine sees it.
pub struct Hub {
    config: Config,
    own: Cache,
    others: Vec<Cache>,
    client: OnceLock<Client>,
}

impl Hub {
    /// Nothing is read or asked yet.
    pub fn new(config: Config) -> Hub {
        let own = Cache::new(config.cache.clone());
        let others = config.others.iter().cloned().map(Cache::new).collect();
        Hub { config, own, others, client: OnceLock::new() }
    }
    /// Whether a model's name is this module's to resolve.
    pub fn is_reference(text: &str) -> bool {
        text.starts_with("hf:") || text.starts_with("demo:")
    }
    /// The path of a model: from the cache, without asking anyone, else fetched.
    ///
    /// # Errors
    /// Why it can't be had.
    pub fn resolve(&self, text: &str, watch: &dyn Watch) -> Result<PathBuf, Error> {
        let wanted = Wanted::new(text)?;
        if let Some(here) = self.find(&wanted, watch)? {
            return Ok(here.path);
        }
        if self.config.offline {
            return Err(self.offline(text));
        }
        Ok(self.fetch(&wanted, watch)?.path)
    }
    /// Fetches what of a model is not here, having asked the hub what it is now.
    ///
    /// # Errors
    /// Why it can't be had.
    pub fn pull(&self, text: &str, watch: &dyn Watch) -> Result<Here, Error> {
        let wanted = Wanted::new(text)?;
        if self.config.offline {
            if let Some(here) = self.find(&wanted, watch)? {
                watch.note("HF_HUB_OFFLINE is set, so the hub is not asked: this is what is here");
                return Ok(here);
            }
            return Err(self.offline(text));
        }
        self.fetch(&wanted, watch)
    }
    /// What a repository has.
    ///
    /// # Errors
    /// Why that can't be had.
    pub fn list(&self, text: &str) -> Result<Listing, Error> {
        let reference = Wanted::new(text)?.reference;
        if self.config.offline {
            return Err(self.offline(text));
        }
        self.listing(&reference)
    }
    /// The host that is asked.
    pub fn host(&self) -> &str {
        let (_, host) = self.config.route.endpoint.split_once("://").unwrap_or_default();
        host.split('/').next().unwrap_or_default()
    }
    /// Whether it is never asked.
    pub fn is_offline(&self) -> bool {
        self.config.offline
    }
    /// The cache that is written.
    pub fn cache(&self) -> &Cache {
        &self.own
    }
    /// Caches that are only read.
    pub fn others(&self) -> &[Cache] {
        &self.others
    }
    /// Removes a model from the cache, or all of a repository if nothing of it is picked; the bytes that this frees.
    ///
    /// # Errors
    /// If it is not there, or can't be removed.
    pub fn remove(&self, text: &str) -> Result<u64, Error> {
        let Reference { repo, pick, revision } = Wanted::new(text)?.reference;
        let none = |problem: String| Error::Cache { path: self.own.of(&repo), problem };
        if !self.own.of(&repo).is_dir() {
            let other = self.others.iter().map(|cache| cache.of(&repo)).find(|path| path.is_dir());
            return Err(none(match other {
                Some(path) => format!(
                    "is not there; {} is another program's, which removes it",
                    path.display()
                ),
                None => "is not there: `rinfer models` lists what is".into(),
            }));
        }
        if pick == Pick::Default && revision == "main" {
            return self.own.remove(&repo, None);
        }
        match self.own.find(&repo, &revision, &pick)? {
            Some(here) => self.own.remove(&repo, Some(&here)),
            None => Err(none(format!("has no {text}: `rinfer models` lists what it has"))),
        }
    }
    /// What is here of a model, our own first.
    fn find(&self, wanted: &Wanted, watch: &dyn Watch) -> Result<Option<Here>, Error> {
        let Reference { repo, pick, revision } = &wanted.reference;
        // A name's content may have become another; what is pinned may not.
        let pinned = |here: &Here| {
            wanted.pinned.is_none_or(|demo| here.choice.files[0].digest == demo.digest())
        };
        if let Some(here) = self.own.find(repo, revision, pick)?.filter(pinned) {
            return Ok(Some(here));
        }
        // What another program has is not known to be what is pinned.
        for cache in self.others.iter().filter(|_| wanted.pinned.is_none()) {
            if let Some(here) = cache.find(repo, revision, pick)? {
                watch.tell(&format!(
                    "{} is taken from {}",
                    wanted.reference,
                    cache.root().display()
                ));
                return Ok(Some(here));
            }
        }
        Ok(None)
    }
    fn offline(&self, text: &str) -> Error {
        Error::Offline { reference: text.to_owned(), cache: self.config.cache.clone() }
    }
    fn client(&self) -> Result<&Client, Error> {
        if self.client.get().is_none() {
            let client = Client::new(self.config.route.clone(), self.config.connections)?;
            return Ok(self.client.get_or_init(|| client));
        }
        self.client.get().ok_or_else(|| unreachable!("it was set"))
    }
}

/// What a reference asks for.
struct Wanted {
    reference: Reference,
    pinned: Option<&'static Demo>,
}

impl Wanted {
    fn new(text: &str) -> Result<Wanted, Error> {
        match text.strip_prefix("demo:") {
            Some(name) => {
                let demo = Demo::named(name)?;
                Ok(Wanted { reference: demo.reference()?, pinned: Some(demo) })
            }
            None => Ok(Wanted { reference: Reference::new(text)?, pinned: None }),
        }
    }
}
