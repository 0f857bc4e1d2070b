//! Pages of keys and values: 64 positions each, laid out for the kernels.
//!
//! A page of one layer holds, for each K/V head, keys as `[k_dim][64]` (lanes are positions)
//! and then values as `[64][v_dim]` (lanes are channels, filled up with zeros to a multiple of
//! 16), in f16 or f32; or both in 8 bits, as [`eight`] says. A page is also the
//! unit of attention: a query's share of each page (maximum, sum, weighted values) is computed by
//! itself and the shares are merged in page order, so the result does not depend on how the work
//! was cut. What a page holds at positions that a row does not see never reaches its result.

pub(crate) mod eight;
mod pool;

use crate::act::ActRows;
use crate::tier::MatmulFn;

pub(crate) use pool::SharedPool;
pub use pool::{KvKind, KvShape, Pool};

/// Positions to a page.
pub const PAGE: usize = 64;

/// The work of one K/V head's group of query heads on one page, for rows that follow each other in
/// one sequence: scores of the visible positions, their maximum, the sum of their exponentials and
/// the values weighted by these. That is a query's *share* of the page.
pub struct PageTask<'a> {
    /// Head `g` of row `r` is `head_dim` elements from `(r·heads + g)·head_dim` on.
    pub q: &'a [f32],
    /// Query heads to a row of `q`.
    pub heads: usize,
    /// Rows, at position [`Sight::pos`] and after.
    pub rows: usize,
    /// Query heads of a row that read this K/V head.
    pub group: usize,
    /// Elements of a query or key.
    pub head_dim: usize,
    /// Elements of a value.
    pub v_dim: usize,
    /// As in [`crate::ops::Attend`].
    pub scale: f32,
    /// As in [`crate::ops::Attend`].
    pub softcap: Option<f32>,
    /// As in [`crate::ops::Attend`], of the group's heads.
    pub slopes: Option<&'a [f32]>,
    /// The page's keys of this K/V head.
    pub keys: *const u8,
    /// The page's values of this K/V head.
    pub values: *const u8,
    /// The keys that are likely to be read next, to be fetched meanwhile; they may be anywhere.
    pub next: *const u8,
    /// How both are stored.
    pub kind: KvKind,
    /// What there is besides where both are stored in 8 bits.
    pub eight: Option<Eight<'a>>,
    /// What the rows see of the page.
    pub sight: Sight<'a>,
    /// Where the shares go.
    pub out: Shares,
    /// Whether a share joins what `out` holds of the pages before it, or replaces it.
    pub merge: bool,
}

/// What attention over 8-bit pages takes.
#[derive(Clone, Copy)]
pub struct Eight<'a> {
    /// The 8-bit form of the queries that read the K/V head, row after row.
    pub queries: ActRows<'a>,
    /// The product of [`crate::Layout::W8`].
    pub product: MatmulFn,
}

/// Which positions up to its own a row sees; of [`Sight::len`] positions, as many after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All.
    All,
    /// The last so many, counting its own.
    Window(usize),
    /// Those whose position divided by this is its own's.
    Chunk(usize),
}

/// What consecutive rows see of a page.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Position of the first row.
    pub pos: usize,
    /// What a row sees.
    pub reach: Reach,
    /// Positions of the sequence, if rows see those after them too.
    pub len: Option<usize>,
    /// The page's first position.
    pub page: usize,
    /// What else limits it.
    pub chosen: Option<Choices<'a>>,
}

/// The positions that consecutive rows chose.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    /// A bit a position, row after row.
    pub bits: &'a [u64],
    /// Words of bits to a row, one a page.
    pub pages: usize,
    /// The first position of each row.
    pub firsts: &'a [usize],
}

impl Sight<'_> {
    /// First and one past the last position in the page that row `row` sees, [`Sight::mask`] aside;
    /// empty if none.
    #[inline(always)]
    pub fn visible(&self, row: usize) -> (usize, usize) {
        if self.mask(row) == 0 {
            return (0, 0);
        }
        let inside = |position: usize| position.saturating_sub(self.page).min(PAGE);
        (inside(self.since(row)), inside(self.until(row)))
    }
    /// A bit for each position of the page that row `row` may see.
    #[inline(always)]
    pub fn mask(&self, row: usize) -> u64 {
        self.chosen.map_or(u64::MAX, |c| c.bits[row * c.pages + self.page / PAGE])
    }
    /// Whether row `row` sees no page before this one.
    #[inline(always)]
    pub fn first(&self, row: usize) -> bool {
        self.chosen.map_or_else(|| self.since(row), |c| c.firsts[row]) >= self.page
    }
    /// The first position that row `row` sees, whatever it chose.
    #[inline(always)]
    pub fn since(&self, row: usize) -> usize {
        let pos = self.pos + row;
        match self.reach {
            Reach::All => 0,
            Reach::Window(n) => (pos + 1).saturating_sub(n),
            Reach::Chunk(n) => pos / n * n,
        }
    }
    /// One past the last position that row `row` sees.
    #[inline(always)]
    pub fn until(&self, row: usize) -> usize {
        let pos = self.pos + row;
        match (self.len, self.reach) {
            (None, _) => pos + 1,
            (Some(len), Reach::All) => len,
            (Some(len), Reach::Window(n)) => len.min(pos.saturating_add(n)),
            (Some(len), Reach::Chunk(n)) => len.min((pos / n + 1).saturating_mul(n)),
        }
    }
}

/// Where the shares of some rows are: of head `g` of row `r`, maximum and sum are two elements of
/// `stats` from `2·(r·heads + g)` on, and `v_dim` values from `(r·heads + g)·v_dim` on. Raw
/// because the tasks of a phase write interleaved parts of one matrix.
#[derive(Clone, Copy)]
pub struct Shares {
    /// Maximum and sum.
    pub stats: *mut f32,
    /// Weighted values.
    pub values: *mut f32,
    /// Heads to a row.
    pub heads: usize,
}

impl Shares {
    /// Those from row `row` on.
    pub(crate) fn from(self, row: usize, v_dim: usize) -> Shares {
        let first = row * self.heads;
        let stats = self.stats.wrapping_add(2 * first);
        Shares { stats, values: self.values.wrapping_add(first * v_dim), ..self }
    }
}

/// Joins a page's share to those of the pages before it: with `m = max(m₁, m₂)`,
/// `a = exp(m₁ - m)` and `b = exp(m₂ - m)`, the sum is `l₁·a + l₂·b` and the values `o₁·a + o₂·b`,
/// one product and one fused multiply-add each.
pub struct MergeTask<'a> {
    /// Maximum and sum of the pages so far; replaced by the union's.
    pub stats: &'a mut [f32],
    /// Weighted values of the pages so far; replaced by the union's.
    pub values: &'a mut [f32],
    /// The next page's maximum and sum.
    pub page_stats: &'a [f32],
    /// The next page's weighted values.
    pub page_values: &'a [f32],
}

/// A query's scores of a page's positions: `Σ_h weights[h] · max(q[h]·k·scale, 0)`.
pub struct IndexTask<'a> {
    /// `[heads, k_dim]`.
    pub q: &'a [f32],
    /// By head.
    pub weights: &'a [f32],
    /// Multiplies q·k.
    pub scale: f32,
    /// The page's keys.
    pub keys: *const u8,
    /// How they are stored.
    pub kind: KvKind,
}
