//! Softmax attention over pages of keys and values.
//! Vaswani et al. 2017, arXiv:1706.03762; GQA, arXiv:2305.13245; paging, arXiv:2309.06180;
//! the online softmax, arXiv:1805.02867.
mod enter;
mod leave;
mod prepare;
mod work;
mod write;

use super::chain::alone;
use super::{Chain, ChosenSlot, Ctx, Stage};
use crate::act::{self, Act, ActSlot};
use crate::kv::{KvKind, KvShape, PAGE, Reach, Sight};
use crate::mat::{Mat, Seen, Slot, apart};
pub use prepare::Heads;
use prepare::{HeadsFirst, Prepare};
pub use work::Places;
use work::Work;
pub(crate) use write::Write;

/// The shape of an attention.
#[derive(Clone, Copy, Debug)]
pub struct Attend<'a> {
    /// Query heads; head `h` reads K/V head `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of a query or key head.
    pub head_dim: usize,
    /// Elements of a value head.
    pub v_dim: usize,
    /// Multiplies q·k.
    pub scale: f32,
    /// By query head: what is added to a score for each position that the key is nearer.
    /// Press et al. 2021, arXiv:2108.12409.
    pub slopes: Option<&'a [f32]>,
    /// Which keys a query sees.
    pub reach: Reach,
    /// Whether it sees none after its own: else the rows of a sequence are all of it, in one batch.
    pub causal: bool,
    /// `cap · tanh(score / cap)` before the mask.
    pub softcap: Option<f32>,
    /// By query head: a score without a value that joins the softmax.
    /// Xiao et al. 2023, arXiv:2309.17453.
    pub sinks: Option<&'a [f32]>,
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

/// Rows that go through a page together: with any number of heads, whole tiles of lines.
const BLOCK: usize = 24;

/// Partial results between phases, sized once.
pub struct AttentionScratch {
    blocks: Vec<Block>,
    /// Maximum and sum of every head of every row.
    stats: Vec<f32>,
    /// Shares of pages that wait to be merged.
    shares: Vec<f32>,
    /// The values of a sink: zeros.
    nothing: Vec<f32>,
    /// Queries in 8 bits, where pages are: a block's of one K/V head after another's.
    queries: Vec<act::Block>,
}

/// Consecutive rows of one sequence, and the pages that they see.
#[derive(Clone, Copy)]
struct Block {
    row: usize,
    rows: usize,
    /// Positions of the sequence, if rows see later ones than their own.
    len: Option<usize>,
    page: usize,
    pages: usize,
    /// Pages of the blocks before it.
    before: usize,
}

