//! The phases and tasks of one attention.
use super::{Attend, AttendRow, AttentionScratch, Block, ChosenSlot, Prepare, cut};
use crate::act::{self, ActSlot};
use crate::kv::{KvKind, MergeTask, PAGE, PageTask, Pool, SharedPool, Shares, Sight};
use crate::mat::{Lent, Seen};
use crate::ops::Ctx;
use crate::ops::chain::Phases;
use crate::team::Worker;
use std::ops::Range;

/// Where the rows of a batch stand, and what is kept there.
pub struct Places<'a> {
    /// Positions.
    pub rows: &'a [AttendRow],
    /// Pages of each sequence.
    pub tables: &'a [Vec<u32>],
    /// Of all positions that a row sees those that it chose, if it did.
    pub chosen: Option<ChosenSlot<'a>>,
    /// Keys and values.
    pub pool: &'a mut Pool,
}

/// One call's operands, as its tasks share them.
pub(super) struct Work<'a> {
    pub(super) shape: Attend<'a>,
    pub(super) rows: &'a [AttendRow],
    pub(super) tables: &'a [Vec<u32>],
    chosen: Option<ChosenSlot<'a>>,
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
    pub(super) out: ActSlot<'a>,
    /// What is done to queries, keys and values first, where their heads enter one by one.
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
        ctx: &Ctx,
        shape: Attend<'a>,
        places: Places<'a>,
        (q, kv): (Seen<'a>, Option<(Seen<'a>, Seen<'a>)>),
        scratch: &'a mut AttentionScratch,
        out: ActSlot<'a>,
    ) -> Work<'a> {
        shape.check(&places, (q, kv), out.f32());
        let Places { rows, tables, chosen, pool } = places;
        let AttentionScratch { blocks, stats, shares, nothing, queries } = scratch;
        let largest = cut(blocks, rows, shape.reach, shape.causal);
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
            prepare: None,
            entry,
            pages,
            waves: if whole { 0 } else { pages.div_ceil(slots) },
        }
    }

    /// With what `prepare` does to queries, keys and values first; or, if that is not done here, that.
    pub fn with(self, prepare: Prepare<'a>, apart: bool) -> (Work<'a>, Option<Prepare<'a>>) {
        match self.entry {
            Entry::Heads | Entry::Tasks if !apart && prepare.splits() => {
                (Work { prepare: Some(prepare), ..self }, None)
            }
            _ => (self, Some(prepare)),
        }
    }

    fn entries(&self) -> usize {
        match self.entry {
            Entry::Rows => 2,
            Entry::Heads => 1,
            Entry::Tasks => 0,
        }
    }

    /// What puts queries, keys and values where they are read: phase `i`.
    ///
    /// # Safety
    /// As of [`Phases::phase`].
    unsafe fn enter_all(&self, ctx: &Ctx, worker: &Worker<'_>, i: usize) {
        match (self.entry, i) {
            (Entry::Heads, _) => worker.phase(self.shape.kv_heads, |head| {
                // SAFETY: passed on; a head is one task's.
                unsafe { self.enter(ctx, head) };
            }),
            (_, 0) => self.ask_all(ctx, worker),
            // SAFETY: passed on.
            _ => self.write().iter().for_each(|write| unsafe { write.phase(worker) }),
        }
    }

    /// What is attended to: phase `i`.
    fn attend_all(&self, ctx: &Ctx, worker: &Worker<'_>, i: usize) {
        if self.waves == 0 {
            // Heads last: blocks of one sequence read the same pages.
            let (blocks, heads) = (self.blocks.len(), self.shape.kv_heads);
            return worker.phase(blocks * heads, |unit| {
                self.whole(ctx, unit % blocks, unit / blocks, worker.index());
            });
        }
        let start = i / 2 * self.slots;
        let wave = start..self.pages.min(start + self.slots);
        if i.is_multiple_of(2) {
            let some = wave.len().div_ceil(8 * worker.threads());
            worker.phase(wave.len().div_ceil(some), |i| {
                let start = wave.start + i * some;
                let tasks = start..wave.end.min(start + some);
                tasks.for_each(|task| self.share(ctx, task, wave.start));
            });
        } else {
            let (first, last) = (self.unit(wave.start), self.unit(wave.end - 1));
            let group = self.shape.group();
            worker.phase((last - first + 1) * group, |i| {
                self.merge(ctx, first + i / group, i % group, &wave);
            });
        }
    }

    /// All pages of a block and K/V head, each joined to those before it in the thread's own slot:
    /// in the rows of the result, threads would take lines of the cache from each other.
    fn whole(&self, ctx: &Ctx, block: usize, head: usize, thread: usize) {
        let b = self.blocks[block];
        if self.entry == Entry::Tasks {
            // SAFETY: the head of the one row is this task's.
            unsafe { self.enter(ctx, head) };
        }
        let (to, group) = (self.slot(thread), self.shape.group());
        for page in b.page..b.page + b.pages {
            self.attend(ctx, b, head, page, (to, true));
        }
        for row in 0..b.rows {
            self.finish(
                ctx,
                b.row + row,
                head * group..(head + 1) * group,
                to.from(row, self.shape.v_dim),
            );
        }
    }

    /// One page of a block and K/V head, to its slot.
    fn share(&self, ctx: &Ctx, task: usize, from: usize) {
        let unit = self.unit(task);
        let (block, head) = (self.blocks[unit / self.shape.kv_heads], unit % self.shape.kv_heads);
        let page = block.page + (task - self.start(unit));
        self.attend(ctx, block, head, page, (self.slot(task - from), false));
    }

    /// Joins a query head's shares of a wave's pages to its result, for all rows of a unit's block.
    fn merge(&self, ctx: &Ctx, unit: usize, head: usize, wave: &Range<usize>) {
        let Attend { kv_heads, v_dim, .. } = self.shape;
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
                        (ctx.kernels.merge)(MergeTask { stats, values, page_stats, page_values });
                    }
                }
            }
        }
        if own.end <= wave.end {
            for row in block.row..block.row + block.rows {
                self.finish(ctx, row, all..all + 1, self.result(row, all));
            }
        }
    }

    /// Runs the kernel on one page.
    fn attend(&self, ctx: &Ctx, block: Block, head: usize, page: usize, to: (Shares, bool)) {
        let (out, merge) = to;
        let Attend { heads, head_dim, v_dim, scale, slopes, softcap, .. } = self.shape;
        let group = self.shape.group();
        let table = self.rows[block.row].table;
        let (keys, values) = self.pool.at(self.page(table, page), head);
        let next = block.page + block.pages - 1;
        let (next, _) = self.pool.at(self.page(table, next.min(page + 1)), head);
        let q = ((block.rows - 1) * heads + group) * head_dim;
        // SAFETY: queries were made in a phase before, or this head of the one row by this task.
        let q = unsafe { self.q.stretch(block.row, head * group * head_dim, q) };
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
            eight: self.eight(ctx, block, head),
            sight: self.sight(block, page),
            out,
            merge,
        };
        // SAFETY: the tier is usable; the pages were written before; `out` has room
        // for the block's rows and belongs to this task.
        unsafe { (ctx.kernels.attend_page)(&task) };
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
        // SAFETY: rows chose before.
        let chosen = self.chosen.map(|chosen| unsafe { chosen.from(block.row) });
        let (reach, len) = (self.shape.reach, block.len);
        Sight { pos, reach, len, page: page * PAGE, chosen }
    }
    fn page(&self, table: usize, page: usize) -> u32 {
        self.tables[table][page]
    }
    /// Where the result of a row from a head on goes.
    pub(super) fn result(&self, row: usize, head: usize) -> Shares {
        let Attend { heads, v_dim, .. } = self.shape;
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

// SAFETY: a head enters, and a page or a block and head is attended to, in one task; a head of some
// rows is merged by one.
unsafe impl Phases for Work<'_> {
    /// Some may be nothing.
    fn phases(&self) -> usize {
        self.entries() + (2 * self.waves).max(1) + 1
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, i: usize) {
        let (entries, pages) = (self.entries(), (2 * self.waves).max(1));
        match i {
            // SAFETY: passed on.
            _ if i < entries => unsafe { self.enter_all(ctx, worker, i) },
            _ if i < entries + pages => self.attend_all(ctx, worker, i - entries),
            _ => self.quantise(ctx, worker),
        }
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
