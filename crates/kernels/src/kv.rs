//! Pages of keys and values: 64 positions each, laid out for the kernels.
//!
//! A page of one layer holds, for each K/V head, keys as `[head_dim][64]` (lanes are positions)
//! and then values as `[64][head_dim]` (lanes are channels), in f16 or f32. A page is also the
//! unit of attention: a query's share of each page (maximum, sum, weighted values) is computed by
//! itself and the shares are merged in page order, so the result does not depend on how the work
//! was cut. A fresh page is zeroed, so that masked positions are finite.

/// Positions to a page.
pub const PAGE: usize = 64;

/// What a cached element is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvKind {
    /// Half precision, rounded to nearest even.
    F16,
    /// Exact.
    F32,
}

impl KvKind {
    /// Bytes to an element.
    pub fn bytes(self) -> usize {
        match self {
            KvKind::F16 => 2,
            KvKind::F32 => 4,
        }
    }
}

/// One layer's pages.
pub struct Pool {
    kind: KvKind,
    kv_heads: usize,
    head_dim: usize,
    data: crate::mat::Aligned,
}

impl Pool {
    /// `pages` zeroed pages.
    pub fn new(kind: KvKind, kv_heads: usize, head_dim: usize, pages: usize) -> Pool {
        let data = crate::mat::Aligned::zeroed(pages * Pool::page_bytes(kind, kv_heads, head_dim));
        Pool { kind, kv_heads, head_dim, data }
    }
    /// Bytes to a page.
    pub const fn page_bytes(kind: KvKind, kv_heads: usize, head_dim: usize) -> usize {
        2 * PAGE
            * kv_heads
            * head_dim
            * match kind {
                KvKind::F16 => 2,
                KvKind::F32 => 4,
            }
    }
    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.data.bytes().len() / self.stride()
    }
    /// What an element is stored as.
    pub fn kind(&self) -> KvKind {
        self.kind
    }
    /// Page `i`'s bytes, for saving.
    pub fn page(&self, i: u32) -> &[u8] {
        let n = self.stride();
        &self.data.bytes()[i as usize * n..(i as usize + 1) * n]
    }
    /// Page `i`'s bytes, for restoring and for clearing.
    pub fn page_mut(&mut self, i: u32) -> &mut [u8] {
        let n = self.stride();
        &mut self.data.bytes_mut()[i as usize * n..(i as usize + 1) * n]
    }
    /// Copies page `from` over page `to`.
    pub fn copy(&mut self, from: u32, to: u32) {
        let n = self.stride();
        let from = from as usize * n;
        self.data.bytes_mut().copy_within(from..from + n, to as usize * n);
    }
    fn stride(&self) -> usize {
        Pool::page_bytes(self.kind, self.kv_heads, self.head_dim)
    }
}

/// One query head's work on one page: scores of the visible positions, their maximum, the sum of
/// their exponentials and the values weighted by these.
pub struct PageTask<'a> {
    /// One head of the query, already multiplied by the scale.
    pub q: &'a [f32],
    /// The page's keys of this K/V head.
    pub keys: &'a [u8],
    /// The page's values of this K/V head.
    pub values: &'a [u8],
    /// How both are stored.
    pub kind: KvKind,
    /// First and one past the last visible position in the page; never empty.
    pub visible: (usize, usize),
    /// As in [`crate::ops::Attend`].
    pub softcap: Option<f32>,
    /// Result: maximum, sum, then `head_dim` weighted values. Written through a raw pointer
    /// because the tasks of a phase share the scratch.
    pub out: *mut f32,
}

/// Joins a page's share to the shares before it: with `m = max(m₁, m₂)`, `a = exp(m₁ - m)`,
/// `b = exp(m₂ - m)`: sum `l₁·a + l₂·b`, values `o₁·a + o₂·b`, one product and one fused
/// multiply-add each.
pub struct MergeTask<'a> {
    /// Maximum, sum, values of the pages so far; replaced by the union's.
    pub into: &'a mut [f32],
    /// The next page's.
    pub from: &'a [f32],
}
