//! Recurrent states: of each sequence one cell for where it is, and copies from further back, so that
//! it can be cut or shared there.
//!
//! A cell is one row of every operation's matrix. Copies are never written again, so that several
//! sequences may refer to one.
use super::saved::Reader;
use rinfer_kernels::Mat;
use rinfer_kernels::ops::{Mark, Run};

/// Copies that a sequence keeps.
pub(crate) const COPIES: usize = 3;

/// The recurrent states of all sequences.
pub struct Recurrent {
    /// By operation, `[cells, floats]`.
    states: Vec<Mat>,
    /// By cell: sequences that refer to it.
    owners: Vec<u32>,
    free: Vec<usize>,
    slots: Vec<Held>,
}

/// What one slot refers to.
#[derive(Default)]
struct Held {
    /// The cell that rows go on from; of a closed slot none.
    now: Option<usize>,
    /// By number of positions.
    copies: Vec<Copy>,
}

/// A state further back.
#[derive(Clone, Copy)]
struct Copy {
    len: usize,
    cell: usize,
}

/// Cells of `slots` slots.
pub(crate) fn cells(slots: usize) -> usize {
    slots * (1 + COPIES)
}

impl Recurrent {
    /// For operations whose states are of so many floats.
    pub fn new(floats: impl Iterator<Item = usize>, slots: usize) -> Recurrent {
        let states: Vec<Mat> = floats.map(|n| Mat::new(cells(slots), n)).collect();
        let held = |_| Held { now: None, copies: Vec::with_capacity(COPIES) };
        Recurrent {
            states,
            owners: vec![0; cells(slots)],
            free: (0..cells(slots)).rev().collect(),
            slots: (0..slots).map(held).collect(),
        }
    }
    /// Operation `i`'s part of every cell.
    pub fn state(&mut self, i: usize) -> &mut Mat {
        &mut self.states[i]
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.states.iter().map(Mat::bytes).sum()
    }
    /// Gives an empty slot a cell.
    pub fn open(&mut self, slot: usize) {
        let cell = self.take();
        self.slots[slot].now = Some(cell);
    }
    /// Gives everything back.
    pub fn close(&mut self, slot: usize) {
        self.forget(slot, 0);
        if let Some(cell) = self.slots[slot].now.take() {
            self.release(cell);
        }
    }
    /// How `rows` rows go on from `past` positions. Of several rows, the state before the last is
    /// copied: whoever asks the same again, or goes on from the same prompt, finds it.
    pub fn extend(&mut self, slot: usize, past: usize, rows: usize) -> Run {
        let now = self.slots[slot].now.expect("an open slot");
        let several = rows > 1 && !self.states.is_empty();
        let mark = several.then(|| {
            let cell = self.copy_at(slot, past + rows - 1);
            Mark { after: rows - 1, cell }
        });
        Run { row: 0, rows, past, cell: now, mark }
    }
    /// The longest length up to `len` that a sequence of `held` positions can be cut or shared at,
    /// among those that `can`.
    pub fn reach(
        &self,
        slot: usize,
        held: usize,
        len: usize,
        can: impl Fn(usize) -> bool,
    ) -> usize {
        let ends = self.slots[slot].copies.iter().map(|c| c.len).chain([held]);
        let any = if self.states.is_empty() { Some(len) } else { None };
        let reached = ends.chain(any).filter(|end| *end <= len.min(held) && can(*end));
        reached.max().unwrap_or(0)
    }
    /// Goes back to `len` positions, which are within [`Recurrent::reach`].
    pub fn truncate(&mut self, slot: usize, held: usize, len: usize) {
        self.forget(slot, len + 1);
        if let (Some(now), Some(cell)) = (self.slots[slot].now, self.cell(slot, held, len)) {
            self.copy(cell, now);
        }
    }
    /// Opens slot `to` at the first `len` of the `held` positions of `from`, which are within
    /// [`Recurrent::reach`].
    pub fn share(&mut self, from: usize, to: usize, held: usize, len: usize) {
        self.open(to);
        let source = self.slots[from].now.filter(|_| len == held).or(self.cell(from, held, len));
        if let (Some(now), Some(source)) = (self.slots[to].now, source) {
            self.copy(source, now);
        }
        let mut copies = std::mem::take(&mut self.slots[to].copies);
        copies.extend(self.slots[from].copies.iter().filter(|c| c.len <= len));
        copies.iter().for_each(|c| self.owners[c.cell] += 1);
        self.slots[to].copies = copies;
    }
    /// Appends a slot's states.
    pub fn save(&self, slot: usize, out: &mut Vec<u8>) {
        let held = &self.slots[slot];
        if self.states.is_empty() {
            return;
        }
        out.extend((held.copies.len() as u64).to_le_bytes());
        held.copies.iter().for_each(|c| out.extend((c.len as u64).to_le_bytes()));
        for cell in held.now.iter().chain(held.copies.iter().map(|c| &c.cell)) {
            let rows = self.states.iter().map(|state| state.row(*cell));
            rows.flatten().for_each(|x| out.extend(x.to_le_bytes()));
        }
    }
    /// The lengths of the copies that saved bytes begin with, and bytes of everything that
    /// [`Recurrent::save`] wrote.
    ///
    /// # Errors
    /// If they are no saved states.
    pub fn saved(&self, bytes: &[u8], held: usize) -> Result<usize, String> {
        if self.states.is_empty() {
            return Ok(0);
        }
        let word = |i: usize| {
            let word = bytes.get(8 * i..)?.first_chunk()?;
            usize::try_from(u64::from_le_bytes(*word)).ok()
        };
        let lens = word(0)
            .filter(|n| *n <= COPIES)
            .and_then(|n| (1..=n).map(|i| word(i).filter(|len| (1..held).contains(len))).collect());
        let lens: Vec<usize> = lens.ok_or("the saved state has no recurrent states")?;
        if !lens.is_sorted() {
            return Err("the saved state's copies are out of order".into());
        }
        let floats: usize = self.states.iter().map(Mat::cols).sum();
        Ok(8 * (1 + lens.len()) + 4 * floats * (1 + lens.len()))
    }
    /// Reads what [`Recurrent::save`] wrote, which was found [`Recurrent::saved`], to an open slot.
    pub fn restore(&mut self, slot: usize, body: &mut Reader<'_>) {
        if self.states.is_empty() {
            return;
        }
        for _ in 0..body.number().unwrap_or_default() {
            let len = body.number().unwrap_or_default();
            let copy = Copy { len, cell: self.take() };
            self.slots[slot].copies.push(copy);
        }
        let held = &self.slots[slot];
        for cell in held.now.iter().chain(held.copies.iter().map(|c| &c.cell)) {
            for state in &mut self.states {
                for x in state.row_mut(*cell) {
                    *x = body.float();
                }
            }
        }
    }

