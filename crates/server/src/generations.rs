//! The requests that are answered now, so that they can be listed and ended.
use crate::models::Served;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// All of them, by the names of their requests.
#[derive(Default)]
pub struct Generations(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    /// The model's own name.
    model: String,
    path: String,
    stream: bool,
    start: Instant,
    pieces: Arc<AtomicUsize>,
    cancel: watch::Sender<bool>,
}

/// One of them, as long as it is answered.
pub struct Generation {
    id: String,
    all: Arc<Generations>,
    pieces: Arc<AtomicUsize>,
    cancelled: watch::Receiver<bool>,
}

impl Generations {
    /// One begins.
    pub fn begin(
        self: &Arc<Generations>,
        id: String,
        served: &Served,
        path: String,
        stream: bool,
    ) -> Generation {
        let (cancel, cancelled) = watch::channel(false);
        let (model, pieces) = (served.root.clone(), Arc::<AtomicUsize>::default());
        let entry =
            Entry { model, path, stream, start: Instant::now(), pieces: pieces.clone(), cancel };
        self.entries().insert(id.clone(), entry);
        Generation { id, all: self.clone(), pieces, cancelled }
    }
    /// What an administrator is shown, by name.
    pub fn list(&self) -> Vec<Value> {
        let one = |(id, entry): (&String, &Entry)| {
            json!({
                "id": id, "model": entry.model, "route": entry.path, "stream": entry.stream,
                "seconds": entry.start.elapsed().as_secs_f64(),
                "pieces": entry.pieces.load(Ordering::Relaxed),
            })
        };
        self.entries().iter().map(one).collect()
    }
    /// Ends one; false if there is none of that name.
    pub fn cancel(&self, id: &str) -> bool {
        self.entries().get(id).inspect(|entry| _ = entry.cancel.send_replace(true)).is_some()
    }
    /// Ends those of a model, and says how many were not yet told to.
    pub fn cancel_of(&self, model: &str) -> usize {
        let entries = self.entries();
        let its = entries.values().filter(|entry| entry.model == model);
        its.filter(|entry| !entry.cancel.send_replace(true)).count()
    }
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generation {
    /// Waits until somebody ends it.
    pub async fn cancelled(&mut self) {
        if self.cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            // Nobody can any more.
            std::future::pending().await
        }
    }
    /// A piece was told.
    pub fn tell(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.all.entries().remove(&self.id);
    }
}
