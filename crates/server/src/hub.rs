//! Models elsewhere. Who has the page may search and fetch them; the server itself asks nobody for anything, and
//! does not know how that is done.
use crate::models::{Failure, Offer};
use crate::refusal::{Kind, Refusal};
use serde::Serialize;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Models that are fetched at once.
const AT_ONCE: usize = 4;
/// Remarks on a fetch that are kept.
const NOTES: usize = 8;

/// Where models can be had, and those that were. Everything here may take its time, on a thread of its own.
pub trait Hub: Send + Sync {
    /// The host that is asked.
    fn place(&self) -> String;
    /// Why it is not to be asked, if it is not.
    fn closed(&self) -> Option<String>;
    /// Models to begin with, which are known without asking.
    fn suggested(&self) -> Vec<Fetchable>;
    /// Repositories by words of their names.
    ///
    /// # Errors
    /// Why that can't be had.
    fn search(&self, words: &str) -> Result<Vec<Repository>, Failure>;
    /// What a repository has.
    ///
    /// # Errors
    /// Why that can't be had.
    fn contents(&self, repository: &str) -> Result<Contents, Failure>;
    /// Fetches a model, going on where it was given up, and tells `pull` how far it is. Returns its name among
    /// [`Hub::here`].
    ///
    /// # Errors
    /// Why it can't be had, or that `pull` was cancelled.
    fn pull(&self, reference: &str, pull: &Pull) -> Result<String, Failure>;
    /// Those that were fetched.
    fn here(&self) -> Vec<Offer>;
    /// Repositories of which something was fetched in part, and the bytes of that.
    fn unfinished(&self) -> Vec<(String, u64)>;
}

/// A repository that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Repository {
    /// What it is called.
    pub name: String,
    /// How often it was fetched lately, if that is known.
    pub downloads: Option<u64>,
    /// Whether its licence has to be accepted first.
    pub gated: bool,
}

/// What a repository has.
#[derive(Clone, Debug, Serialize)]
pub struct Contents {
    /// What it is called.
    pub name: String,
    /// As it is stated there.
    pub licence: Option<String>,
    /// What can be fetched.
    pub models: Vec<Fetchable>,
}

/// A model that can be fetched.
#[derive(Clone, Debug, Serialize)]
pub struct Fetchable {
    /// What [`Hub::pull`] takes.
    pub reference: String,
    /// How its weights are stored, or what else tells it from others.
    pub what: String,
    /// Of its files, if that is known.
    pub bytes: Option<u64>,
    /// Whether memory has room for it, by its size; none if that is not known.
    pub fits: Option<bool>,
    /// Whether it was fetched already.
    pub here: bool,
}

/// A model that is fetched.
pub struct Pull {
    reference: String,
    progress: watch::Sender<Progress>,
    cancelled: AtomicBool,
}

/// How far it is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The file that comes now, the how-manieth it is, and of how many.
    file: String,
    nth: usize,
    files: usize,
    /// Bytes of all files that are here, and that there are.
    done: u64,
    total: u64,
    /// Bytes of the files up to this one.
    reach: u64,
    notes: Vec<String>,
    end: Option<End>,
}

/// How it went.
#[derive(Clone, Debug)]
enum End {
    /// It is here, under this name.
    Here(String),
    Cancelled,
    Failed(String),
}

