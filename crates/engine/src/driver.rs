//! The thread that drives an engine, so that any number of threads may send it requests.
use crate::engine::{Engine, admissible};
use crate::request::{Events, Request, RequestError, Sink};
use crate::schedule::Sequence;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// A running engine. Dropping it cancels what is under way and waits for the thread.
pub struct Driver {
    requests: Option<Sender<Sequence>>,
    thread: Option<JoinHandle<()>>,
    vocab: usize,
    context: usize,
}

impl Driver {
    /// Moves `engine` to a thread of its own. `vocab` and `context` are those it was made with.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(engine: Engine, vocab: usize, context: usize) -> std::io::Result<Driver> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("rinfer-engine".into())
            .spawn(move || drive(engine, &receiver))?;
        Ok(Driver { requests: Some(sender), thread: Some(thread), vocab, context })
    }

    /// As [`Engine::submit`].
    ///
    /// # Errors
    /// What no wait would help.
    pub fn submit(&self, request: Request) -> Result<Events, RequestError> {
        let (sink, events) = Sink::new();
        let sequence = admissible(request, sink, self.vocab, self.context)?;
        let requests = self.requests.as_ref().ok_or(RequestError::Stopped)?;
        requests.send(sequence).map_err(|_| RequestError::Stopped)?;
        Ok(events)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.requests = None;
        // A panic there was reported where it happened, and ended every request's events.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Steps while there is work, sleeps while there is none, and ends with its senders.
fn drive(mut engine: Engine, requests: &Receiver<Sequence>) {
    loop {
        loop {
            match requests.try_recv() {
                Ok(sequence) => engine.queue(sequence),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        if !engine.step() {
            match requests.recv() {
                Ok(sequence) => engine.queue(sequence),
                Err(_) => return,
            }
        }
    }
}
