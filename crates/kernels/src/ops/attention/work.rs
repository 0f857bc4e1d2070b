//! The phases and tasks of one attention.
use super::{Attend, AttendRow, AttentionScratch, Block, Chosen, Prepare, cut};
use crate::act::{self, SharedAct};
use crate::kv::{KvKind, MergeTask, PAGE, PageTask, Pool, SharedPool, Shares, Sight};
use crate::mat::{Lent, Seen};
use crate::ops::{Ctx, Stage};
use crate::team::Worker;
use std::ops::Range;

/// Where the rows of a batch stand, and what is kept there.
pub(in crate::ops) struct Places<'a> {
    pub rows: &'a [AttendRow],
    pub tables: &'a [Vec<u32>],
    pub chosen: Option<&'a Chosen>,
    pub pool: &'a mut Pool,
}

/// One call's operands, as its tasks share them.
pub(in crate::ops) struct Work<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) shape: &'a Attend<'a>,
    pub(super) rows: &'a [AttendRow],
    pub(super) tables: &'a [Vec<u32>],
    chosen: Option<&'a Chosen>,
    pub(super) q: Seen<'a>,
    pub(super) kv: Option<(Seen<'a>, Seen<'a>)>,
    pub(super) kind: KvKind,
    /// In 8 bits, where the pages are.
    pub(super) queries: Option<Lent<'a, act::Block>>,
    pub(super) pool: SharedPool<'a>,
    pub(super) blocks: &'a [Block],
    /// Elements of `shares` to a page of a block, and how many of these there are.
    slot: usize,
    slots: usize,
    stats: Lent<'a, f32>,
    shares: Lent<'a, f32>,
    /// As many zeros as a head has elements.
    pub(super) nothing: &'a [f32],
    pub(super) out: SharedAct<'a>,
    pub(super) q8: bool,
    /// What is done to queries, keys and values first.
    pub(super) prepare: Option<Prepare<'a>>,
    entry: Entry,
    /// Pages of all K/V heads.
    pages: usize,
    /// Times that pages fill the slots; none where a block and K/V head is one task.
    pub(super) waves: usize,
}

/// How keys and values come into their pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// Row by row, queries by K/V head, then channel by channel.
    Rows,
    /// A row's heads side by side.
    Heads,
    /// By the tasks that then attend to them.
    Tasks,
}

/// Pages that threads may wait for in a phase, rather than share pages out and merge shares.
const SLACK: usize = 2;
/// Pages up to which a head of a row is one task, if that lets threads wait no longer.
const FEW: usize = 8;

impl<'a> Work<'a> {
    /// # Panics
    /// If the shapes differ, or the scratch is too small.
    pub fn new(
        ctx: &'a Ctx,
        shape: &'a Attend<'a>,
        places: Places<'a>,
        (q, kv): (Seen<'a>, Option<(Seen<'a>, Seen<'a>)>),
        scratch: &'a mut AttentionScratch,
        out: SharedAct<'a>,
        q8: bool,
    ) -> Work<'a> {
        shape.check(&places, (q, kv), (out.f32().rows(), out.f32().cols()));
        let Places { rows, tables, chosen, pool } = places;
        let AttentionScratch { blocks, stats, shares, nothing, queries } = scratch;
        let largest = cut(blocks, rows, shape.reach);
        let slot = largest * shape.group() * (shape.v_dim + 2);
        assert!(
            rows.len() <= blocks.capacity() && slot <= shares.len() && nothing.len() >= shape.v_dim,
            "the attention scratch is too small for {} rows",
            rows.len()
        );
        let slots = shares.len() / slot.max(1);
        let pages = blocks.iter().map(|b| b.pages).sum::<usize>() * shape.kv_heads;
        let whole = whole(blocks, shape.kv_heads, ctx.team.threads());
        let entry = match rows.len() {
            1 if whole => Entry::Tasks,
            1 => Entry::Heads,
            _ => Entry::Rows,
        };
        Work {
            ctx,
            shape,
            rows,
            tables,
            chosen,
            q,
            kv,
            kind: pool.kind(),
            queries: (pool.kind() == KvKind::Q8).then(|| Lent::new(queries)),
            pool: pool.shared(),
            blocks,
            slots,
            slot,
            stats: Lent::new(stats),
            shares: Lent::new(shares),
            nothing: &nothing[..shape.v_dim],
            out,
            q8,
            prepare: None,
            entry,
            pages,
            waves: if whole { 0 } else { pages.div_ceil(slots) },
        }
    }