    /// The cell of the copy at `len`, unless that is where the sequence is or begins.
    fn cell(&self, slot: usize, held: usize, len: usize) -> Option<usize> {
        let copies = || self.slots[slot].copies.iter().find(|c| c.len == len).map(|c| c.cell);
        (len != held && len > 0).then(copies)?
    }
    /// A cell for a copy at `len`, beyond all others. If the slot has as many as it may, the one goes
    /// that leaves the smallest gap, so that they lie far apart.
    fn copy_at(&mut self, slot: usize, len: usize) -> usize {
        let copies = &self.slots[slot].copies;
        if copies.len() == COPIES {
            let at = |i: usize| copies.get(i).map_or(len, |c| c.len);
            let gap = |i: &usize| at(i + 1) - i.checked_sub(1).map_or(0, at);
            let dense = (0..COPIES).min_by_key(gap).unwrap_or_default();
            let copy = self.slots[slot].copies.remove(dense);
            self.release(copy.cell);
        }
        let cell = self.take();
        self.slots[slot].copies.push(Copy { len, cell });
        cell
    }
    /// Gives the copies from `len` on back.
    fn forget(&mut self, slot: usize, len: usize) {
        while let Some(copy) = self.slots[slot].copies.pop_if(|c| c.len >= len) {
            self.release(copy.cell);
        }
    }
    fn copy(&mut self, from: usize, to: usize) {
        for state in &mut self.states {
            let n = state.cols();
            state.data_mut().copy_within(from * n..(from + 1) * n, to * n);
        }
    }
    /// There are cells for as much as every slot may refer to.
    fn take(&mut self) -> usize {
        let cell = self.free.pop().expect("a free cell");
        self.owners[cell] = 1;
        cell
    }
    fn release(&mut self, cell: usize) {
        self.owners[cell] -= 1;
        if self.owners[cell] == 0 {
            self.free.push(cell);
        }
    }
}
