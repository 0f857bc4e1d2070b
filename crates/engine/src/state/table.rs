//! Which pages a sequence's positions lie in: counts and references, no data.
use super::SLACK;
use crate::backend::Limits;
use crate::spec::Reach;
use rinfer_kernels::kv::PAGE;
use std::ops::Range;

/// In a table, the place of a page that fell out of the window.
pub(crate) const NONE: u32 = u32::MAX;

/// The pages of layers that see equally far. A page is written only by its one owner; a shared one
/// is copied first.
pub(crate) struct Group {
    /// What a query sees.
    reach: Reach,
    /// Whether pages are taken when positions are reserved, or when rows come.
    pub reserved: bool,
    /// By page: tables and nodes of the prefix tree that it is in.
    owners: Vec<u32>,
    free: Vec<u32>,
    /// By slot.
    tables: Vec<Vec<u32>>,
}

impl Group {
    /// All pages free.
    pub fn new(reach: Reach, limits: &Limits) -> Group {
        let pages = super::pages(reach, limits);
        let table = |_| Vec::with_capacity(limits.context.div_ceil(PAGE));
        Group {
            reach,
            reserved: super::reserved(reach, limits),
            owners: vec![0; pages],
            free: (0..pages as u32).rev().collect(),
            tables: (0..limits.slots).map(table).collect(),
        }
    }
    /// By slot: page `i` holds positions `64i..64i + 64` of its sequence.
    pub fn tables(&self) -> &[Vec<u32>] {
        &self.tables
    }
    /// Number of free pages.
    pub fn free(&self) -> usize {
        self.free.len()
    }
    /// The positions before `len` that a query at `len` or later can see.
    pub fn seen(&self, len: usize) -> Range<usize> {
        self.reach.most().map_or(0, |w| (len + 1).saturating_sub(w).min(len))..len
    }
    /// Whether all that is [`Group::seen`] from `len` on is still held.
    pub fn holds(&self, slot: usize, len: usize) -> bool {
        pages(self.seen(len)).all(|i| self.tables[slot].get(i).is_some_and(|p| *p != NONE))
    }
    /// Pages to be taken before positions `at` can be written.
    pub fn lacks(&self, slot: usize, at: Range<usize>) -> usize {
        pages(at).filter(|i| !self.owned(slot, *i)).count()
    }
    /// Makes positions `at`, which follow what is held, writable; `copy` copies the data of one page
    /// over another's.
    ///
    /// # Panics
    /// If a page is lacking.
    pub fn extend(&mut self, slot: usize, at: Range<usize>, mut copy: impl FnMut(u32, u32)) {
        self.forget(slot, at.start);
        for i in pages(at) {
            if self.owned(slot, i) {
                continue;
            }
            let page = self.take().expect("a page that was reserved");
            if self.tables[slot].len() <= i {
                self.tables[slot].resize(i + 1, NONE);
            }
            let before = std::mem::replace(&mut self.tables[slot][i], page);
            if before != NONE {
                copy(before, page);
                self.release(before);
            }
        }
    }
    /// Gives back what lies behind `len`.
    pub fn truncate(&mut self, slot: usize, len: usize) {
        while self.tables[slot].len() > len.div_ceil(PAGE) {
            let page = self.tables[slot].pop().unwrap_or(NONE);
            self.release(page);
        }
    }
    /// Begins an empty slot with the first `len` positions of `page`s that others hold, as far as a query
    /// from there on sees and a little behind it. The last is copied before it is written.
    pub fn join(&mut self, slot: usize, len: usize, page: impl Fn(usize) -> u32) {
        let seen = pages(self.seen(len));
        let first = self.first(len).min(seen.start);
        let held = (first..seen.end).rev().map(&page).take_while(|page| *page != NONE).count();
        self.tables[slot].resize(seen.end - held, NONE);
        for i in seen.end - held..seen.end {
            let page = page(i);
            self.hold(page);
            self.tables[slot].push(page);
        }
    }
    /// The page that holds positions `64i..64i + 64` of a slot, or [`NONE`].
    pub fn page(&self, slot: usize, i: usize) -> u32 {
        self.tables[slot].get(i).copied().unwrap_or(NONE)
    }
    /// Puts a page with the same content in the place of a slot's own.
    pub fn swap(&mut self, slot: usize, i: usize, page: u32) {
        self.hold(page);
        let before = std::mem::replace(&mut self.tables[slot][i], page);
        self.release(before);
    }
    /// How many hold a page.
    pub fn owners(&self, page: u32) -> u32 {
        self.owners[page as usize]
    }
    /// One more holds a page.
    pub fn hold(&mut self, page: u32) {
        self.owners[page as usize] += 1;
    }
    /// A page that nobody held, if there is one.
    pub fn take(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.owners[page as usize] = 1;
        Some(page)
    }
    /// One fewer holds a page.
    pub fn release(&mut self, page: u32) {
        if let Some(owners) = self.owners.get_mut(page as usize) {
            *owners -= 1;
            if *owners == 0 {
                self.free.push(page);
            }
        }
    }
    /// Whether its queries see all positions.
    pub fn whole(&self) -> bool {
        self.reach.most().is_none()
    }
    /// Gives back what no query from `len` on sees, but for a little more to go back to.
    pub fn forget(&mut self, slot: usize, len: usize) {
        for i in (0..self.first(len).min(self.tables[slot].len())).rev() {
            match std::mem::replace(&mut self.tables[slot][i], NONE) {
                NONE => break,
                page => self.release(page),
            }
        }
    }
    /// The first page that is kept for queries from `len` on.
    fn first(&self, len: usize) -> usize {
        self.seen(len).start.saturating_sub(SLACK) / PAGE
    }
    fn owned(&self, slot: usize, i: usize) -> bool {
        let page = self.page(slot, i);
        page != NONE && self.owners[page as usize] == 1
    }
}

/// The pages that positions lie in.
pub(crate) fn pages(at: Range<usize>) -> Range<usize> {
    at.start / PAGE..if at.is_empty() { at.start / PAGE } else { at.end.div_ceil(PAGE) }
}
