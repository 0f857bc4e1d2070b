//! Which positions a query attends to: those that a small attention scores highest.
//! DeepSeek-V3.2, arXiv:2512.02556.
use super::attention::{AttendRow, Places, Write};
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Stage, by_rows};
use crate::kv::{Choices, IndexTask, KvKind, KvShape, PAGE, Pool, SharedPool};
use crate::mat::{Lent, Mat, Seen, Slot};
use crate::team::Worker;
use std::marker::PhantomData;
use std::ops::Range;

/// Position `t` counts `Σ_h w[h]·weight_scale · max(q[h]·k[t]·scale, 0)`.
#[derive(Clone, Copy, Debug)]
pub struct Choose {
    /// Query heads; there is one key head.
    pub heads: usize,
    /// Elements to a head.
    pub head_dim: usize,
    /// Positions that a query chooses: all, if there are no more.
    pub top_k: usize,
    /// Multiplies q·k.
    pub scale: f32,
    /// Multiplies the weights of heads.
    pub weight_scale: f32,
}

/// The positions that each row of a batch chose.
pub struct Chosen {
    /// A bit a position, page by page: `[rows, pages]`.
    bits: Vec<u64>,
    pages: usize,
    /// The first position of each row.
    firsts: Vec<usize>,
}

/// The same, lent to the operations of a chain.
#[derive(Clone, Copy)]
pub struct ChosenSlot<'a> {
    bits: Lent<'a, u64>,
    pages: usize,
    firsts: Lent<'a, usize>,
    here: PhantomData<*const ()>,
}

impl<'a> ChosenSlot<'a> {
    /// Of the rows from `row` on.
    ///
    /// # Safety
    /// Nobody chooses meanwhile.
    pub(crate) unsafe fn from(&self, row: usize) -> Choices<'a> {
        let ChosenSlot { bits, pages, firsts, .. } = *self;
        let bit = row * pages;
        // SAFETY: passed on.
        unsafe {
            let (bits, firsts) =
                (bits.seen(bit, bits.len - bit), firsts.seen(row, firsts.len - row));
            Choices { bits, pages, firsts }
        }
    }
    /// Whether it holds so many rows of so many positions.
    pub(crate) fn fits(&self, rows: usize, positions: usize) -> bool {
        rows <= self.firsts.len && positions <= self.pages * PAGE
    }
}

/// What choosing writes on the way, sized once.
pub struct ChooseScratch {
    /// Scores as integers of the same order, of some rows.
    order: Vec<u32>,
    /// The same, to be partly sorted.
    sorted: Vec<u32>,
    /// Positions to a row.
    stride: usize,
    /// Weights of heads.
    weights: Mat,
}

/// Pages that a task scores.
const PAGES: usize = 4;

impl Chosen {
    /// For batches of up to `rows` rows over up to `context` positions.
    pub fn new(rows: usize, context: usize) -> Chosen {
        let pages = context.div_ceil(PAGE);
        Chosen { bits: vec![0; rows * pages], pages, firsts: vec![0; rows] }
    }
    /// Row `i`'s bits, page by page.
    pub fn row(&self, i: usize) -> &[u64] {
        &self.bits[i * self.pages..(i + 1) * self.pages]
    }
    /// Lends it.
    pub fn slot(&mut self) -> ChosenSlot<'_> {
        let Chosen { bits, pages, firsts } = self;
        let (bits, firsts) = (Lent::new(bits), Lent::new(firsts));
        ChosenSlot { bits, pages: *pages, firsts, here: PhantomData }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.bits[..]) + size_of_val(&self.firsts[..])
    }
}

impl ChooseScratch {
    /// For batches of up to `rows` rows over up to `context` positions, on `threads` threads.
    pub fn new(how: &Choose, rows: usize, context: usize, threads: usize) -> ChooseScratch {
        let stride = context.next_multiple_of(PAGE);
        let scores = rows.min(4 * threads).max(1) * stride;
        ChooseScratch {
            order: vec![0; scores],
            sorted: vec![0; scores],
            stride,
            weights: Mat::new(rows, how.heads),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.order[..]) + size_of_val(&self.sorted[..]) + self.weights.bytes()
    }
}

