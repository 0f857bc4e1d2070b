//! Which models are loaded: each is brought once, by whoever asks for it first, and shared; the longest
//! idle ones make room. A model that somebody uses stays.
mod room;
mod saving;

use super::State;
use super::keep::Keep;
use super::slot::{Loaded, Outcome, Slot, Slots, Stage};
use super::source::{Brought, Failure, Offer};
use crate::config::{Config, Log};
use crate::gate::Gate;
use crate::refusal::{Kind, Refusal};
use rinfer_engine::model::Model;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The models and what is loaded of them.
pub struct Pool {
    /// It only grows, and never without the slots' lock.
    offers: RwLock<Vec<Arc<Offer>>>,
    slots: Mutex<Slots>,
    /// Counts up whenever something is loaded, unloaded or given back.
    changed: watch::Sender<u64>,
    /// Bytes that all may take together; none is any number.
    room: Option<usize>,
    keep: Keep,
    /// How long a request waits for room.
    patience: Duration,
    log: Log,
}

/// Somebody uses a model.
pub struct Using(Arc<Pool>, usize);

/// A model is to be unloaded: nobody begins to use it.
struct Closing<'a>(&'a Arc<Pool>, usize);

/// Somebody is about to.
struct Waiting<'a>(&'a Arc<Pool>, usize);

enum Step {
    Here(Loaded, Using),
    Coming(watch::Receiver<Option<Outcome>>),
    Full(Refusal),
}

