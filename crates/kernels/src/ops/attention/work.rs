//! The phases and tasks of one attention.
use super::write::Write;
use super::{Attend, AttendRow, BLOCK, Block, Chosen};
use crate::act::{self, ActRows, QuantRow, SharedAct};
use crate::kv::{Eight, KvKind, MergeTask, PAGE, PageTask, SharedPool, Shares, Sight};
use crate::layout::Layout;
use crate::mat::{Lent, Mat};
use crate::team::{Team, Worker};
use crate::tier::Kernels;
use std::ops::Range;

/// One call's operands, as its tasks share them.
pub(super) struct Work<'a> {
    pub(super) kernels: &'static Kernels,
    pub(super) shape: &'a Attend<'a>,
    pub(super) rows: &'a [AttendRow],
    pub(super) tables: &'a [Vec<u32>],
    pub(super) chosen: Option<&'a Chosen>,
    pub(super) q: &'a Mat,
    pub(super) kv: Option<(&'a Mat, &'a Mat)>,
    pub(super) kind: KvKind,
    /// In 8 bits, where the pages are.
    pub(super) queries: Option<Lent<'a, act::Block>>,
    pub(super) pool: SharedPool<'a>,
    pub(super) blocks: &'a [Block],
    /// Elements of `shares` to a page of a block, and how many of these there are.
    pub(super) slot: usize,
    pub(super) slots: usize,
    pub(super) stats: Lent<'a, f32>,
    pub(super) shares: Lent<'a, f32>,
    /// As many zeros as a head has elements.
    pub(super) nothing: &'a [f32],
    pub(super) out: SharedAct<'a>,
}

