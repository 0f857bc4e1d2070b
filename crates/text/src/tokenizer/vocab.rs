//! The vocabulary: token texts in one arena, found by id or by text.
use super::TokenizerError;
use super::hash::hash_bytes;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Found by the model.
    Normal,
    /// Found in the text before the model runs, but plain text all the same.
    Added,
    /// Steers the model (begin, end, turn, unknown, padding): never made from plain text.
    Control,
    /// Stands for one byte.
    Byte,
    /// A hole in the numbering, or a token that the model must never make.
    Unused,
}

#[derive(Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}
const ABSENT: Span = Span { start: u32::MAX, len: 0 };

/// A cell of the open-addressing table: bits of the hash spare most looks into the arena.
#[derive(Clone, Copy)]
struct Cell {
    tag: u32,
    id: u32,
}
const EMPTY: Cell = Cell { tag: 0, id: u32::MAX };

pub(crate) struct Vocab {
    arena: Vec<u8>,
    spans: Vec<Span>,
    kinds: Vec<Kind>,
    cells: Vec<Cell>,
    count: usize,
    longest: usize,
}

impl Vocab {
    /// Room for about `tokens` tokens of `bytes` bytes in all.
    pub fn with_capacity(tokens: usize, bytes: usize) -> Self {
        Self {
            arena: Vec::with_capacity(bytes),
            spans: Vec::with_capacity(tokens),
            kinds: Vec::with_capacity(tokens),
            cells: vec![EMPTY; (tokens * 4 / 3).max(16).next_power_of_two()],
            count: 0,
            longest: 0,
        }
    }

    /// Adds `text` as token `id`, leaving holes below it if need be. Returns the token that had
    /// this text before, if any; from now on [`Self::find`] gives the new one.
    pub fn insert(
        &mut self,
        id: u32,
        text: &[u8],
        kind: Kind,
    ) -> Result<Option<u32>, TokenizerError> {
        let too_long = || TokenizerError::invalid("vocabulary", "token texts exceed 4 GiB");
        let start = u32::try_from(self.arena.len()).map_err(|_| too_long())?;
        let len = u32::try_from(text.len()).map_err(|_| too_long())?;
        self.leave_hole(id);
        let span = &mut self.spans[id as usize];
        if span.start != u32::MAX {
            let old = String::from_utf8_lossy(self.text(id)).into_owned();
            let new = String::from_utf8_lossy(text);
            let problem = format!("id {id} is both {old:?} and {new:?}");
            return Err(TokenizerError::invalid("vocabulary", problem));
        }
        *span = Span { start, len };
        self.arena.extend_from_slice(text);
        self.kinds[id as usize] = kind;
        self.count += 1;
        self.longest = self.longest.max(text.len());
        if self.count * 4 > self.cells.len() * 3 {
            self.grow();
        }
        Ok(self.place(id).filter(|&other| other != id))
    }

    /// Numbers up to `id` without a token, unless there is one.
    pub fn leave_hole(&mut self, id: u32) {
        let len = self.spans.len().max(id as usize + 1);
        self.spans.resize(len, ABSENT);
        self.kinds.resize(len, Kind::Unused);
    }

    /// The id of a text.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        let hash = hash_bytes(text);
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let cell = self.cells[at];
            if cell.id == u32::MAX {
                return None;
            }
            if cell.tag == (hash >> 32) as u32 && self.text(cell.id) == text {
                return Some(cell.id);
            }
            at = (at + 1) & mask;
        }
    }

    /// The id of a text that the model may produce: not a control token.
    pub fn find_plain(&self, text: &[u8]) -> Option<u32> {
        self.find(text).filter(|&id| self.is_plain(id))
    }

    /// Whether the model may produce `id` from text.
    pub fn is_plain(&self, id: u32) -> bool {
        !matches!(self.kind(id), Kind::Control | Kind::Unused)
    }

    /// The text of a token as the vocabulary spells it; empty for a hole.
    pub fn text(&self, id: u32) -> &[u8] {
        match self.spans.get(id as usize) {
            Some(s) if s.start != u32::MAX => &self.arena[s.start as usize..][..s.len as usize],
            _ => &[],
        }
    }

    /// Whether `id` is a token.
    pub fn contains(&self, id: u32) -> bool {
        self.spans.get(id as usize).is_some_and(|s| s.start != u32::MAX)
    }

    pub fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Unused)
    }
    pub fn set_kind(&mut self, id: u32, kind: Kind) {
        if let Some(k) = self.kinds.get_mut(id as usize) {
            *k = kind;
        }
    }

    /// One more than the highest id.
    pub fn len(&self) -> usize {
        self.spans.len()
    }
    /// Bytes in the longest token text.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Enters `id` in the table. Returns the token that it displaces.
    fn place(&mut self, id: u32) -> Option<u32> {
        let hash = hash_bytes(self.text(id));
        let tag = (hash >> 32) as u32;
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let cell = self.cells[at];
            let free = cell.id == u32::MAX;
            if free || (cell.tag == tag && self.text(cell.id) == self.text(id)) {
                self.cells[at] = Cell { tag, id };
                return (!free).then_some(cell.id);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        self.cells = vec![EMPTY; self.cells.len() * 2];
        for id in 0..self.spans.len() as u32 {
            if self.contains(id) {
                self.place(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_in() {
        let mut v = Vocab::with_capacity(0, 0);
        let texts: Vec<String> = (0..5000).map(|i| format!("t{}", i * 7919 % 5000)).collect();
        for (i, t) in texts.iter().enumerate() {
            assert_eq!(v.insert(i as u32 * 2, t.as_bytes(), Kind::Normal).unwrap(), None);
        }
        for (i, t) in texts.iter().enumerate() {
            assert_eq!(v.find(t.as_bytes()), Some(i as u32 * 2));
            assert_eq!(v.text(i as u32 * 2), t.as_bytes());
        }
        assert_eq!(v.find(b"t5000"), None);
        assert_eq!((v.len(), v.contains(1), v.contains(2)), (9999, false, true));
        assert!(v.insert(4, b"again", Kind::Normal).is_err());
        assert_eq!(v.insert(5, b"t0", Kind::Normal).unwrap(), Some(0));
        assert_eq!(v.find(b"t0"), Some(5));
    }
}
