//! Softmax attention over pages of keys and values.
//! Vaswani et al. 2017, arXiv:1706.03762; GQA, arXiv:2305.13245; paging, arXiv:2309.06180;
//! the online softmax, arXiv:1805.02867.
use super::Ctx;
use crate::act::Act;
use crate::kv::Pool;
use crate::mat::Mat;

/// The shape of an attention.
#[derive(Clone, Copy, Debug)]
pub struct Attend {
    /// Query heads; head `h` reads K/V head `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements to a head.
    pub head_dim: usize,
    /// Multiplies q·k.
    pub scale: f32,
    /// Keys visible to a query, counting itself.
    pub window: Option<usize>,
    /// `cap · tanh(score / cap)` before the mask.
    pub softcap: Option<f32>,
}

/// Where a row of the batch stands: position `pos` of the sequence whose pages are
/// `tables[table]`, page `i` of a table holding positions `64i..64i + 64`.
#[derive(Clone, Copy, Debug)]
pub struct AttendRow {
    /// Index into the tables.
    pub table: usize,
    /// Position in the sequence.
    pub pos: usize,
}

/// Partial results between phases, sized once.
pub struct AttentionScratch {
    pub(crate) data: Vec<f32>,
}

impl AttentionScratch {
    /// For batches of up to `rows` rows over up to `context` positions, on `threads` threads.
    pub fn new(shape: &Attend, rows: usize, context: usize, threads: usize) -> AttentionScratch {
        let _ = (shape, rows, context, threads);
        todo!()
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.data.len() * 4
    }
}

/// Writes every row's keys and values to its page, then `out[row] = softmax(scale·q·K)·V` over
/// the positions `<= pos` that its window admits. `q` is `[rows, heads·head_dim]`, `k` and `v`
/// `[rows, kv_heads·head_dim]`, or none where the pages are another layer's (shared K/V);
/// with `q8` the 8-bit form of `out` is made too.
///
/// # Panics
/// If a row's position has no page in its table.
#[expect(clippy::too_many_arguments, reason = "one operation, named operands")]
pub fn attention(
    ctx: &Ctx,
    shape: &Attend,
    rows: &[AttendRow],
    tables: &[&[u32]],
    q: &Mat,
    kv: Option<(&Mat, &Mat)>,
    pool: &mut Pool,
    scratch: &mut AttentionScratch,
    out: &mut Act,
    q8: bool,
) {
    let _ = (ctx, shape, rows, tables, q, kv, pool, scratch, out, q8);
    todo!()
}
