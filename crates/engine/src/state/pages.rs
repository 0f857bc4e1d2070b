//! Pages of keys and values, and the sequences that they belong to.
use super::Kept;
use super::prefix::Prefix;
use super::recurrent::Recurrent;
use super::saved;
use super::table::Group;
use crate::backend::{Limits, State};
use crate::batch::{Slot, TokenId};
use crate::cpu::{floats, kv_kind};
use crate::spec::ModelSpec;
use rinfer_kernels::kv::{PAGE, Pool};
use rinfer_kernels::ops::Run;
use std::io::{self, Read, Write};
use std::ops::Range;

/// The state of all sequences.
pub struct Pages {
    pub(super) groups: Vec<Group>,
    pub(super) cache: Cache,
    pub(super) recurrent: Recurrent,
    /// What sequences leave to later ones.
    pub(super) prefix: Prefix,
    /// By slot: positions held, if it is open.
    len: Vec<Option<usize>>,
    /// By slot: the length of the prompt, or 0 as long as nobody said it and no row came.
    prompts: Vec<usize>,
    /// Lengths of prompts beyond which positions are others, in order.
    borders: Vec<usize>,
    pub(super) context: usize,
}

/// Every layer's pages.
pub struct Cache {
    pub(super) layers: Vec<Layer>,
}

pub(super) struct Layer {
    pub group: usize,
    pub pool: Pool,
}

impl Cache {
    /// The group that the tables of those pages are in, and the pages.
    pub fn layer(&mut self, i: usize) -> (usize, &mut Pool) {
        let layer = &mut self.layers[i];
        (layer.group, &mut layer.pool)
    }
    /// The same of it and of the next, if there is one.
    pub fn layers(&mut self, i: usize) -> [Option<(usize, &mut Pool)>; 2] {
        let mut all = self.layers[i..].iter_mut().map(|layer| (layer.group, &mut layer.pool));
        [all.next(), all.next()]
    }
    fn bytes(&self) -> usize {
        self.layers.iter().map(|l| l.pool.bytes()).sum()
    }
    fn copy(&mut self, group: usize, from: u32, to: u32) {
        for layer in self.layers.iter_mut().filter(|l| l.group == group) {
            layer.pool.copy(from, to);
        }
    }
}

