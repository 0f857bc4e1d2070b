//! Requests in, tokens out: continuous batching over one executor.
//!
//! [`Engine::step`] is the whole loop body: drop what was cancelled, admit, plan, forward, pick.
//! What a request computes is kept while there is room; a request that begins with the same tokens goes
//! on from there, and waits while another computes them. Because a row's result depends on nothing but
//! its own sequence, that gives the same bits as a cold run, and so does taking a sequence out and
//! computing it again.
mod files;

use crate::backend::{Executor, Limits, State};
use crate::batch::{Batch, Logits, Slot, TokenId};
use crate::request::{Chosen, Event, Events, Finish, Request, RequestError, Sink, Usage};
use crate::sample::Logprobs;
use crate::schedule::{Sequence, plan};
use rinfer_grammar::GrammarError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tokens that are worth waiting for until another request has computed them.
const WORTH: usize = 64;

/// Runs requests on one executor.
pub struct Engine {
    executor: Box<dyn Executor>,
    limits: Limits,
    waiting: VecDeque<Sequence>,
    /// Oldest first.
    running: Vec<Sequence>,
    order: Vec<usize>,
    batch: Batch,
    logits: Logits,
    raw: Vec<f32>,
    /// Positions that are kept.
    kept: Arc<AtomicUsize>,
    /// What the model is known by, once that was asked.
    says: Option<u64>,
}

/// Why a waiting request gets no slot.
enum Wait {
    /// All are taken, or all room.
    Full,
    /// A running one computes what it begins with.
    Soon,
}

impl Engine {
    /// Over an executor that was loaded with `limits` and gives `vocab` logits a row.
    pub fn new(executor: Box<dyn Executor>, limits: Limits, vocab: usize) -> Engine {
        Engine {
            executor,
            limits,
            waiting: VecDeque::new(),
            running: Vec::new(),
            order: Vec::new(),
            batch: Batch::default(),
            logits: Logits { vocab, data: Vec::new() },
            raw: Vec::new(),
            kept: Arc::default(),
            says: None,
        }
    }

    /// Takes a request over; its turn comes when there is room.
    ///
    /// # Errors
    /// What no wait would help.
    pub fn submit(&mut self, request: Request) -> Result<Events, RequestError> {
        let (sink, events) = Sink::new();
        let sequence = admissible(request, sink, self.logits.vocab, self.limits.context)?;
        self.queue(sequence);
        Ok(events)
    }

    pub(crate) fn queue(&mut self, sequence: Sequence) {
        self.waiting.push_back(sequence);
    }

    /// Positions that are kept for later requests, as of the last step.
    pub fn kept(&self) -> Arc<AtomicUsize> {
        self.kept.clone()
    }

    fn count(&mut self) {
        self.kept.store(self.executor.state().kept(), Ordering::Relaxed);
    }

    /// One forward pass. Returns false if there was nothing to do.
    pub fn step(&mut self) -> bool {
        let more = self.pass();
        self.count();
        more
    }

    fn pass(&mut self) -> bool {
        self.reap();
        self.admit();
        self.grow();
        let state = self.executor.state();
        let stride = |slot, rows| state.stride(slot, rows);
        plan(&self.running, self.limits.batch, stride, &mut self.order, &mut self.batch);
        if self.batch.seqs.is_empty() {
            return false;
        }
        let forward = || self.executor.forward(&self.batch, &mut self.logits);
        match caught(forward) {
            Ok(Ok(())) => self.pick(),
            Ok(Err(error)) => self.abandon(&RequestError::Device(error.0)),
            Err(panicked) => self.abandon(&panicked),
        }
        true
    }

    /// Ends all that was in a pass that failed.
    fn abandon(&mut self, error: &RequestError) {
        for s in std::mem::take(&mut self.running) {
            self.executor.state().close(s.slot);
            s.sink.send(Event::Failed(error.clone()));
        }
    }