/// Writes every row's key to its page, then chooses the `top_k` positions `<= pos` that count most,
/// of equals the lowest. `q` is `[rows, heads·head_dim]`, `w` `[rows, heads]`, `k`
/// `[rows, head_dim]`; the pool keeps keys alone.
///
/// # Panics
/// If the shapes differ, the scratch is too small, or a position has no page.
pub fn choose(
    ctx: &Ctx,
    how: &Choose,
    places: Places<'_>,
    [q, w, k]: [&Mat; 3],
    scratch: &mut ChooseScratch,
    chosen: &mut Chosen,
) {
    let operands = [q.into(), w.into(), k.into()];
    alone(ctx, Choosing::new(*how, places, operands, scratch, chosen.slot()));
}

impl<'a> Chain<'a> {
    /// Each row's choice, as of [`choose()`].
    ///
    /// # Panics
    /// As [`choose()`] does.
    pub fn choose(
        &mut self,
        how: Choose,
        places: Places<'a>,
        operands: [Slot<'a>; 3],
        scratch: &'a mut ChooseScratch,
        chosen: ChosenSlot<'a>,
    ) {
        let operands = operands.map(Seen::from);
        self.push(Stage::Attention, Choosing::new(how, places, operands, scratch, chosen));
    }
}

/// One choice's operands.
struct Choosing<'a> {
    how: Choose,
    rows: &'a [AttendRow],
    tables: &'a [Vec<u32>],
    q: Seen<'a>,
    w: Seen<'a>,
    k: Seen<'a>,
    pool: SharedPool<'a>,
    kind: KvKind,
    order: Lent<'a, u32>,
    sorted: Lent<'a, u32>,
    stride: usize,
    weights: Slot<'a>,
    chosen: ChosenSlot<'a>,
}

impl<'a> Choosing<'a> {
    /// # Panics
    /// If the shapes differ, the scratch is too small, or a position has no page.
    pub fn new(
        how: Choose,
        places: Places<'a>,
        [q, w, k]: [Seen<'a>; 3],
        scratch: &'a mut ChooseScratch,
        chosen: ChosenSlot<'a>,
    ) -> Choosing<'a> {
        let Places { rows, tables, pool, .. } = places;
        how.check(rows, [q, w, k], pool, scratch, chosen);
        let ChooseScratch { order, sorted, stride, weights } = scratch;
        Choosing {
            how,
            rows,
            tables,
            q,
            w,
            k,
            kind: pool.kind(),
            pool: pool.shared(),
            order: Lent::new(order),
            sorted: Lent::new(sorted),
            stride: *stride,
            weights: weights.lend(rows.len()),
            chosen,
        }
    }
    /// Rows that are scored at a time.
    fn at_once(&self) -> usize {
        self.order.len / self.stride
    }

    /// A row's scores in some pages, as integers of the same order; none where it chooses all.
    ///
    /// # Safety
    /// As of [`Phases::phase`], and so of what follows.
    unsafe fn score(&self, ctx: &Ctx, row: usize, pages: Range<usize>, out: &mut [u32]) {
        let AttendRow { table, pos } = self.rows[row];
        let seen = if pos < self.how.top_k { 0 } else { pos / PAGE + 1 };
        for page in pages.start..pages.end.min(seen) {
            let mut scores = [0.0; PAGE];
            // SAFETY: passed on, the shapes were checked.
            unsafe {
                let task = IndexTask {
                    q: self.q.row(row),
                    weights: self.weights.seen().row(row),
                    scale: self.how.scale,
                    keys: self.pool.at(self.tables[table][page], 0).0,
                    kind: self.kind,
                };
                (ctx.kernels.index_page)(&task, &mut scores);
            }
            for (out, score) in out[(page - pages.start) * PAGE..].iter_mut().zip(scores) {
                // Both zeros are one.
                let bits = (score + 0.0).to_bits();
                *out = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            }
        }
    }

    /// Scales the weights of all rows, and writes these' keys to their pages.
    unsafe fn enter(&self, worker: &Worker<'_>, phase: usize) {
        if phase == 0 {
            return by_rows(worker, self.rows.len(), &|i| {
                // SAFETY: passed on; a row is one task's.
                let (to, from) = unsafe { (self.weights.part(i, 0, self.w.cols()), self.w.row(i)) };
                to.iter_mut().zip(from).for_each(|(to, w)| *to = w * self.how.weight_scale);
            });
        }
        let Choosing { rows, tables, pool, kind, k, .. } = self;
        let (kind, shape, k) = (*kind, self.how.keeps(), *k);
        let write = Write { rows, tables, pool, kind, shape, k, v: None };
        // SAFETY: the pages are this operation's.
        unsafe { write.phase(worker) };
    }

