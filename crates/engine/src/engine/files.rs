//! What is kept as files, and how a model knows its own.
use super::Engine;
use crate::batch::{Batch, Row, Slot, Span, TokenId, Want};
use crate::error::Error;
use crate::request::RequestError;
use crate::saved::{Header, Restored, Sum};
use std::path::Path;

/// Tokens that a model is known by.
const PROBE: usize = 8;

impl Engine {
    /// Writes a file of what is kept of `tokens`, or of all that is kept, with a note. Returns how many
    /// positions that are.
    ///
    /// # Errors
    /// Those of writing; nothing is kept and nothing is noted.
    pub fn save(
        &mut self,
        tokens: Option<&[TokenId]>,
        note: &[u8],
        path: &Path,
    ) -> Result<usize, Error> {
        let header = self.header()?;
        header.write(path, note, |out| self.executor.state().save(tokens, out))
    }

    /// Keeps what such a file holds.
    ///
    /// # Errors
    /// A file that is cut, changed, or another model's, or that there is no room for: nothing of it is
    /// kept then.
    pub fn restore(&mut self, path: &Path) -> Result<Restored, Error> {
        let header = self.header()?;
        let restored = header.read(path, |from| self.executor.state().restore(from));
        self.count();
        restored
    }

    fn header(&mut self) -> Result<Header, Error> {
        let (kv, context) = (self.limits.kv, self.limits.context);
        Ok(Header { model: self.says()?, kv, context })
    }

    /// A model is known by what it says: weights, adapters, their precision and every setting are in the
    /// bits of the logits after a fixed prompt, and these are the same on every machine.
    fn says(&mut self) -> Result<u64, Error> {
        if let Some(says) = self.says {
            return Ok(says);
        }
        let slot = loop {
            match (self.executor.state().open(), self.running.pop()) {
                (Some(slot), last) => {
                    self.running.extend(last);
                    break slot;
                }
                (None, Some(s)) => self.step_back(s),
                (None, None) => return Err(RequestError::NoRoom(PROBE).into()),
            }
        };
        let said = self.probe(slot);
        self.executor.state().close(slot);
        self.says = Some(said?);
        self.says()
    }

    fn probe(&mut self, slot: Slot) -> Result<u64, Error> {
        let n = PROBE.min(self.limits.context);
        while !self.executor.state().reserve(slot, n) {
            let Some(s) = self.running.pop() else { return Err(RequestError::NoRoom(n).into()) };
            self.step_back(s);
        }
        let mut sum = Sum::default();
        for past in 0..n {
            let id = TokenId((past * 7919 % self.logits.vocab) as u32);
            let span = Span { slot, len: 1, past, want: Want::Last };
            let batch = Batch { rows: vec![Row::Token(id)], seqs: vec![span] };
            self.executor.forward(&batch, &mut self.logits)?;
            self.logits.data.iter().for_each(|x| sum.add(&x.to_le_bytes()));
        }
        Ok(sum.end())
    }
}