    /// Ends what was cancelled, waiting or running.
    fn reap(&mut self) {
        self.waiting.retain(|s| {
            let gone = s.sink.is_cancelled();
            if gone {
                s.sink.send(Event::Done(Finish::Cancelled, usage(s)));
            }
            !gone
        });
        while let Some(i) = self.running.iter().position(|s| s.sink.is_cancelled()) {
            self.finish(i, Event::Done(Finish::Cancelled, usage(&self.running[i])));
        }
    }

    /// Moves waiting requests to a slot, oldest first, until one finds no room.
    fn admit(&mut self) {
        let mut i = 0;
        while let Some(s) = self.waiting.get(i) {
            match place(self.executor.state(), &self.running, s) {
                Ok((slot, past)) => {
                    let Some(mut s) = self.waiting.remove(i) else { return };
                    (s.slot, s.past) = (slot, past);
                    s.sink.computed(past);
                    if s.tokens.len() == s.prompt {
                        s.cached = past;
                        s.sink.send(Event::Started { cached: past });
                    }
                    self.running.push(s);
                }
                Err(Wait::Soon) => i += 1,
                Err(Wait::Full) if self.running.is_empty() => {
                    let Some(s) = self.waiting.remove(i) else { return };
                    s.sink.send(Event::Failed(RequestError::NoRoom(s.tokens.len())));
                }
                Err(Wait::Full) => return,
            }
        }
    }

    /// Makes room for what will be computed next. If there is none, the youngest sequence steps
    /// back and is computed again later.
    fn grow(&mut self) {
        let mut i = 0;
        while i < self.running.len() {
            let s = &self.running[i];
            if self.executor.state().reserve(s.slot, s.tokens.len()) {
                i += 1;
                continue;
            }
            let alone = self.running.len() == 1;
            let Some(s) = self.running.pop() else { return };
            if alone {
                self.leave(&s);
                s.sink.send(Event::Failed(RequestError::NoRoom(s.tokens.len())));
            } else {
                self.step_back(s);
            }
        }
    }

    /// Takes a sequence out, to be computed again later.
    fn step_back(&mut self, s: Sequence) {
        self.leave(&s);
        self.waiting.push_front(s);
    }

    /// Frees a sequence's slot. What it computed is left to others, if it may be.
    fn leave(&mut self, s: &Sequence) {
        let state = self.executor.state();
        if s.shares() {
            state.keep(s.slot, s.held());
        }
        state.close(s.slot);
    }

    /// Takes the forward's result: the state has grown, and rows that were wanted give tokens.
    fn pick(&mut self) {
        let mut row = 0;
        let spans = std::mem::take(&mut self.batch.seqs);
        for span in &spans {
            let Some(i) = self.running.iter().position(|s| s.slot == span.slot) else { continue };
            let s = &mut self.running[i];
            s.past += span.len;
            s.sink.computed(s.past);
            if s.shares() && s.past <= s.prompt {
                self.executor.state().keep(s.slot, s.held());
            }
            if s.pending() > 0 {
                continue;
            }
            let vocab = self.logits.vocab;
            let logits = &mut self.logits.data[row * vocab..(row + 1) * vocab];
            row += 1;
            // What restricts this answer is its own, and so is its failure.
            let over = caught(|| next(s, logits, &mut self.raw));
            if let Some(over) = over.unwrap_or_else(|panicked| Some(Event::Failed(panicked))) {
                self.finish(i, over);
            }
        }
        self.batch.seqs = spans;
    }

    /// Reports the end of a running sequence.
    fn finish(&mut self, i: usize, last: Event) {
        let s = self.running.remove(i);
        s.sink.send(last);
        self.leave(&s);
    }
}

/// A slot with room for a sequence, and how many of its tokens that holds already.
fn place(state: &mut dyn State, running: &[Sequence], s: &Sequence) -> Result<(Slot, usize), Wait> {
    let slot = state.open().ok_or(Wait::Full)?;
    state.begin(slot, s.prompt);
    let past = if s.shares() { state.resume(slot, s.usable()) } else { 0 };
    let soon = s.shares() && running.iter().any(|other| comes(state, other, s, past));
    if !soon && state.reserve(slot, s.tokens.len()) {
        return Ok((slot, past));
    }
    state.close(slot);
    Err(if soon { Wait::Soon } else { Wait::Full })
}

