//! Recurrent states: of each sequence one cell for where it is, and copies from further back, so that
//! it can be cut or shared there.
//!
//! A cell is one row of every operation's matrix. Copies are never written again, so that several
//! sequences may refer to one. There are cells for as much as every slot may refer to; what they leave
//! holds the states of the prefix tree.
use rinfer_kernels::Mat;
use rinfer_kernels::kv::PAGE;
use rinfer_kernels::ops::{Mark, Run};

/// Copies that a sequence keeps.
pub(crate) const COPIES: usize = 3;
/// Positions of a prompt between copies.
pub(crate) const STEP: usize = 8 * PAGE;

/// The recurrent states of all sequences.
pub struct Recurrent {
    /// By operation, `[cells, floats]`.
    states: Vec<Mat>,
    /// By cell: sequences and nodes of the prefix tree that refer to it.
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
    /// Where copies are asked for.
    wanted: Vec<usize>,
}

/// A state further back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// Positions before it.
    pub len: usize,
    /// Where it is.
    pub cell: usize,
}

/// Cells of `slots` slots.
pub(crate) fn cells(slots: usize) -> usize {
    slots * (1 + COPIES)
}

impl Recurrent {
    /// For operations whose states are of so many floats.
    pub fn new(floats: impl Iterator<Item = usize>, slots: usize) -> Recurrent {
        let states: Vec<Mat> = floats.map(|n| Mat::new(cells(slots), n)).collect();
        let held = |_| Held {
            now: None,
            copies: Vec::with_capacity(COPIES),
            wanted: Vec::with_capacity(COPIES),
        };
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
        let cell = self.take().expect("a free cell");
        self.slots[slot].wanted.clear();
        self.slots[slot].now = Some(cell);
    }
    /// Gives everything back.
    pub fn close(&mut self, slot: usize) {
        self.forget(slot, 0);
        if let Some(cell) = self.slots[slot].now.take() {
            self.release(cell);
        }
    }
    /// Whether there are any states.
    pub fn any(&self) -> bool {
        !self.states.is_empty()
    }
    /// Asks for a copy when the slot comes to `len` positions. False if it has too many wishes.
    pub fn want(&mut self, slot: usize, len: usize) -> bool {
        let wanted = &mut self.slots[slot].wanted;
        let room = wanted.len() < COPIES;
        if room && !wanted.contains(&len) {
            wanted.push(len);
        }
        room
    }
    /// The first length beyond `past` that a slot with such a prompt keeps a copy at: where the prompt
    /// lacks its last token, as then whoever asks the same again goes on from there, at multiples of
    /// [`STEP`], and where it was asked for.
    pub fn next(&self, slot: usize, past: usize, prompt: usize) -> Option<usize> {
        let step = Some((past / STEP + 1) * STEP).filter(|len| *len < prompt);
        let wanted = self.slots[slot].wanted.iter().copied();
        let all = wanted.chain(step).chain(prompt.checked_sub(1));
        all.filter(|len| *len > past).min().filter(|_| self.any())
    }
    /// How many of the next `rows` rows may come at once, so that one copy at most is to be made before
    /// the last.
    pub fn stride(&self, slot: usize, past: usize, rows: usize, prompt: usize) -> usize {
        let first = self.next(slot, past, prompt);
        let second = first.and_then(|first| self.next(slot, first, prompt));
        second.map_or(rows, |second| rows.min(second - past))
    }
    /// Where a copy is to be made within the next rows.
    pub fn due(&self, slot: usize, past: usize, rows: usize, prompt: usize) -> Option<usize> {
        let next = |len: &usize| self.next(slot, *len, prompt);
        let inside = |len: &usize| *len < past + rows;
        std::iter::successors(next(&past), next).take_while(inside).last()
    }
    /// How `rows` rows go on from `past` positions, with a copy at `due` to be made on the way. There is
    /// a [free](Recurrent::full) cell for it.
    pub fn extend(&mut self, slot: usize, past: usize, rows: usize, due: Option<usize>) -> Run {
        let now = self.slots[slot].now.expect("an open slot");
        let mark = due.map(|len| Mark { after: len - past, cell: self.copy_at(slot, len) });
        Run { row: 0, rows, past, cell: now, mark }
    }
    /// Copies the state of a slot where it is, after `len` positions. There is a free cell for it.
    pub fn note(&mut self, slot: usize, len: usize) {
        let cell = self.copy_at(slot, len);
        if let Some(now) = self.slots[slot].now {
            self.copy(now, cell);
        }
    }
    /// Copies that a slot has, by their lengths.
    pub fn copies(&self, slot: usize) -> &[Copy] {
        &self.slots[slot].copies
    }
    /// Begins an empty slot after `len` positions, with another's copy.
    pub fn join(&mut self, slot: usize, len: usize, cell: usize) {
        if let Some(now) = self.slots[slot].now {
            self.copy(cell, now);
        }
        self.hold(cell);
        self.slots[slot].copies.push(Copy { len, cell });
    }
    /// Whether no cell is free.
    pub fn full(&self) -> bool {
        self.free.is_empty()
    }
    /// How many hold a cell.
    pub fn owners(&self, cell: usize) -> u32 {
        self.owners[cell]
    }
    /// One more holds a cell.
    pub fn hold(&mut self, cell: usize) {
        self.owners[cell] += 1;
    }
    /// One fewer holds a cell.
    pub fn release(&mut self, cell: usize) {
        self.owners[cell] -= 1;
        if self.owners[cell] == 0 {
            self.free.push(cell);
        }
    }
    /// A cell that nobody held, if there is one.
    pub fn take(&mut self) -> Option<usize> {
        let cell = self.free.pop()?;
        self.owners[cell] = 1;
        Some(cell)
    }
    /// A cell's part of every operation's state.
    pub fn rows(&self, cell: usize) -> impl Iterator<Item = &[f32]> {
        self.states.iter().map(move |state| state.row(cell))
    }
    /// The same, to be written.
    pub fn rows_mut(&mut self, cell: usize) -> impl Iterator<Item = &mut [f32]> {
        self.states.iter_mut().map(move |state| state.row_mut(cell))
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

    /// The cell of the copy at `len`, unless that is where the sequence is or begins.
    fn cell(&self, slot: usize, held: usize, len: usize) -> Option<usize> {
        let copies = || self.slots[slot].copies.iter().find(|c| c.len == len).map(|c| c.cell);
        (len != held && len > 0).then(copies)?
    }
    /// Makes room among a slot's copies for one at `len`, beyond all others: if it has as many as it may,
    /// the one goes that leaves the smallest gap, so that they lie far apart.
    pub fn thin(&mut self, slot: usize, len: usize) {
        let copies = &self.slots[slot].copies;
        if copies.len() == COPIES {
            let at = |i: usize| copies.get(i).map_or(len, |c| c.len);
            let gap = |i: &usize| at(i + 1) - i.checked_sub(1).map_or(0, at);
            let dense = (0..COPIES).min_by_key(gap).unwrap_or_default();
            let copy = self.slots[slot].copies.remove(dense);
            self.release(copy.cell);
        }
    }
    fn copy_at(&mut self, slot: usize, len: usize) -> usize {
        let cell = self.take().expect("a free cell");
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
}
