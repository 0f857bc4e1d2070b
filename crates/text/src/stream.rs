//! Tokens' bytes to text as they come: whole characters only, and nothing that may become a stop
//! string.
//!
//! What is shown does not depend on how the bytes are cut into tokens: the pieces joined are what
//! one push of all bytes gives, and that is `String::from_utf8_lossy` of them, less a character
//! that the end cuts through.

/// Turns bytes to text, up to the first stop string.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    stops: Vec<String>,
    /// The beginning of a character.
    half: Vec<u8>,
    /// Text that may be the beginning of a stop string; empty once stopped.
    held: String,
    /// What was last returned.
    shown: String,
    stopped: Option<usize>,
}

impl Decoder {
    /// Stops at the first of `stops` to be completed; of those completed by the same character, at
    /// the longest. An empty string is none.
    pub fn new(mut stops: Vec<String>) -> Decoder {
        stops.retain(|stop| !stop.is_empty());
        Decoder { stops, ..Decoder::default() }
    }
    /// Takes a token's bytes and returns the text that is now certain. Bytes that are no UTF-8
    /// become U+FFFD. After a stop, nothing is.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.shown.clear();
        if self.stopped.is_none() {
            self.decode(bytes);
            match self.first_stop() {
                Some((stop, start)) => self.stop(stop, start),
                None => self.release(self.held.len() - self.maybe_stop()),
            }
        }
        &self.shown
    }
    /// Takes a control token, which is not text but may be a stop string by its name.
    pub fn push_control(&mut self, name: &str) -> &str {
        self.shown.clear();
        if self.stopped.is_none()
            && let Some(stop) = self.stops.iter().position(|stop| stop == name)
        {
            self.stop(stop, self.held.len());
        }
        &self.shown
    }
    /// The rest, when no token follows. A character that was cut through is dropped.
    pub fn finish(&mut self) -> &str {
        self.half.clear();
        self.shown.clear();
        self.release(self.held.len());
        &self.shown
    }
    /// The stop string that ended the text.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.map(|stop| self.stops[stop].as_str())
    }
    fn decode(&mut self, bytes: &[u8]) {
        self.half.extend_from_slice(bytes);
        let mut done = 0;
        for chunk in self.half.utf8_chunks() {
            self.held.push_str(chunk.valid());
            done += chunk.valid().len();
            let rest = std::str::from_utf8(&self.half[done..]);
            if chunk.invalid().is_empty() || rest.is_err_and(|e| e.error_len().is_none()) {
                break;
            }
            self.held.push(char::REPLACEMENT_CHARACTER);
            done += chunk.invalid().len();
        }
        self.half.drain(..done);
    }
    /// The stop string in the held text that ends first, and its start.
    fn first_stop(&self) -> Option<(usize, usize)> {
        let found = self.stops.iter().enumerate().filter_map(|(i, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, i))
        });
        found.min().map(|(_, start, i)| (i, start))
    }
    fn stop(&mut self, stop: usize, start: usize) {
        self.stopped = Some(stop);
        self.held.truncate(start);
        self.half.clear();
        self.release(start);
    }
    /// How many of the held bytes may be the beginning of a stop string.
    fn maybe_stop(&self) -> usize {
        let begins = |stop: &String| {
            let longest = self.held.len().min(stop.len() - 1);
            let mut ends = (1..=longest).rev().filter(|n| stop.is_char_boundary(*n));
            ends.find(|n| self.held.ends_with(&stop[..*n])).unwrap_or(0)
        };
        self.stops.iter().map(begins).max().unwrap_or(0)
    }
    fn release(&mut self, bytes: usize) {
        self.shown.extend(self.held.drain(..bytes));
    }
}