/// Whether a sequence that could begin with `past` of its tokens should wait for `other`, which computes
/// a page more of them, or the rest.
fn comes(state: &mut dyn State, other: &Sequence, s: &Sequence, past: usize) -> bool {
    if !other.shares() || other.past >= other.prompt {
        return false;
    }
    let alike = other.tokens[..other.prompt].iter().zip(s.usable()).take_while(|(a, b)| a == b);
    let common = alike.count();
    let worth = common >= past + WORTH || (common > past && common == s.usable().len());
    worth && state.expect(other.slot, common, s.prompt)
}

/// What `work` returns, or that it panicked: that was reported where it happened.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, RequestError> {
    // What it leaves half done belongs to sequences that are ended for it.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        RequestError::Panicked(text.unwrap_or_default())
    })
}

/// Chooses a sequence's next token, and with a constraint those that must follow it. Returns the
/// last event if the answer is over.
fn next(s: &mut Sequence, logits: &mut [f32], raw: &mut Vec<f32>) -> Option<Event> {
    if s.request.logprobs.is_some() {
        raw.clear();
        raw.extend_from_slice(logits);
    }
    if let Some(c) = &mut s.request.constraint
        && let Err(e) = c.mask(logits)
    {
        return Some(failed(e));
    }
    let Some(id) = s.sampler.pick(logits, &s.tokens) else {
        let complete = s.request.constraint.as_mut().is_some_and(|c| c.complete());
        let done = Event::Done(Finish::Stop, usage(s));
        return Some(if complete { done } else { Event::Failed(RequestError::NoToken) });
    };
    if s.request.end.contains(&id) {
        return Some(Event::Done(Finish::Stop, usage(s)));
    }
    let report = s.request.logprobs.map(|top| Logprobs::of(raw, top));
    let logprob = report.as_ref().map(|l| l.at(raw[id.0 as usize]));
    let chosen = Chosen { id, logprob, top: report.map(|l| l.top).unwrap_or_default() };
    if let Some(over) = take(s, chosen) {
        return Some(over);
    }
    let forced = s.request.constraint.as_mut().map(|c| c.forced()).unwrap_or_default();
    forced
        .into_iter()
        .find_map(|id| take(s, Chosen { id: TokenId(id), logprob: None, top: Vec::new() }))
}

/// Appends a token to the answer. Returns the last event if the answer is over.
fn take(s: &mut Sequence, chosen: Chosen) -> Option<Event> {
    let id = chosen.id;
    s.tokens.push(id);
    if let Some(c) = &mut s.request.constraint
        && let Err(e) = c.accept(id.0)
    {
        return Some(failed(e));
    }
    s.sink.send(Event::Token(chosen));
    // Where nothing but the end may follow, the model is not asked for it.
    let stops = s.request.until.as_mut().is_some_and(|until| until(id))
        || s.request.constraint.as_mut().is_some_and(|c| c.over());
    let finish = if stops { Finish::Stop } else { Finish::Length };
    (stops || s.tokens.len() >= s.limit).then(|| Event::Done(finish, usage(s)))
}

fn failed(error: GrammarError) -> Event {
    Event::Failed(RequestError::Grammar(error))
}

fn usage(s: &Sequence) -> Usage {
    Usage { prompt: s.prompt, cached: s.cached, generated: s.tokens.len() - s.prompt }
}

/// The request as a sequence, if it can ever run.
pub(crate) fn admissible(
    request: Request,
    sink: Sink,
    vocab: usize,
    context: usize,
) -> Result<Sequence, RequestError> {
    let prompt = request.prompt.len();
    if prompt == 0 {
        return Err(RequestError::EmptyPrompt);
    }
    if prompt >= context {
        return Err(RequestError::PromptTooLong { prompt, context });
    }
    if let Some(id) = request.prompt.iter().find(|id| id.0 as usize >= vocab) {
        return Err(RequestError::UnknownToken { id: id.0, vocab });
    }
    Ok(Sequence::new(request, sink, vocab, context)?)
}