impl Pool {
    pub fn new(offers: Vec<Offer>, config: &Config) -> Pool {
        let all = offers.iter().map(|_| Slot::default()).collect();
        Pool {
            offers: RwLock::new(offers.into_iter().map(Arc::new).collect()),
            slots: Mutex::new(Slots { all, time: 0 }),
            changed: watch::channel(0).0,
            room: config.memory,
            keep: config.keep_alive,
            patience: config.patience,
            log: config.log.clone(),
        }
    }
    pub fn offers(&self) -> Vec<Arc<Offer>> {
        self.offers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// One more, unless one of its names is another's: that is returned.
    pub fn add(&self, offer: Offer) -> Result<(), String> {
        let mut slots = self.slots();
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        let taken = |name: &&String| offers.iter().any(|other| other.names.contains(name));
        if let Some(name) = offer.names.iter().find(taken) {
            return Err(name.clone());
        }
        offers.push(Arc::new(offer));
        slots.all.push(Slot::default());
        Ok(())
    }
    /// How each is.
    pub fn states(&self) -> Vec<(Arc<Offer>, State)> {
        let state = |slot: &Slot| {
            let loaded = match &slot.stage {
                Stage::Here(loaded, _) => Some(loaded),
                _ => None,
            };
            let writer = loaded.and_then(|loaded| loaded.model.writer());
            State {
                name: slot.stage.name(),
                context: loaded.map(|loaded| loaded.model.context()),
                sampling: loaded.and_then(|loaded| match &loaded.model {
                    Brought::Writer(_, sampling) => Some(sampling.clone()),
                    _ => None,
                }),
                bytes: slot.bytes,
                inside: loaded.map_or(0, |loaded| loaded.gate.inside()),
                kept: writer.map_or(0, Model::kept),
                positions: writer.map_or(0, |model| model.limits().positions),
                users: slot.users,
                idle: slot.since.filter(|_| slot.is_idle()).map(|since| since.elapsed()),
                keep: match slot.stage {
                    Stage::Here(_, keep) => Some(keep),
                    _ => None,
                },
            }
        };
        let slots = self.slots();
        self.offers().into_iter().zip(slots.all.iter().map(state)).collect()
    }
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn offer(&self, index: usize) -> Arc<Offer> {
        self.offers.read().unwrap_or_else(PoisonError::into_inner)[index].clone()
    }
    fn name(&self, index: usize) -> String {
        self.offer(index).names[0].clone()
    }
    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
    /// Loads one on this thread.
    pub fn load(&self, index: usize) -> Result<(), Failure> {
        let sender = self.slots().all[index].come();
        match self.bring(index, &sender) {
            Outcome::Here => Ok(()),
            Outcome::Failed(failure, _) => Err(failure),
            Outcome::Full(refusal) => Err(Failure::told(refusal.message)),
        }
    }
    /// A model, loaded; whoever gives up waiting for it drops the future.
    pub async fn acquire(
        self: &Arc<Pool>,
        index: usize,
        keep: Option<Keep>,
    ) -> Result<(Loaded, Using), Refusal> {
        let _waiting = self.wait(index)?;
        let deadline = tokio::time::Instant::now() + self.patience;
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let full = match self.step(index, keep) {
                Step::Here(loaded, using) => return Ok((loaded, using)),
                Step::Full(refusal) => refusal,
                Step::Coming(mut outcome) => {
                    let outcome = outcome.wait_for(Option::is_some).await;
                    let outcome = outcome.ok().and_then(|outcome| outcome.clone());
                    match outcome.ok_or_else(|| Refusal::panicked("load"))? {
                        Outcome::Here => continue,
                        Outcome::Failed(_, refusal) => return Err(refusal),
                        Outcome::Full(refusal) => refusal,
                    }
                }
            };
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(full);
            }
        }
    }
    /// Counts one who waits. For a model that is not loaded, as many may as would for one that is.
    fn wait(self: &Arc<Pool>, index: usize) -> Result<Waiting<'_>, Refusal> {
        let slot = &mut self.slots().all[index];
        let most = self.offer(index).queue + 1;
        if slot.waiting >= most && !matches!(slot.stage, Stage::Here(..)) {
            let text = format!(
                "{} requests wait for '{}' to be loaded, and {most} may: try again later, or start the \
                 server with a larger --queue",
                slot.waiting,
                self.name(index)
            );
            return Err(Refusal::new(Kind::Busy, text).code("queue_full"));
        }
        slot.waiting += 1;
        Ok(Waiting(self, index))
    }
    fn step(self: &Arc<Pool>, index: usize, keep: Option<Keep>) -> Step {
        let mut slots = self.slots();
        let slots = &mut *slots;
        let slot = &mut slots.all[index];
        match &mut slot.stage {
            Stage::Here(..) if slot.closing > 0 => {
                let text = format!("'{}' is being unloaded: try again later", self.name(index));
                Step::Full(Refusal::new(Kind::Busy, text).code("model_unloading"))
            }
            Stage::Here(loaded, kept) => {
                *kept = keep.unwrap_or(*kept);
                slot.users += 1;
                slots.time += 1;
                slot.last = slots.time;
                Step::Here((**loaded).clone(), Using(self.clone(), index))
            }
            Stage::Coming(outcome) => Step::Coming(outcome.clone()),
            Stage::Away => {
                // What it takes is known, mostly: then no file is opened to find that there is no room.
                if let Some(bytes) = slot.known
                    && let Err(refusal) = self.room(slots, index, bytes)
                    && refusal.kind == Kind::Busy
                {
                    return Step::Full(refusal);
                }
                let sender = slots.all[index].come();
                let outcome = sender.subscribe();
                let pool = self.clone();
                tokio::task::spawn_blocking(move || pool.bring(index, &sender));
                Step::Coming(outcome)
            }
        }
    }
    /// Loads a model that is said to come, and says how that went.
    fn bring(&self, index: usize, sender: &watch::Sender<Option<Outcome>>) -> Outcome {
        let fetched = catch_unwind(AssertUnwindSafe(|| self.fetch(index)));
        let fetched =
            fetched.unwrap_or_else(|_| Err(self.failed(index, Failure::told("it panicked"))));
        let mut slots = self.slots();
        slots.time += 1;
        let time = slots.time;
        let slot = &mut slots.all[index];
        let outcome = match fetched {
            Ok(loaded) => {
                slot.stage = Stage::Here(Box::new(loaded), self.keep);
                (slot.last, slot.since) = (time, Some(Instant::now()));
                Outcome::Here
            }
            Err(outcome) => {
                (slot.stage, slot.bytes) = (Stage::Away, 0);
                outcome
            }
        };
        drop(slots);
        sender.send_replace(Some(outcome.clone()));
        self.tell();
        outcome
    }
    fn fetch(&self, index: usize) -> Result<Loaded, Outcome> {
        let offer = self.offer(index);
        let bytes = offer.source.plan().map_err(|failure| self.failed(index, failure))?.total();
        let unloaded = self.make_room(index, bytes).map_err(|refusal| match refusal.kind {
            Kind::Busy => Outcome::Full(refusal),
            _ => Outcome::Failed(Failure::told(refusal.message.clone()), refusal),
        })?;
        // Their memory is given back before it is needed.
        unloaded.into_iter().for_each(|(other, stage)| self.part(other, stage));
        let start = Instant::now();
        let model = offer.source.load().map_err(|failure| self.failed(index, failure))?;
        (self.log)(&format!("loaded {} in {:.2} s", offer.names[0], start.elapsed().as_secs_f64()));
        let gate = Gate::new(model.places(), offer.queue);
        Ok(Loaded { model, gate })
    }
    fn failed(&self, index: usize, failure: Failure) -> Outcome {
        let name = self.name(index);
        (self.log)(&format!("error: '{name}' can't be loaded: {}", failure.whole));
        let text = format!("the model '{name}' can't be loaded: {}", failure.told);
        Outcome::Failed(failure, Refusal::new(Kind::Failed, text).code("model_not_loaded"))
    }
    /// Unloads a model when nobody uses it any more, and lets nobody begin to; false if it is still used
    /// after a while.
    pub async fn unload(self: &Arc<Pool>, index: usize, wait: Duration) -> bool {
        let _closing = Closing::new(self, index);
        let deadline = tokio::time::Instant::now() + wait;
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let unloaded = {
                let slot = &mut self.slots().all[index];
                match slot.stage {
                    Stage::Away => return true,
                    Stage::Here(..) if slot.users == 0 => Some(slot.leave()),
                    _ => None,
                }
            };
            if let Some(unloaded) = unloaded {
                (self.log)(&format!("unloaded {}, as was asked", self.name(index)));
                let pool = self.clone();
                let _ = tokio::task::spawn_blocking(move || pool.part(index, unloaded)).await;
                return true;
            }
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return false;
            }
        }
    }
    /// Unloads what was idle for long enough, for ever.
    pub async fn reap(self: &Arc<Pool>) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let (unloaded, next) = self.expired();
            if !unloaded.is_empty() {
                // It takes a while: no work for the threads that serve.
                let pool = self.clone();
                let part = move |(index, stage)| pool.part(index, stage);
                let all = move || unloaded.into_iter().for_each(part);
                let _ = tokio::task::spawn_blocking(all).await;
                self.tell();
            }
            let next = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { _ = changed.changed() => {}, () = next => {} }
        }
    }
    /// Takes out what was idle for long enough, and says when the next will be.
    fn expired(&self) -> (Vec<(usize, Stage)>, Option<Instant>) {
        let (now, mut unloaded, mut next) = (Instant::now(), Vec::new(), None::<Instant>);
        for (i, slot) in self.slots().all.iter_mut().enumerate() {
            let Stage::Here(_, Keep::For(time)) = slot.stage else { continue };
            let Some(since) = slot.since.filter(|_| slot.is_idle()) else { continue };
            let end = since + time;
            if end <= now {
                (self.log)(&format!("unloaded {}, which nobody used", self.name(i)));
                unloaded.push((i, slot.leave()));
            } else {
                next = next.into_iter().chain([end]).min();
            }
        }
        (unloaded, next)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let Using(pool, index) = self;
        let mut slots = pool.slots();
        slots.time += 1;
        let time = slots.time;
        let slot = &mut slots.all[*index];
        slot.users -= 1;
        (slot.last, slot.since) = (time, Some(Instant::now()));
        drop(slots);
        pool.tell();
    }
}

impl Closing<'_> {
    fn new(pool: &Arc<Pool>, index: usize) -> Closing<'_> {
        pool.slots().all[index].closing += 1;
        Closing(pool, index)
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.slots().all[self.1].closing -= 1;
        self.0.tell();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.slots().all[self.1].waiting -= 1;
        self.0.tell();
    }
}
