//! Which positions a query attends to: those that a small attention scores highest.
//! DeepSeek-V3.2, arXiv:2512.02556.
use super::Ctx;
use super::attention::{AttendRow, Write};
use crate::kv::{Choices, IndexTask, KvKind, KvShape, PAGE, Pool, SharedPool};
use crate::mat::{Lent, Mat, Seen};
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
    /// Of the rows from `row` on.
    pub(crate) fn from(&self, row: usize) -> Choices<'_> {
        let Chosen { bits, pages, firsts } = self;
        Choices { bits: &bits[row * pages..], pages: *pages, firsts: &firsts[row..] }
    }
    /// Whether it holds so many rows of so many positions.
    pub(crate) fn fits(&self, rows: usize, positions: usize) -> bool {
        rows <= self.firsts.len() && positions <= self.pages * PAGE
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
#[expect(clippy::too_many_arguments, reason = "one operation, named operands")]
pub fn choose(
    ctx: &Ctx,
    how: &Choose,
    rows: &[AttendRow],
    tables: &[Vec<u32>],
    [q, w, k]: [&Mat; 3],
    pool: &mut Pool,
    scratch: &mut ChooseScratch,
    chosen: &mut Chosen,
) {
    how.check(rows, [q, w, k], pool, scratch, chosen);
    let ChooseScratch { order, sorted, stride, weights } = scratch;
    weights.resize(rows.len());
    let scaled = weights.data_mut().iter_mut().zip(w.data());
    scaled.for_each(|(to, w)| *to = w * how.weight_scale);
    let (kind, shape, pages) = (pool.kind(), pool.shape(), chosen.pages);
    let (pool, weights) = (pool.shared(), &*weights);
    let write = Write { rows, tables, pool: &pool, kind, shape, k: Seen::of(k), v: None };
    // SAFETY: the pages are this call's, and nobody writes `k`.
    ctx.team.run(|worker| unsafe { write.phase(worker) });
    let scores = Scores { ctx, how, rows, tables, q, weights, pool, kind };
    let at_once = order.len() / *stride;
    let (order, sorted) = (Lent::new(order), Lent::new(sorted));
    let (bits, firsts) = (Lent::new(&mut chosen.bits), Lent::new(&mut chosen.firsts));
    for from in (0..rows.len()).step_by(at_once) {
        let some = from..rows.len().min(from + at_once);
        let longest = rows[some.clone()].iter().map(|row| row.pos / PAGE + 1).max().unwrap_or(0);
        let tasks = longest.div_ceil(PAGES);
        ctx.team.run(|worker| {
            worker.phase(some.len() * tasks, |i| {
                let (row, first) = (i / tasks, i % tasks * PAGES);
                let len = (PAGES * PAGE).min(*stride - first * PAGE);
                // SAFETY: a stretch of a row's scores is one task's.
                let out = unsafe { order.part(row * *stride + first * PAGE, len) };
                scores.some(from + row, first..first + PAGES, out);
            });
            worker.phase(some.len(), |i| {
                let seen = rows[from + i].pos + 1;
                // SAFETY: a row is one task's; its scores were made in the phase before.
                unsafe {
                    let order = order.part(i * *stride, seen);
                    let bits = bits.part((from + i) * pages, pages);
                    how.pick(order, sorted.part(i * *stride, seen), bits);
                    firsts.part(from + i, 1)[0] = first(bits);
                }
            });
        });
    }
}

/// The first position whose bit is set.
fn first(bits: &[u64]) -> usize {
    let page = bits.iter().position(|bits| *bits != 0).unwrap_or(0);
    page * PAGE + bits[page].trailing_zeros() as usize
}

/// What scores are made of.
struct Scores<'a> {
    ctx: &'a Ctx,
    how: &'a Choose,
    rows: &'a [AttendRow],
    tables: &'a [Vec<u32>],
    q: &'a Mat,
    weights: &'a Mat,
    pool: SharedPool<'a>,
    kind: KvKind,
}

impl Scores<'_> {
    /// Those of a row in some pages, as integers of the same order; none where a row chooses all.
    fn some(&self, row: usize, pages: Range<usize>, out: &mut [u32]) {
        let AttendRow { table, pos } = self.rows[row];
        let seen = if pos < self.how.top_k { 0 } else { pos / PAGE + 1 };
        for page in pages.start..pages.end.min(seen) {
            let task = IndexTask {
                q: self.q.row(row),
                weights: self.weights.row(row),
                scale: self.how.scale,
                keys: self.pool.at(self.tables[table][page], 0).0,
                kind: self.kind,
            };
            let mut scores = [0.0; PAGE];
            // SAFETY: the tier is usable, the shapes were checked.
            unsafe { (self.ctx.kernels.index_page)(&task, &mut scores) };
            for (out, score) in out[(page - pages.start) * PAGE..].iter_mut().zip(scores) {
                // Both zeros are one.
                let bits = (score + 0.0).to_bits();
                *out = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            }
        }
    }
}

impl Choose {
    /// What its pages keep of a position.
    pub fn keeps(&self) -> KvShape {
        KvShape { heads: 1, k_dim: self.head_dim, v_dim: 0 }
    }
    fn check(
        &self,
        rows: &[AttendRow],
        [q, w, k]: [&Mat; 3],
        pool: &Pool,
        scratch: &ChooseScratch,
        chosen: &Chosen,
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
