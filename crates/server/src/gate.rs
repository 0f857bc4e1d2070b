//! How many requests of a model are let in: those that run, and a bounded number that wait.
use crate::refusal::{Kind, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts who is inside.
#[derive(Clone, Debug)]
pub struct Gate {
    inside: Arc<AtomicUsize>,
    running: usize,
    waiting: usize,
}

/// A place inside, given back when it is dropped.
#[derive(Debug)]
pub struct Pass {
    inside: Arc<AtomicUsize>,
    places: usize,
}

impl Gate {
    /// For so many sequences at once and so many that wait.
    pub fn new(running: usize, waiting: usize) -> Gate {
        Gate { inside: Arc::default(), running, waiting }
    }
    /// Lets a request for `places` sequences in.
    ///
    /// # Errors
    /// If too many are inside, or would be in any case; the message says how many may be.
    pub fn enter(&self, places: usize) -> Result<Pass, Refusal> {
        let most = self.running + self.waiting;
        if places > most {
            let message = format!(
                "{places} answers are asked for at once, and {most} may be under way or waiting: ask for fewer, \
                 or start the server with a larger --queue"
            );
            return Err(Refusal::new(Kind::Invalid, message).code("too_many_answers"));
        }
        let more = |inside: usize| Some(inside + places).filter(|sum| *sum <= most);
        match self.inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Pass { inside: self.inside.clone(), places }),
            Err(inside) => {
                let Gate { running, waiting, .. } = self;
                let message = format!(
                    "{inside} answers are under way or waiting, and {running} run at once while {waiting} \
                     wait: try again later, or start the server with a larger --parallel or --queue"
                );
                Err(Refusal::new(Kind::Busy, message).code("queue_full"))
            }
        }
    }
    /// How many sequences are inside.
    pub fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.inside.fetch_sub(self.places, Ordering::Relaxed);
    }
}