impl Pages {
    /// Allocates the pages of a model.
    pub fn new(spec: &ModelSpec, limits: &Limits) -> Pages {
        let reaches = super::reaches(spec);
        let layer = |Kept { reach, shape }| Layer {
            group: reaches.iter().position(|r| *r == reach).unwrap_or_default(),
            pool: Pool::new(kv_kind(limits.kv, shape), shape, super::pages(reach, limits)),
        };
        let mut borders: Vec<usize> =
            spec.ropes.iter().filter_map(|r| r.beyond()).map(|(n, _)| n).collect();
        borders.sort_unstable();
        Pages {
            cache: Cache { layers: super::kept(spec).map(layer).collect() },
            groups: reaches.iter().map(|r| Group::new(*r, limits)).collect(),
            recurrent: Recurrent::new(floats(spec), limits.slots),
            prefix: Prefix::new(borders.len() + 1, limits.positions.div_ceil(PAGE)),
            len: vec![None; limits.slots],
            prompts: vec![0; limits.slots],
            borders,
            context: limits.context,
        }
    }
    /// Adds `rows` positions to a sequence, makes their pages writable, and says how its recurrent
    /// states go on.
    ///
    /// # Panics
    /// If they were not reserved.
    pub fn extend(&mut self, slot: Slot, rows: usize) -> Run {
        let (i, len) = (slot.0 as usize, self.len(slot));
        if self.prompts[i] == 0 {
            self.prompts[i] = rows;
        }
        for g in 0..self.groups.len() {
            self.groups[g].forget(i, len);
            self.spare(g, i, len..len + rows);
            self.write(g, i, len..len + rows);
        }
        self.len[i] = Some(len + rows);
        let due = self.recurrent.due(i, len, rows, self.prompts[i]);
        due.inspect(|at| self.room_for_copy(i, *at));
        self.recurrent.extend(i, len, rows, due)
    }
    /// All sequences' prompts' lengths; their tables, by group; the pages that these point into; the
    /// recurrent states.
    pub(crate) fn parts(&mut self) -> (&[usize], &[Group], &mut Cache, &mut Recurrent) {
        (&self.prompts, &self.groups, &mut self.cache, &mut self.recurrent)
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.recurrent.bytes() + self.cache.bytes()
    }
    /// Prompts of the same kind have the same positions.
    pub(super) fn kinds(&self) -> usize {
        self.borders.len() + 1
    }
    fn kind(&self, prompt: usize) -> usize {
        self.borders.iter().filter(|border| prompt > **border).count()
    }
    fn holds(&self, slot: usize, len: usize) -> bool {
        self.groups.iter().all(|g| g.holds(slot, len))
    }
    fn write(&mut self, g: usize, slot: usize, at: Range<usize>) {
        self.groups[g].extend(slot, at, |from, to| self.cache.copy(g, from, to));
    }
    fn vacant(&self) -> Option<usize> {
        self.len.iter().position(Option::is_none)
    }
    /// Takes pages from the prefix tree until there are enough of group `g` for positions `at` of a slot.
    /// False if there are not: then it took none, unless the slot is the only open one.
    fn spare(&mut self, g: usize, slot: usize, at: Range<usize>) -> bool {
        let lacking = self.lacking(g, slot, &at);
        if lacking > self.prefix.lent_up_to(g, &self.groups[g], lacking) {
            // What it shares with nobody but the tree is as good as its own.
            let page = self.groups[g].page(slot, at.start / PAGE);
            self.prefix.yield_page(g, page, &mut self.groups, &mut self.recurrent);
            let alone = self.len.iter().flatten().count() == 1;
            let lent = self.prefix.lent_up_to(g, &self.groups[g], lacking);
            if !alone && self.lacking(g, slot, &at) > lent {
                return false;
            }
        }
        while self.lacking(g, slot, &at) > 0 {
            if !self.prefix.spare_page(g, u64::MAX, &mut self.groups, &mut self.recurrent) {
                return false;
            }
        }
        true
    }
    /// Pages that are not free for positions `at` of a slot.
    fn lacking(&self, g: usize, slot: usize, at: &Range<usize>) -> usize {
        let group = &self.groups[g];
        group.lacks(slot, at.clone()).saturating_sub(group.free())
    }
    /// Frees a cell for a copy of a slot's state at `len`.
    fn room_for_copy(&mut self, slot: usize, len: usize) {
        self.recurrent.thin(slot, len);
        self.room_for_state();
    }
    fn room_for_state(&mut self) {
        if self.recurrent.full() {
            self.prefix.spare_state(u64::MAX, &mut self.recurrent);
        }
    }
    /// Keeps a copy of a slot's state where it is, if one is wanted there or its answer has begun.
    fn note(&mut self, slot: usize, len: usize) {
        let prompt = self.prompts[slot];
        let wanted = len > prompt || self.recurrent.next(slot, len - 1, prompt) == Some(len);
        let noted = self.recurrent.copies(slot).last().is_some_and(|copy| copy.len == len);
        if self.recurrent.any() && wanted && !noted {
            self.room_for_copy(slot, len);
            self.recurrent.note(slot, len);
        }
    }
}

