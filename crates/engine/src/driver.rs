//! The thread that drives an engine, so that any number of threads may send it requests.
use crate::engine::{Engine, admissible};
use crate::request::{Events, Request, RequestError, Sink};
use crate::schedule::Sequence;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// What the thread is to do.
enum Task {
    Answer(Box<Sequence>),
    /// Between two steps.
    Call(Box<dyn FnOnce(&mut Engine) + Send>),
}

/// A running engine. Dropping it cancels what is under way and waits for the thread.
pub struct Driver {
    tasks: Option<Sender<Task>>,
    kept: Arc<AtomicUsize>,
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
        let kept = engine.kept();
        let thread = std::thread::Builder::new()
            .name("rinfer-engine".into())
            .spawn(move || drive(engine, &receiver))?;
        Ok(Driver { tasks: Some(sender), kept, thread: Some(thread), vocab, context })
    }

    /// As [`Engine::submit`].
    ///
    /// # Errors
    /// What no wait would help.
    pub fn submit(&self, request: Request) -> Result<Events, RequestError> {
        let (sink, events) = Sink::new();
        let sequence = admissible(request, sink, self.vocab, self.context)?;
        self.send(Task::Answer(Box::new(sequence)))?;
        Ok(events)
    }

    /// What `work` returns of the engine, between two of its steps: answers wait for it.
    ///
    /// # Errors
    /// If the engine has stopped, or stops over it.
    pub fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let (sender, receiver) = channel();
        // Whoever asked waits for it.
        let work = move |engine: &mut Engine| _ = sender.send(work(engine));
        self.send(Task::Call(Box::new(work)))?;
        receiver.recv().map_err(|_| RequestError::Stopped)
    }

    /// Positions that are kept for later requests.
    pub fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    fn send(&self, task: Task) -> Result<(), RequestError> {
        let tasks = self.tasks.as_ref().ok_or(RequestError::Stopped)?;
        tasks.send(task).map_err(|_| RequestError::Stopped)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.tasks = None;
        // A panic there was reported where it happened, and ended every request's events.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Steps while there is work, sleeps while there is none, and ends with its senders.
fn drive(mut engine: Engine, tasks: &Receiver<Task>) {
    let begin = |engine: &mut Engine, task| match task {
        Task::Answer(sequence) => engine.queue(*sequence),
        Task::Call(work) => work(engine),
    };
    loop {
        loop {
            match tasks.try_recv() {
                Ok(task) => begin(&mut engine, task),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        if !engine.step() {
            match tasks.recv() {
                Ok(task) => begin(&mut engine, task),
                Err(_) => return,
            }
        }
    }
}
