//! Fetches a file's ranges over several connections, each from where it stands.
use super::Error;
use super::client::{Answer, Client, Span, Tries, header, plain};
use super::digest::{Digest, Hasher};
use super::part::Part;
use super::refusal::Asked;
use super::watch::Watch;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use ureq::http::StatusCode;

const BUFFER: usize = 256 << 10;
/// Bytes a second of one connection beside which others would only take the processor from it and from the digest.
const FAST: u64 = 320 << 20;

/// A file on the hub.
pub struct Source<'a> {
    pub client: &'a Client,
    pub url: String,
    pub asked: Asked<'a>,
    pub size: u64,
    /// What the hub declares.
    pub declared: Option<Digest>,
    /// The ETag that all ranges must have.
    pub etag: Mutex<Option<String>>,
    pub connections: usize,
    /// How long one connection has to show that it is fast, each time.
    pub alone: Duration,
    pub watch: &'a dyn Watch,
}

/// Why fetching ended early.
#[derive(Debug)]
pub enum Fault {
    /// The file is another now.
    Changed { was: String, is: String },
    /// The server sends whole files only.
    Whole,
    /// Anything else.
    Failed(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Failed(error)
    }
}

/// Where bytes go as they come.
type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Error> + 'a;

impl Source<'_> {
    /// Fills the part's gaps, and gives the digest of all of it.
    ///
    /// # Errors
    /// What ended it early; what came is in the part.
    pub fn fill(&self, part: &Part) -> Result<Option<Digest>, Fault> {
        part.unclaim();
        match self.parallel(part) {
            Err(Fault::Whole) => {
                self.stream(part)?;
                Ok(follow(part, self.declared, &AtomicBool::new(false))?)
            }
            result => result,
        }
    }
    fn parallel(&self, part: &Part) -> Result<Option<Digest>, Fault> {
        let stop = AtomicBool::new(false);
        let gaps =
            (0..part.ranges()).filter(|&r| part.span(r).0 + part.done_of(r) < part.span(r).1);
        let most = gaps.take(self.connections).count();
        let waiting = thread::current();
        thread::scope(|scope| {
            let digest = scope.spawn(|| follow(part, self.declared, &stop));
            let work = || {
                let mut buffer = vec![0; BUFFER];
                let mut result = Ok(());
                while result.is_ok() && !stop.load(Ordering::Relaxed) {
                    let Some(range) = part.claim() else { break };
                    result = self.range(part, range, &mut buffer, &stop);
                }
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                waiting.unpark();
                result
            };
            let mut workers: Vec<_> = (0..most.min(1)).map(|_| scope.spawn(work)).collect();
            while workers.len() < most && !workers[0].is_finished() {
                let before = part.done();
                thread::park_timeout(self.alone);
                let came = part.done().saturating_sub(before);
                if came <= FAST * self.alone.as_millis() as u64 / 1000 {
                    workers.resize_with(most, || scope.spawn(work));
                }
            }
            let results: Vec<_> = workers.into_iter().map(join).collect();
            let digest = join(digest);
            results.into_iter().collect::<Result<(), Fault>>()?;
            Ok(digest?)
        })
    }
    fn range(
        &self,
        part: &Part,
        range: usize,
        buffer: &mut [u8],
        stop: &AtomicBool,
    ) -> Result<(), Fault> {
        let mut tries = Tries::new(self.client.route());
        let (from, to) = part.span(range);
        loop {
            let at = from + part.done_of(range);
            if at == to || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut sink = |bytes: &[u8]| {
                part.write(range, bytes)?;
                self.watch.came(bytes.len() as u64);
                Ok(())
            };
            if let Err(broken) = self.span(at, to, buffer, stop, &mut sink)? {
                // Whoever sends something is asked again; whoever sends nothing, only so often.
                if from + part.done_of(range) > at {
                    tries = Tries::new(self.client.route());
                }
                tries.failed(broken)?;
            }
        }
    }
    /// Gives the sink what comes of a span; the inner error is a connection that broke, which may be tried again.
    fn span(
        &self,
        from: u64,
        to: u64,
        buffer: &mut [u8],
        stop: &AtomicBool,
        sink: &mut Sink,
    ) -> Result<Result<(), Error>, Fault> {
        let etag = self.known();
        let span = Span { from, to, etag: etag.as_deref() };
        let answer = self.client.get(&self.url, Some(&span), &self.asked)?;
        self.same(&answer)?;
        let headers = answer.response.headers();
        match answer.response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            _ => return Err(Fault::Whole),
        }
        let range = header(headers, "content-range").unwrap_or_default();
        let expected = format!("bytes {from}-{}/", to - 1);
        let total = range.strip_prefix(&expected).ok_or_else(|| {
            let problem = format!("asked for {expected}… it sends '{}'", range.escape_debug());
            Error::Listing { url: plain(&self.url), problem }
        })?;
        if let Some(found) = total.parse().ok().filter(|found| *found != self.size) {
            return Err(Error::Length { url: plain(&self.url), found, listed: self.size }.into());
        }
        Ok(self.body(answer, to - from, buffer, stop, sink)?)
    }
    /// Reads `length` bytes of an answer.
    fn body(
        &self,
        answer: Answer,
        length: u64,
        buffer: &mut [u8],
        stop: &AtomicBool,
        sink: &mut Sink,
    ) -> Result<Result<(), Error>, Error> {
        let exact = answer.response.body().content_length() == Some(length);
        let mut reader = answer.response.into_body().into_reader();
        let mut left = length;
        while left > 0 && !stop.load(Ordering::Relaxed) {
            // A buffer is filled before it is written: reads are as small as the network's packets.
            let mut filled = 0;
            let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let mut broken = None;
            while filled < wanted && broken.is_none() {
                match reader.read(&mut buffer[filled..wanted]) {
                    Ok(0) => broken = Some(std::io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => filled += count,
                    Err(error) => broken = Some(error),
                }
            }
            sink(&buffer[..filled])?;
            if !self.watch.is_wanted() {
                return Err(Error::Cancelled);
            }
            left -= filled as u64;
            if let Some(error) = broken {
                return Ok(Err(self.client.network(&self.url, error.into())));
            }
        }
        if exact && left == 0 {
            // Only whoever has read the end gives the connection back for the next range.
            let _ = reader.read(&mut [0]);
        }
        Ok(Ok(()))
    }
    /// The whole file in one answer, of which what is there already is passed over.
    fn stream(&self, part: &Part) -> Result<(), Fault> {
        let stop = AtomicBool::new(false);
        let mut tries = Tries::new(self.client.route());
        let mut buffer = vec![0; BUFFER];
        while part.done() < self.size {
            let answer = self.client.get(&self.url, None, &self.asked)?;
            self.same(&answer)?;
            let found = answer.response.body().content_length();
            if let Some(found) = found.filter(|found| *found != self.size) {
                return Err(
                    Error::Length { url: plain(&self.url), found, listed: self.size }.into()
                );
            }
            let (before, mut at) = (part.done(), 0);
            let mut sink = |mut bytes: &[u8]| {
                while !bytes.is_empty() {
                    let range = (at / (part.span(0).1)) as usize;
                    let (from, to) = part.span(range);
                    let (now, rest) = bytes.split_at(bytes.len().min((to - at) as usize));
                    let known =
                        (from + part.done_of(range)).saturating_sub(at).min(now.len() as u64);
                    part.write(range, &now[known as usize..])?;
                    self.watch.came(now.len() as u64 - known);
                    at += now.len() as u64;
                    bytes = rest;
                }
                Ok(())
            };
            if let Err(broken) = self.body(answer, self.size, &mut buffer, &stop, &mut sink)? {
                if part.done() > before {
                    tries = Tries::new(self.client.route());
                }
                tries.failed(broken)?;
            }
        }
        Ok(())
    }
    /// Fetches range after range again, until the whole is what is declared; the digest of what there is then.
    ///
    /// # Errors
    /// If the ranges can't be had.
    pub fn repair(&self, part: &Part) -> Result<Option<Digest>, Fault> {
        let stop = AtomicBool::new(false);
        let mut before = Hasher::like(self.declared, self.size);
        let mut buffer = vec![0; BUFFER];
        for range in 0..part.ranges() {
            let (from, to) = part.span(range);
            let (mut fresh, mut held) = (Vec::new(), vec![0; (to - from) as usize]);
            part.read(from, &mut held)?;
            let mut tries = Tries::new(self.client.route());
            while (fresh.len() as u64) < to - from {
                let at = from + fresh.len() as u64;
                let mut sink = |bytes: &[u8]| {
                    fresh.extend_from_slice(bytes);
                    Ok(())
                };
                if let Err(broken) = self.span(at, to, &mut buffer, &stop, &mut sink)? {
                    tries.failed(broken)?;
                }
            }
            if fresh != held {
                part.forget(range)?;
                part.write(range, &fresh)?;
                let mut whole = before.clone();
                whole.update(&fresh);
                if rest(part, to, whole)? == self.declared {
                    return Ok(self.declared);
                }
            }
            before.update(&fresh);
        }
        Ok(before.finish())
    }
    /// The ETag that was seen first.
    pub fn known(&self) -> Option<String> {
        self.etag.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Whether an answer is of the file that the others are of.
    fn same(&self, answer: &Answer) -> Result<(), Fault> {
        let linked = answer.linked_etag.as_deref().and_then(Digest::of_etag);
        if let (Some(is), Some(was)) = (linked, self.declared)
            && std::mem::discriminant(&is) == std::mem::discriminant(&was)
            && is != was
        {
            return Err(Fault::Changed { was: was.to_string(), is: is.to_string() });
        }
        let Some(is) = header(answer.response.headers(), "etag") else { return Ok(()) };
        let mut etag = self.etag.lock().unwrap_or_else(PoisonError::into_inner);
        match &*etag {
            Some(was) if *was != is => Err(Fault::Changed { was: was.clone(), is }),
            Some(_) => Ok(()),
            None => {
                *etag = Some(is);
                Ok(())
            }
        }
    }
}

fn join<T>(thread: thread::ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The digest of all of a part, computed while it is filled from its beginning; none if it stops.
fn follow(
    part: &Part,
    declared: Option<Digest>,
    stop: &AtomicBool,
) -> Result<Option<Digest>, Error> {
    // What the disk has to do at the end is done on the way.
    const SYNC: u64 = 256 << 20;
    let mut hasher = Hasher::like(declared, part.size());
    let mut buffer = vec![0; BUFFER];
    let (mut at, mut synced) = (0, 0);
    loop {
        let to = part.prefix();
        while at < to {
            let next = (to - at).min(buffer.len() as u64) as usize;
            part.read(at, &mut buffer[..next])?;
            hasher.update(&buffer[..next]);
            at += next as u64;
            if at >= synced + SYNC {
                part.sync()?;
                synced = at;
            }
        }
        if at == part.size() {
            return Ok(hasher.finish());
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The digest when the rest of a part follows what was hashed.
fn rest(part: &Part, mut at: u64, mut hasher: Hasher) -> Result<Option<Digest>, Error> {
    let mut buffer = vec![0; BUFFER];
    while at < part.size() {
        let next = (part.size() - at).min(buffer.len() as u64) as usize;
        part.read(at, &mut buffer[..next])?;
        hasher.update(&buffer[..next]);
        at += next as u64;
    }
    Ok(hasher.finish())
}
