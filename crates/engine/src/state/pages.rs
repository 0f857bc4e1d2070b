//! Pages of keys and values, and the sequences that they belong to.
use super::Kept;
use super::recurrent::Recurrent;
use super::saved;
use super::saved::{Header, Reader};
use super::table::{Group, pages};
use crate::backend::{Limits, State};
use crate::batch::Slot;
use crate::cpu::{floats, kv_kind};
use crate::spec::ModelSpec;
use rinfer_kernels::kv::{PAGE, Pool};
use rinfer_kernels::ops::Run;

/// The state of all sequences.
pub struct Pages {
    groups: Vec<Group>,
    cache: Cache,
    recurrent: Recurrent,
    /// By slot: positions held, if it is open.
    len: Vec<Option<usize>>,
    /// By slot: the length of the prompt, or 0 as long as nobody said it and no row came.
    prompts: Vec<usize>,
    /// Lengths of prompts beyond which positions are others.
    borders: Vec<usize>,
    context: usize,
    header: Header,
}

/// Every layer's pages.
pub struct Cache {
    layers: Vec<Layer>,
}

struct Layer {
    group: usize,
    pool: Pool,
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
        Pages {
            cache: Cache { layers: super::kept(spec).map(layer).collect() },
            groups: reaches.iter().map(|r| Group::new(*r, limits)).collect(),
            recurrent: Recurrent::new(floats(spec), limits.slots),
            len: vec![None; limits.slots],
            prompts: vec![0; limits.slots],
            borders: spec.ropes.iter().filter_map(|r| r.beyond()).map(|(n, _)| n).collect(),
            context: limits.context,
            header: Header::new(spec, limits.kv),
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
        self.write(i, len..len + rows);
        self.len[i] = Some(len + rows);
        self.recurrent.extend(i, len, rows)
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
    fn holds(&self, slot: usize, len: usize) -> bool {
        self.groups.iter().all(|g| g.holds(slot, len))
    }
    fn write(&mut self, slot: usize, at: std::ops::Range<usize>) {
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.extend(slot, at.clone(), |from, to| self.cache.copy(g, from, to));
        }
    }
    fn vacant(&self) -> Option<usize> {
        self.len.iter().position(Option::is_none)
    }
}

impl State for Pages {
    fn open(&mut self) -> Option<Slot> {
        let slot = self.vacant()?;
        (self.len[slot], self.prompts[slot]) = (Some(0), 0);
        self.recurrent.open(slot);
        Some(Slot(slot as u32))
    }
    fn begin(&mut self, slot: Slot, prompt: usize) {
        assert_eq!(self.len(slot), 0, "the sequence has begun");
        self.prompts[slot.0 as usize] = prompt;
    }
    fn alike(&self, prompt: usize, other: usize) -> bool {
        self.borders.iter().all(|border| (prompt > *border) == (other > *border))
    }
    fn fork(&mut self, from: Slot, len: usize) -> Option<Slot> {
        let source = from.0 as usize;
        let partial = usize::from(!len.is_multiple_of(PAGE));
        let slot = self.vacant()?;
        if self.reach(from, len) != len || !self.groups.iter().all(|g| g.free() >= partial) {
            return None;
        }
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.share(source, slot, len, |from, to| self.cache.copy(g, from, to));
        }
        self.recurrent.share(source, slot, self.len(from), len);
        (self.len[slot], self.prompts[slot]) = (Some(len), self.prompts[source]);
        Some(Slot(slot as u32))
    }
    fn reach(&self, slot: Slot, len: usize) -> usize {
        let i = slot.0 as usize;
        self.recurrent.reach(i, self.len(slot), len, |len| self.holds(i, len))
    }
    /// Where every slot has its full share of a group's pages, they are taken when rows come.
    fn reserve(&mut self, slot: Slot, len: usize) -> bool {
        let (i, held) = (slot.0 as usize, self.len(slot));
        let at = held..len.max(held);
        let fits = |g: &Group| !g.reserved || g.lacks(i, at.clone()) <= g.free();
        if len > self.context || !self.groups.iter().all(fits) {
            return false;
        }
        for (g, group) in self.groups.iter_mut().enumerate().filter(|(_, g)| g.reserved) {
            group.extend(i, at.clone(), |from, to| self.cache.copy(g, from, to));
        }
        true
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
    fn save(&self, slot: Slot) -> Vec<u8> {
        let len = self.len(slot);
        let mut body = (self.prompts[slot.0 as usize] as u64).to_le_bytes().to_vec();
        for layer in &self.cache.layers {
            let group = &self.groups[layer.group];
            for i in pages(group.seen(len)) {
                let page = layer.pool.page(group.tables()[slot.0 as usize][i]);
                saved::read_page(page, layer.pool.used((len - i * PAGE).min(PAGE)), &mut body);
            }
        }
        self.recurrent.save(slot.0 as usize, &mut body);
        self.header.around(len, body)
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<Slot, String> {
        let (len, body) = self.header.check(bytes)?;
        let mut body = Reader(body);
        let prompt = body.number().ok_or("the saved state has no prompt")?;
        let size = |l: &Layer| -> usize {
            let used = pages(self.groups[l.group].seen(len));
            let positions = if used.is_empty() { 0 } else { len - used.start * PAGE };
            positions * l.pool.position_bytes()
        };
        if len > self.context {
            return Err(format!(
                "the saved state has {len} positions, the context {}",
                self.context
            ));
        }
        let paged: usize = self.cache.layers.iter().map(size).sum();
        let rest = body.0.get(paged..).unwrap_or_default();
        let expected = paged + self.recurrent.saved(rest, len)?;
        if body.0.len() != expected {
            return Err(format!("the saved state has {} bytes, expected {expected}", body.0.len()));
        }
        let slot = self.open().ok_or("no slot is free for the saved state")?;
        let i = slot.0 as usize;
        let enough = |g: &Group| g.lacks(i, g.seen(len)) <= g.free();
        if !self.groups.iter().all(enough) {
            self.close(slot);
            return Err(format!("no room for the {len} positions of the saved state"));
        }
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.extend(i, group.seen(len), |from, to| self.cache.copy(g, from, to));
        }
        for layer in &mut self.cache.layers {
            let group = &self.groups[layer.group];
            for p in pages(group.seen(len)) {
                let page = group.tables()[i][p];
                let used = layer.pool.used((len - p * PAGE).min(PAGE));
                layer.pool.prepare(page);
                saved::write_page(layer.pool.page_mut(page), used, &mut body);
            }
        }
        self.recurrent.restore(i, &mut body);
        (self.len[i], self.prompts[i]) = (Some(len), prompt);
        Ok(slot)
    }
}