impl AttentionScratch {
    /// For batches of up to `rows` rows over up to `context` positions, on `threads` threads.
    pub fn new(
        shape: &Attend<'_>,
        kind: KvKind,
        rows: usize,
        context: usize,
        threads: usize,
    ) -> AttentionScratch {
        let rows = rows.max(1);
        let group = shape.heads / shape.kv_heads;
        let pages = context.div_ceil(PAGE) * shape.kv_heads * rows;
        // As many shares of one row as keep the threads busy, but a block's for each at least.
        let shares = (rows.min(BLOCK) * threads).max(pages.min(32 * threads));
        AttentionScratch {
            blocks: Vec::with_capacity(rows),
            stats: vec![0.0; 2 * rows * shape.heads],
            shares: vec![0.0; shares * group * (shape.v_dim + 2)],
            nothing: vec![0.0; shape.v_dim],
            queries: match kind {
                KvKind::Q8 => act::Block::zeroed(rows * shape.heads * shape.query_blocks()),
                _ => Vec::new(),
            },
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let floats = [&self.stats, &self.shares, &self.nothing].map(Vec::len);
        let blocks = size_of::<Block>() * self.blocks.capacity() + size_of_val(&*self.queries);
        blocks + 4 * floats.iter().sum::<usize>()
    }
}

/// Writes every row's keys and values to its page, then `out[row] = softmax(scale·q·K)·V` over
/// the positions `<= pos`, or of the whole sequence, within its reach and, where there is a choice,
/// among those that it chose.
/// `q` is `[rows, heads·head_dim]`, `k` `[rows, kv_heads·head_dim]` and `v` `[rows, kv_heads·v_dim]`,
/// or none where the pages are another layer's (shared K/V); with `q8` the 8-bit form of `out` is
/// made too. Pages that no row sees may be missing from the
/// tables, as any number.
///
/// # Panics
/// If the shapes differ, the scratch is too small, a position that is written or seen has no
/// page, or rows that see later ones do not begin their sequence.
#[expect(clippy::too_many_arguments, reason = "one operation, named operands")]
pub fn attention(
    ctx: &Ctx,
    shape: &Attend<'_>,
    places: Places<'_>,
    q: &Mat,
    kv: Option<(&Mat, &Mat)>,
    scratch: &mut AttentionScratch,
    out: &mut Act,
    q8: bool,
) {
    let out = out.lend(ctx, places.rows.len(), q8);
    let kv = kv.map(|(k, v)| (k.into(), v.into()));
    alone(ctx, Work::new(ctx, *shape, places, (q.into(), kv), scratch, out));
}

impl<'a> Chain<'a> {
    /// What queries, keys and values go through before they meet, in place, then an attention, as of
    /// [`attention()`].
    ///
    /// # Panics
    /// As [`attention()`] does.
    pub fn attention(
        &mut self,
        (heads, shape): (Heads<'a>, Attend<'a>),
        places: Places<'a>,
        q: Slot<'a>,
        kv: Option<(Slot<'a>, Slot<'a>)>,
        scratch: &'a mut AttentionScratch,
        out: ActSlot<'a>,
    ) {
        let prepare = Prepare::new(heads, q, kv);
        let seen = kv.map(|(k, v)| (k.into(), v.into()));
        let work = Work::new(self.ctx(), shape, places, (q.into(), seen), scratch, out);
        let (work, before) = work.with(prepare, self.watched());
        if let Some(prepare) = before.filter(Prepare::does_something) {
            self.push(Stage::Heads, HeadsFirst(prepare));
        }
        self.push(Stage::Attention, work);
    }
}

impl Attend<'_> {
    /// Over all earlier positions, of scores as they are; values are as wide as keys.
    pub fn plain(heads: usize, kv_heads: usize, head_dim: usize, scale: f32) -> Attend<'static> {
        let (v_dim, reach, causal) = (head_dim, Reach::All, true);
        let (slopes, softcap, sinks) = (None, None, None);
        Attend { heads, kv_heads, head_dim, v_dim, scale, slopes, reach, causal, softcap, sinks }
    }
    /// What its pages keep of a position.
    pub fn keeps(&self) -> KvShape {
        KvShape { heads: self.kv_heads, k_dim: self.head_dim, v_dim: self.v_dim }
    }
    /// Blocks of a query's 8-bit form.
    fn query_blocks(&self) -> usize {
        self.head_dim.div_ceil(act::BLOCK)
    }
    /// Query heads to a K/V head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    fn check(
        &self,
        places: &Places<'_>,
        (q, kv): (Seen<'_>, Option<(Seen<'_>, Seen<'_>)>),
        out: Slot<'_>,
    ) {
        let Attend { heads, kv_heads, head_dim, v_dim, .. } = *self;
        let Places { rows, tables, chosen, pool } = places;
        let grouped = kv_heads > 0 && heads > 0 && heads.is_multiple_of(kv_heads);
        let wide = head_dim > 0 && v_dim > 0;
        assert!(grouped && wide, "{heads} heads of {head_dim} and {v_dim} over {kv_heads}");
        assert!(!matches!(self.reach, Reach::Window(0) | Reach::Chunk(0)), "a window of nothing");
        let each = |x: Option<&[f32]>| x.is_none_or(|x| x.len() == heads);
        assert!(each(self.sinks) && each(self.slopes), "a sink and a slope for each head");
        assert_eq!(pool.shape(), self.keeps(), "the pages are of another shape");
        assert_eq!((q.rows(), q.cols()), (rows.len(), heads * head_dim), "queries");
        assert_eq!((out.rows(), out.cols()), (rows.len(), heads * v_dim), "output");
        let (k, v) = kv.unwrap_or((q, q));
        apart([*out], [q, k, v]);
        for (x, dim) in kv.into_iter().flat_map(|(k, v)| [(k, head_dim), (v, v_dim)]) {
            assert_eq!((x.rows(), x.cols()), (rows.len(), kv_heads * dim), "keys and values");
        }
        let longest = rows.iter().map(|row| row.pos + 1).max().unwrap_or(0);
        assert!(chosen.is_none_or(|c| c.fits(rows.len(), longest)), "the choice is of fewer rows");
        assert!(chosen.is_none() || self.reach == Reach::All, "a choice within a window");
        assert!(chosen.is_none() || self.causal, "a choice of later positions");
        for row in *rows {
            let pages = tables.get(row.table).map_or(0, Vec::len);
            assert!(row.pos / PAGE < pages, "position {} has no page", row.pos);
        }
    }
}

/// Cuts the batch into blocks; returns the rows of the largest.
fn cut(blocks: &mut Vec<Block>, rows: &[AttendRow], reach: Reach, causal: bool) -> usize {
    blocks.clear();
    let (mut before, mut from) = (0, 0);
    // The end of the sequence that the last block was of.
    let (mut end, mut positions) = (0, None);
    while from < rows.len() {
        let first = rows[from];
        if from >= end && !causal {
            assert_eq!(first.pos, 0, "rows that see later ones begin their sequence");
            end = from + following(&rows[from..]);
            positions = Some(end - from);
        }
        let len = following(&rows[from..rows.len().min(from + BLOCK)]);
        let sight = Sight { pos: first.pos, reach, len: positions, page: 0, chosen: None };
        let page = sight.since(0) / PAGE;
        let pages = (sight.until(len - 1) - 1) / PAGE + 1 - page;
        blocks.push(Block { row: from, rows: len, len: positions, page, pages, before });
        before += pages;
        from += len;
    }
    blocks.iter().map(|block| block.rows).max().unwrap_or(0)
}

/// How many of the first rows follow each other in one sequence.
fn following(rows: &[AttendRow]) -> usize {
    let first = rows[0];
    let follows =
        |(i, row): &(usize, &AttendRow)| row.table == first.table && row.pos == first.pos + i;
    rows.iter().enumerate().take_while(follows).count()
}