impl Work<'_> {
    /// Does it, with the 8-bit form of the result if `q8`.
    pub(super) fn run(&self, team: &Team, q8: bool) {
        let pages = self.blocks.iter().map(|b| b.pages).sum::<usize>() * self.shape.kv_heads;
        let longest = self.blocks.iter().map(|b| b.pages).max().unwrap_or(0);
        let threads = team.threads();
        // A block and K/V head is one task, unless one of these is much of all work.
        if threads == 1 || 2 * longest * threads <= pages {
            return team.run(|worker| {
                self.write(worker);
                // Heads last: blocks of one sequence read the same pages.
                let blocks = self.blocks.len();
                worker.phase(blocks * self.shape.kv_heads, |unit| {
                    self.whole(unit % blocks, unit / blocks)
                });
                self.quantise(worker, q8);
            });
        }
        for from in (0..pages).step_by(self.slots) {
            let wave = from..pages.min(from + self.slots);
            team.run(|worker| {
                if from == 0 {
                    self.write(worker);
                }
                let some = wave.len().div_ceil(8 * threads);
                worker.phase(wave.len().div_ceil(some), |i| {
                    let start = wave.start + i * some;
                    (start..wave.end.min(start + some))
                        .for_each(|task| self.share(task, wave.start));
                });
                let (first, last) = (self.unit(wave.start), self.unit(wave.end - 1));
                let group = self.shape.group();
                worker.phase((last - first + 1) * group, |i| {
                    self.merge(first + i / group, i % group, &wave);
                });
                if wave.end == pages {
                    self.quantise(worker, q8);
                }
            });
        }
    }

    /// Phases: brings queries to 8 bits where pages are, and puts keys and values into these.
    fn write(&self, worker: &Worker<'_>) {
        let heads = self.shape.kv_heads;
        worker.phase(self.queries.as_ref().map_or(0, |_| self.blocks.len() * heads), |unit| {
            self.ask(self.blocks[unit / heads], unit % heads);
        });
        let Some((k, v)) = self.kv else { return };
        let Work { rows, tables, pool, kind, .. } = self;
        let (shape, kind) = (self.shape.keeps(), *kind);
        Write { rows, tables, pool, kind, shape, k, v: Some(v) }.phase(worker);
    }

    /// The 8-bit form of a block's queries of a K/V head.
    fn ask(&self, block: Block, head: usize) {
        let Attend { heads, head_dim, .. } = *self.shape;
        let (group, Some(to)) = (self.shape.group(), self.asked(block, head)) else { return };
        let count = block.rows * group;
        for i in 0..count {
            let (row, head) = (block.row + i / group, head * group + i % group);
            let q = &self.q.data()[(row * heads + head) * head_dim..][..head_dim];
            let at = (self.kernels.tile, count, i);
            // SAFETY: the tier is usable; a block's queries of a head are one task's.
            unsafe { (self.kernels.quantise)(q, QuantRow::of(&to, at, self.shape.query_blocks())) };
        }
    }

    /// Where these are.
    fn asked(&self, block: Block, head: usize) -> Option<Lent<'_, act::Block>> {
        let (count, each) = (block.rows * self.shape.group(), self.shape.query_blocks());
        let first = block.row * self.shape.heads + head * count;
        self.queries.as_ref().map(|all| all.within(first * each, count * each))
    }

    /// What the kernel takes besides where pages are in 8 bits.
    fn eight(&self, block: Block, head: usize) -> Option<Eight<'_>> {
        let count = block.rows * self.shape.group();
        let blocks = count * self.shape.query_blocks();
        self.asked(block, head).map(|asked| Eight {
            queries: {
                // SAFETY: they were made in an earlier phase; nobody writes them now.
                let q = unsafe { std::slice::from_raw_parts(asked.at(0, blocks), blocks) };
                ActRows::of_blocks(q, count, self.shape.head_dim)
            },
            product: self.kernels.matmul[Layout::W8 as usize],
        })
    }

    /// All pages of a block and K/V head, each joined to those before it.
    fn whole(&self, block: usize, head: usize) {
        let b = self.blocks[block];
        let first = head * self.shape.group();
        for page in b.page..b.page + b.pages {
            self.attend(b, head, page, self.result(b.row, first), true);
        }
        for row in b.row..b.row + b.rows {
            (first..first + self.shape.group()).for_each(|head| self.finish(row, head));
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
                        (self.kernels.merge)(MergeTask { stats, values, page_stats, page_values });
                    }
                }
            }
        }
        if own.end <= wave.end {
            (block.row..block.row + block.rows).for_each(|row| self.finish(row, all));
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
        let task = PageTask {
            q: &self.q.data()[(block.row * heads + head * group) * head_dim..],
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
        // SAFETY: the tier is usable; the pages were written in the phase before; `out` has room
        // for the block's rows and belongs to this task.
        unsafe { (self.kernels.attend_page)(&task) };
    }

    /// Divides a head of a row by its sum. A sink joins that as the share of one more page.
    fn finish(&self, row: usize, head: usize) {
        let out = self.result(row, head);
        // SAFETY: this head of this row is the calling task's.
        let (stats, values) = unsafe {
            let values = std::slice::from_raw_parts_mut(out.values, self.shape.v_dim);
            (std::slice::from_raw_parts_mut(out.stats, 2), values)
        };
        if let Some(sinks) = self.shape.sinks {
            let (page_stats, page_values) = (&[sinks[head], 1.0], self.nothing);
            // SAFETY: the tier is usable, lengths agree.
            unsafe { (self.kernels.merge)(MergeTask { stats, values, page_stats, page_values }) };
        }
        let inverse = 1.0 / stats[1];
        values.iter_mut().for_each(|value| *value *= inverse);
    }

    /// Phase: the 8-bit form of the result.
    fn quantise(&self, worker: &Worker<'_>, q8: bool) {
        let (rows, cols) = (self.rows.len(), self.shape.heads * self.shape.v_dim);
        worker.phase(if q8 { rows.div_ceil(BLOCK) } else { 0 }, |i| {
            for row in i * BLOCK..rows.min((i + 1) * BLOCK) {
                // SAFETY: the tier is usable; a row is one task's.
                unsafe {
                    let to = self.out.quantised(row, 0, cols.div_ceil(act::BLOCK));
                    (self.kernels.quantise)(self.out.f32().part(row, 0, cols), to);
                }
            }
        });
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
    fn result(&self, row: usize, head: usize) -> Shares {
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