impl Pull {
    fn new(reference: String) -> Pull {
        Pull { reference, progress: watch::channel(Progress::default()).0, cancelled: false.into() }
    }
    /// So many files are to come, of so many bytes in all.
    pub fn needs(&self, files: usize, bytes: u64) {
        self.progress.send_modify(|now| {
            let notes = std::mem::take(&mut now.notes);
            *now = Progress { files, total: bytes, notes, ..Progress::default() };
        });
    }
    /// A file begins: its name, its bytes, and how many of them are here already.
    pub fn begins(&self, file: &str, bytes: u64, here: u64) {
        self.progress.send_modify(|now| {
            file.clone_into(&mut now.file);
            now.nth += 1;
            now.done = now.reach + here;
            now.reach += bytes;
            now.total = now.total.max(now.reach);
        });
    }
    /// So many bytes came.
    pub fn came(&self, bytes: u64) {
        // What is fetched again does not count twice.
        self.progress.send_modify(|now| now.done = now.reach.min(now.done + bytes));
    }
    /// Something that is not expected.
    pub fn note(&self, text: &str) {
        self.progress.send_modify(|now| {
            if now.notes.len() < NOTES {
                now.notes.push(text.to_owned());
            }
        });
    }
    /// Whether nobody wants it any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
    /// Its changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<impl Sized + use<>> {
        self.progress.subscribe()
    }
    pub(crate) fn is_over(&self) -> bool {
        self.progress.borrow().end.is_some()
    }
    /// As the page is shown it.
    pub(crate) fn shown(&self) -> Value {
        let now = self.progress.borrow();
        let (state, model, problem) = match &now.end {
            None => ("running", None, None),
            Some(End::Here(name)) => ("done", Some(name), None),
            Some(End::Cancelled) => ("cancelled", None, None),
            Some(End::Failed(problem)) => ("failed", None, Some(problem)),
        };
        json!({
            "reference": self.reference, "state": state, "file": now.file, "nth": now.nth, "files": now.files, "done": now.done, "total": now.total,
            "notes": now.notes, "model": model, "problem": problem,
        })
    }
    fn run(&self, hub: &dyn Hub) -> Result<String, Failure> {
        let pulled = catch_unwind(AssertUnwindSafe(|| hub.pull(&self.reference, self)));
        pulled.unwrap_or_else(|_| Err(Failure::told("fetching panicked: see the server's log")))
    }
    fn end(&self, end: End) {
        self.progress.send_modify(|now| now.end = Some(end));
    }
}

/// Those under way, and how the others went, until that was seen.
#[derive(Default)]
pub struct Pulls(Mutex<Vec<Arc<Pull>>>);

impl Pulls {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Pull>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Fetches a model, on a thread of its own, unless it is fetched already. `here` is told what came of it.
    pub fn begin(
        &self,
        hub: &Arc<dyn Hub>,
        reference: String,
        here: impl FnOnce(Result<&str, &Failure>) + Send + 'static,
    ) -> Result<Arc<Pull>, Refusal> {
        let mut all = self.all();
        if let Some(same) = all.iter().find(|pull| pull.reference == reference && !pull.is_over()) {
            return Ok(same.clone());
        }
        if all.iter().filter(|pull| !pull.is_over()).count() >= AT_ONCE {
            let text = format!("{AT_ONCE} models are fetched already: wait for one, or cancel it");
            return Err(Refusal::new(Kind::Busy, text).code("too_many_pulls"));
        }
        all.retain(|pull| pull.reference != reference);
        let pull = Arc::new(Pull::new(reference));
        all.push(pull.clone());
        let (hub, ours) = (hub.clone(), pull.clone());
        tokio::task::spawn_blocking(move || {
            let pulled = ours.run(&*hub);
            here(pulled.as_deref());
            ours.end(match pulled {
                Ok(name) => End::Here(name),
                Err(_) if ours.is_cancelled() => End::Cancelled,
                Err(failure) => End::Failed(failure.told),
            });
        });
        Ok(pull)
    }
    /// Gives one up, or forgets how it went; false if there is none.
    pub fn cancel(&self, reference: &str) -> bool {
        let mut all = self.all();
        let Some(at) = all.iter().position(|pull| pull.reference == reference) else {
            return false;
        };
        if all[at].is_over() {
            all.remove(at);
        } else {
            all[at].cancelled.store(true, Ordering::Relaxed);
        }
        true
    }
    /// Gives all up.
    pub fn cancel_all(&self) {
        self.all().iter().for_each(|pull| pull.cancelled.store(true, Ordering::Relaxed));
    }
    /// As the page is shown them.
    pub fn shown(&self) -> Vec<Value> {
        self.all().iter().map(|pull| pull.shown()).collect()
    }
}