impl State for Pages {
    fn open(&mut self) -> Option<Slot> {
        let slot = self.vacant()?;
        (self.len[slot], self.prompts[slot]) = (Some(0), 0);
        self.room_for_state();
        self.recurrent.open(slot);
        Some(Slot(slot as u32))
    }
    fn begin(&mut self, slot: Slot, prompt: usize) {
        assert_eq!(self.len(slot), 0, "the sequence has begun");
        self.prompts[slot.0 as usize] = prompt;
    }
    fn resume(&mut self, slot: Slot, tokens: &[TokenId]) -> usize {
        assert_eq!(self.len(slot), 0, "the sequence has begun");
        let i = slot.0 as usize;
        let path = self.prefix.find(self.kind(self.prompts[i]), tokens);
        let len = self.prefix.usable(&path, &self.groups, self.recurrent.any());
        if len < path.len && self.recurrent.any() {
            self.recurrent.want(i, path.len);
        }
        if len == 0 {
            return 0;
        }
        let cell = self.prefix.touch(&path, len);
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.join(i, len, |page| self.prefix.node(path.nodes[page]).pages[g]);
        }
        cell.inspect(|cell| self.recurrent.join(i, len, *cell));
        self.len[i] = Some(len);
        len
    }
    fn expect(&mut self, slot: Slot, len: usize, prompt: usize) -> bool {
        let (i, held) = (slot.0 as usize, self.len(slot));
        if self.kind(prompt) != self.kind(self.prompts[i]) {
            return false;
        }
        let copied = |all: &Recurrent| all.copies(i).iter().any(|copy| copy.len == len);
        !self.recurrent.any()
            || copied(&self.recurrent)
            || (len > held && (len + 1 == self.prompts[i] || self.recurrent.want(i, len)))
    }
    fn keep(&mut self, slot: Slot, tokens: &[TokenId]) {
        let (i, len) = (slot.0 as usize, self.len(slot));
        assert_eq!(tokens.len(), len, "the tokens are not those of the sequence");
        let prompt = self.prompts[i];
        let whole = if len < prompt { len / PAGE * PAGE } else { len };
        if len > 0 {
            self.note(i, len);
        }
        let kind = self.kind(prompt);
        let (groups, recurrent) = (&mut self.groups, &mut self.recurrent);
        self.prefix.insert(kind, &tokens[..whole], i, groups, recurrent);
    }
    fn stride(&self, slot: Slot, rows: usize) -> usize {
        let i = slot.0 as usize;
        self.recurrent.stride(i, self.len(slot), rows, self.prompts[i])
    }
    fn reach(&self, slot: Slot, len: usize) -> usize {
        let i = slot.0 as usize;
        self.recurrent.reach(i, self.len(slot), len, |len| self.holds(i, len))
    }
    /// Where every slot has its full share of a group's pages, they are taken when rows come.
    fn reserve(&mut self, slot: Slot, len: usize) -> bool {
        let (i, held) = (slot.0 as usize, self.len(slot));
        let at = held..len.max(held);
        let groups = 0..self.groups.len();
        let fits = len <= self.context
            && groups.clone().all(|g| !self.groups[g].reserved || self.spare(g, i, at.clone()));
        for g in groups {
            if fits && self.groups[g].reserved {
                self.write(g, i, at.clone());
            }
        }
        fits
    }
    fn truncate(&mut self, slot: Slot, len: usize) -> bool {
        let i = slot.0 as usize;
        if self.reach(slot, len) != len {
            return false;
        }
        self.recurrent.truncate(i, self.len(slot), len);
        self.groups.iter_mut().for_each(|g| g.truncate(i, len));
        self.len[i] = Some(len);
        true
    }
    fn close(&mut self, slot: Slot) {
        self.groups.iter_mut().for_each(|g| g.truncate(slot.0 as usize, 0));
        self.recurrent.close(slot.0 as usize);
        self.len[slot.0 as usize] = None;
    }
    fn len(&self, slot: Slot) -> usize {
        self.len[slot.0 as usize].expect("an open slot")
    }
    /// By the groups whose pages must be reserved; in the others a vacant slot has room.
    fn room(&self) -> usize {
        let vacant = self.len.iter().filter(|l| l.is_none()).count();
        let free = self.groups.iter().filter(|g| g.reserved).map(|g| g.free() * PAGE).min();
        free.unwrap_or(vacant * self.context)
    }
    fn kept(&self) -> usize {
        self.prefix.positions()
    }
    fn save(&self, tokens: Option<&[TokenId]>, out: &mut dyn Write) -> io::Result<usize> {
        saved::save(self, tokens, out)
    }
    fn restore(&mut self, from: &mut dyn Read) -> Result<usize, String> {
        saved::restore(self, from)
    }
}