    /// Scores of the rows from `from` on.
    unsafe fn scores(&self, ctx: &Ctx, worker: &Worker<'_>, some: Range<usize>) {
        let longest = self.rows[some.clone()].iter().map(|row| row.pos / PAGE + 1).max();
        let tasks = longest.unwrap_or(0).div_ceil(PAGES);
        worker.phase(some.len() * tasks, |i| {
            let (row, first) = (i / tasks, i % tasks * PAGES);
            let len = (PAGES * PAGE).min(self.stride - first * PAGE);
            // SAFETY: passed on; a stretch of a row's scores is one task's.
            unsafe {
                let out = self.order.part(row * self.stride + first * PAGE, len);
                self.score(ctx, some.start + row, first..first + PAGES, out);
            }
        });
    }

    /// The choices of the same rows.
    unsafe fn picks(&self, worker: &Worker<'_>, some: Range<usize>) {
        let (pages, stride) = (self.chosen.pages, self.stride);
        worker.phase(some.len(), |i| {
            let (row, seen) = (some.start + i, self.rows[some.start + i].pos + 1);
            // SAFETY: passed on; a row is one task's.
            unsafe {
                let order = self.order.part(i * stride, seen);
                let bits = self.chosen.bits.part(row * pages, pages);
                self.how.pick(order, self.sorted.part(i * stride, seen), bits);
                self.chosen.firsts.part(row, 1)[0] = first(bits);
            }
        });
    }
}

// SAFETY: as each step says.
unsafe impl Phases for Choosing<'_> {
    fn phases(&self) -> usize {
        2 + 2 * self.rows.len().div_ceil(self.at_once())
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, i: usize) {
        // SAFETY: passed on.
        unsafe {
            if i < 2 {
                return self.enter(worker, i);
            }
            let from = (i - 2) / 2 * self.at_once();
            let some = from..self.rows.len().min(from + self.at_once());
            if i.is_multiple_of(2) {
                self.scores(ctx, worker, some);
            } else {
                self.picks(worker, some);
            }
        }
    }
}

/// The first position whose bit is set.
fn first(bits: &[u64]) -> usize {
    let page = bits.iter().position(|bits| *bits != 0).unwrap_or(0);
    page * PAGE + bits[page].trailing_zeros() as usize
}

impl Choose {
    /// What its pages keep of a position.
    pub fn keeps(&self) -> KvShape {
        KvShape { heads: 1, k_dim: self.head_dim, v_dim: 0 }
    }
    fn check(
        &self,
        rows: &[AttendRow],
        [q, w, k]: [Seen<'_>; 3],
        pool: &Pool,
        scratch: &ChooseScratch,
        chosen: ChosenSlot<'_>,
    ) {
        assert_eq!(pool.shape(), self.keeps(), "the pages are of another shape");
        for (x, cols) in [(q, self.heads * self.head_dim), (w, self.heads), (k, self.head_dim)] {
            assert_eq!((x.rows(), x.cols()), (rows.len(), cols), "queries, weights and keys");
        }
        let positions = rows.iter().map(|row| row.pos + 1).max().unwrap_or(0);
        assert!(chosen.fits(rows.len(), positions), "the choice is too small");
        assert!(positions <= scratch.stride, "the scratch is too small");
    }
    /// Sets the bits of the highest of `order`.
    fn pick(&self, order: &[u32], sorted: &mut [u32], bits: &mut [u64]) {
        bits.fill(0);
        let (mut least, mut equals) = (0, usize::MAX);
        if order.len() > self.top_k {
            sorted.copy_from_slice(order);
            least = *sorted.select_nth_unstable(order.len() - self.top_k).1;
            equals = self.top_k - order.iter().filter(|score| **score > least).count();
        }
        let all = order.len() <= self.top_k;
        for (t, score) in order.iter().enumerate() {
            let equal = !all && *score == least;
            if all || *score > least || (equal && equals > 0) {
                bits[t / PAGE] |= 1 << (t % PAGE);
                equals -= usize::from(equal);
            }
        }
    }
}