    /// With what `prepare` does to queries, keys and values first; `apart`, in a phase of its own.
    pub fn with(self, prepare: Prepare<'a>, apart: bool) -> Work<'a> {
        let entry = if apart || !prepare.splits() { Entry::Rows } else { self.entry };
        Work { prepare: Some(prepare), entry, ..self }
    }

    /// Phases, some of which may be nothing.
    pub fn phases(&self) -> usize {
        self.entries() + (2 * self.waves).max(1) + 1
    }

    /// What phase `i` does, if anything.
    pub fn stage(&self, i: usize) -> Option<Stage> {
        let heads = i == 0 && self.entry == Entry::Rows;
        let asks = i == 1 && self.entry == Entry::Rows;
        let nothing = heads && self.prepare.is_none()
            || asks && self.queries.is_none()
            || i + 1 == self.phases() && self.quantised();
        (!nothing).then_some(if heads { Stage::Heads } else { Stage::Attention })
    }

    fn entries(&self) -> usize {
        match self.entry {
            Entry::Rows => 3,
            Entry::Heads => 1,
            Entry::Tasks => 0,
        }
    }

    /// Phase `i`.
    ///
    /// # Safety
    /// The tier is usable; queries, keys and values are made, and nobody else touches them, the
    /// pages, the scratch or the output between the first phase and the last.
    pub unsafe fn phase(&self, worker: &Worker<'_>, i: usize) {
        let heads = self.shape.kv_heads;
        if i < self.entries() {
            match (self.entry, i) {
                // SAFETY: passed on; a head is one task's.
                (Entry::Heads, _) => worker.phase(heads, |head| unsafe { self.enter(head) }),
                (_, 0) => self.prepare.iter().for_each(|prepare| {
                    // SAFETY: passed on.
                    unsafe { prepare.phase(self.ctx, worker) }
                }),
                (_, 1) => self.ask_all(worker),
                // SAFETY: passed on.
                _ => self.write().iter().for_each(|write| unsafe { write.phase(worker) }),
            }
            return;
        }
        let i = i - self.entries();
        if i >= (2 * self.waves).max(1) {
            return self.quantise(worker);
        }
        if self.waves == 0 {
            // Heads last: blocks of one sequence read the same pages.
            let blocks = self.blocks.len();
            return worker.phase(blocks * heads, |unit| {
                self.whole(unit % blocks, unit / blocks, worker.index());
            });
        }
        let start = i / 2 * self.slots;
        let wave = start..self.pages.min(start + self.slots);
        if i.is_multiple_of(2) {
            let some = wave.len().div_ceil(8 * worker.threads());
            worker.phase(wave.len().div_ceil(some), |i| {
                let start = wave.start + i * some;
                (start..wave.end.min(start + some)).for_each(|task| self.share(task, wave.start));
            });
        } else {
            let (first, last) = (self.unit(wave.start), self.unit(wave.end - 1));
            let group = self.shape.group();
            worker.phase((last - first + 1) * group, |i| {
                self.merge(first + i / group, i % group, &wave);
            });
        }
    }

    /// All pages of a block and K/V head, each joined to those before it in the thread's own slot:
    /// in the rows of the result, threads would take lines of the cache from each other.
    fn whole(&self, block: usize, head: usize, thread: usize) {
        let b = self.blocks[block];
        if self.entry == Entry::Tasks {
            // SAFETY: the head of the one row is this task's.
            unsafe { self.enter(head) };
        }
        let (to, group) = (self.slot(thread), self.shape.group());
        for page in b.page..b.page + b.pages {
            self.attend(b, head, page, to, true);
        }
        for row in 0..b.rows {
            self.finish(
                b.row + row,
                head * group..(head + 1) * group,
                to.from(row, self.shape.v_dim),
            );
        }
    }

    /// One page of a block and K/V head, to its slot.
    fn share(&self, task: usize, from: usize) {
        let unit = self.unit(task);
        let (block, head) = (self.blocks[unit / self.shape.kv_heads], unit % self.shape.kv_heads);
        let page = block.page + (task - self.start(unit));
        self.attend(block, head, page, self.slot(task - from), false);
    }

    /// Joins a query head's shares of a wave's pages to its result, for all rows of a unit's block.
    fn merge(&self, unit: usize, head: usize, wave: &Range<usize>) {
        let Attend { kv_heads, v_dim, .. } = *self.shape;
        let group = self.shape.group();
        let block = self.blocks[unit / kv_heads];
        let own = self.start(unit)..self.start(unit) + block.pages;
        let all = unit % kv_heads * group + head;
        for task in own.start.max(wave.start)..own.end.min(wave.end) {
            let sight = self.sight(block, block.page + (task - own.start));
            let slot = self.slot(task - wave.start);
            for row in 0..block.rows {
                let (start, end) = sight.visible(row);
                if start >= end {
                    continue;
                }
                let to = self.result(block.row + row, all);
                let from = row * group + head;
                // SAFETY: the share was written in the phase before; this head of these rows is
                // this task's.
                unsafe {
                    let page_stats = std::slice::from_raw_parts(slot.stats.add(2 * from), 2);
                    let page_values =
                        std::slice::from_raw_parts(slot.values.add(from * v_dim), v_dim);
                    let stats = std::slice::from_raw_parts_mut(to.stats, 2);
                    let values = std::slice::from_raw_parts_mut(to.values, v_dim);
                    if sight.first(row) {
                        stats.copy_from_slice(page_stats);
                        values.copy_from_slice(page_values);
                    } else {
                        (self.ctx.kernels.merge)(MergeTask {
                            stats,
                            values,
                            page_stats,
                            page_values,
                        });
                    }
                }
            }
        }
        if own.end <= wave.end {
            for row in block.row..block.row + block.rows {
                self.finish(row, all..all + 1, self.result(row, all));
            }
        }
    }

    /// Runs the kernel on one page.
    fn attend(&self, block: Block, head: usize, page: usize, out: Shares, merge: bool) {
        let Attend { heads, head_dim, v_dim, scale, slopes, softcap, .. } = *self.shape;
        let group = self.shape.group();
        let table = self.rows[block.row].table;
        let (keys, values) = self.pool.at(self.page(table, page), head);
        let next = block.page + block.pages - 1;
        let (next, _) = self.pool.at(self.page(table, next.min(page + 1)), head);
        let q = ((block.rows - 1) * heads + group) * head_dim;
        // SAFETY: queries were made in a phase before, or this head of the one row by this task.
        let q = unsafe { self.q.from(block.row, head * group * head_dim, q) };
        let task = PageTask {
            q,
            heads,
            rows: block.rows,
            group,
            head_dim,
            v_dim,
            scale,
            softcap,
            slopes: slopes.map(|slopes| &slopes[head * group..][..group]),
            keys,
            values,
            next,
            kind: self.kind,
            eight: self.eight(block, head),
            sight: self.sight(block, page),
            out,
            merge,
        };
        // SAFETY: the tier is usable; the pages were written before; `out` has room
        // for the block's rows and belongs to this task.
        unsafe { (self.ctx.kernels.attend_page)(&task) };
    }

    /// The unit (block and K/V head, K/V heads first) that page task `task` belongs to.
    fn unit(&self, task: usize) -> usize {
        let heads = self.shape.kv_heads;
        let block = self.blocks.partition_point(|b| b.before * heads <= task) - 1;
        let Block { before, pages, .. } = self.blocks[block];
        block * heads + (task - before * heads) / pages
    }
    /// The first page task of a unit.
    fn start(&self, unit: usize) -> usize {
        let heads = self.shape.kv_heads;
        let Block { before, pages, .. } = self.blocks[unit / heads];
        before * heads + unit % heads * pages
    }
    fn sight(&self, block: Block, page: usize) -> Sight<'_> {
        let pos = self.rows[block.row].pos;
        let chosen = self.chosen.map(|chosen| chosen.from(block.row));
        Sight { pos, reach: self.shape.reach, page: page * PAGE, chosen }
    }
    fn page(&self, table: usize, page: usize) -> u32 {
        self.tables[table][page]
    }
    /// Where the result of a row from a head on goes.
    pub(super) fn result(&self, row: usize, head: usize) -> Shares {
        let Attend { heads, v_dim, .. } = *self.shape;
        Shares {
            stats: self.stats.at(2 * (row * heads + head), 2),
            values: self.out.f32().at(row, head * v_dim, v_dim),
            heads,
        }
    }
    /// Where a page task of the wave puts its shares.
    fn slot(&self, i: usize) -> Shares {
        let heads = self.shape.group();
        let stats = self.shares.at(i * self.slot, self.slot);
        // SAFETY: the values follow the stats within the slot.
        let values = unsafe { stats.add(2 * (self.slot / (self.shape.v_dim + 2))) };
        Shares { stats, values, heads }
    }
}

/// Whether a block and K/V head is one task: unless one of these is much of all work.
fn whole(blocks: &[Block], kv_heads: usize, threads: usize) -> bool {
    let pages = blocks.iter().map(|b| b.pages).sum::<usize>() * kv_heads;
    let longest = blocks.iter().map(|b| b.pages).max().unwrap_or(0);
    let waits = (blocks.len() * kv_heads).div_ceil(threads) * longest - pages / threads;
    let few = longest <= FEW && waits <= SLACK;
    threads == 1 || 2 * longest * threads <= pages || few
}
