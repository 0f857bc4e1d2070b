//! Activations: f32 rows, and their 8-bit form of one f32 scale per 32 inputs.
//!
//! For each block of 32: `scale = max|x| / 127`, `q = round_ties_even(x · (127 / max|x|))` (zero
//! for a block below 1e-36), `minus` the negated sum of `q`, `fsum = scale · Σq`.
//! A row whose length is no multiple of 32 is padded with zeros. A block that holds an infinity or
//! a NaN has NaN for its scale, so that it shows in the product.
//!
//! The 8-bit form lies as a tier's tiles read it: rows in groups of as many as a tile holds, and
//! within a group block after block, row after row. What is left over goes by fours, twos and ones.
use crate::mat::{Lent, Mat, Rows, Slot};
use crate::ops::Ctx;
use std::mem::ManuallyDrop;
use std::ops::Range;

/// Inputs to an activation block.
pub const BLOCK: usize = 32;

/// What is below this in magnitude is brought to 8 bits as zero: 127 divided by it must be finite.
pub(crate) const SMALLEST: f32 = 1e-36;

/// The 8-bit form of 32 inputs of a row.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(4))]
pub struct Block {
    /// Codes, -127..=127.
    pub q: [i8; BLOCK],
    /// What a code is multiplied by.
    pub scale: f32,
    /// The scaled sum: what multiplies a weight block's minimum.
    pub fsum: f32,
    /// The negated sum of the codes: what multiplies a weight code's offset.
    pub minus: i32,
    /// As `minus` for each half, times 32, which is the offset of the layout that reads it.
    pub minus_32: [i32; 2],
}

impl Block {
    /// `len` of them, which the system supplies as they are first touched.
    pub(crate) fn zeroed(len: usize) -> Vec<Block> {
        type Words = [u32; size_of::<Block>() / 4];
        const { assert!(size_of::<Words>() == size_of::<Block>() && align_of::<Block>() == 4) };
        let mut words = ManuallyDrop::new(vec![<Words>::default(); len]);
        // SAFETY: of one size and alignment, and zeros are a block.
        unsafe { Vec::from_raw_parts(words.as_mut_ptr().cast(), len, words.capacity()) }
    }
}

/// A stretch of one row's 8-bit form, to write: `len` blocks, each `step` after the one before.
pub struct QuantRow<'a> {
    blocks: &'a Lent<'a, Block>,
    first: usize,
    step: usize,
    len: usize,
}

impl<'a> QuantRow<'a> {
    /// All `len` blocks of row `row` of `rows`, for tiles of up to `group`.
    ///
    /// # Safety
    /// No other live reference overlaps it.
    pub(crate) unsafe fn of(
        blocks: &'a Lent<'a, Block>,
        (group, rows, row): (usize, usize, usize),
        len: usize,
    ) -> QuantRow<'a> {
        let (first, step) = place(group, rows, len, row);
        QuantRow { blocks, first, step, len }
    }
    /// Block `i`.
    ///
    /// # Panics
    /// If there is no such block.
    pub(crate) fn block(&mut self, i: usize) -> &mut Block {
        assert!(i < self.len, "block {i} of {}", self.len);
        // SAFETY: whoever made this promised that no other reference overlaps it.
        unsafe { &mut self.blocks.part(self.first + i * self.step, 1)[0] }
    }
}

/// A batch of activations `[rows, cols]`, in f32 and, when asked for, in 8 bits; of what
/// [`crate::ops::gated`] makes, in 8 bits alone.
#[derive(Default)]
pub struct Act {
    pub(crate) f32: Mat,
    q: Vec<Block>,
    /// Rows to a group of the 8-bit form; 0 while that is stale.
    group: usize,
    /// Whether only the 8-bit form was made.
    only_q8: bool,
}

impl Act {
    /// Room for `capacity` rows of `cols`.
    pub fn new(capacity: usize, cols: usize) -> Act {
        let blocks = capacity * cols.div_ceil(BLOCK);
        let q = Block::zeroed(blocks);
        Act { f32: Mat::new(capacity, cols), q, group: 0, only_q8: false }
    }
    /// Sets the number of rows in use.
    pub fn resize(&mut self, rows: usize) {
        self.f32.resize(rows);
        (self.group, self.only_q8) = (0, false);
    }
    /// Number of rows in use.
    pub fn rows(&self) -> usize {
        self.f32.rows()
    }
    /// Elements to a row.
    pub fn cols(&self) -> usize {
        self.f32.cols()
    }
    /// Blocks of 32 to a row.
    pub fn blocks(&self) -> usize {
        self.cols().div_ceil(BLOCK)
    }
    /// The f32 rows.
    ///
    /// # Panics
    /// If only the 8-bit form was made.
    pub fn view(&self) -> Rows<'_> {
        assert!(self.exact(), "the f32 rows were not made");
        self.f32.view()
    }
    /// The f32 rows, as a matrix.
    ///
    /// # Panics
    /// If only the 8-bit form was made.
    pub(crate) fn exact_rows(&self) -> &Mat {
        assert!(self.exact(), "the f32 rows were not made");
        &self.f32
    }
    /// Whether the f32 rows were made.
    pub(crate) fn exact(&self) -> bool {
        !self.only_q8
    }
    /// The f32 rows, to write; the 8-bit form is then stale until [`Act::quantise`].
    pub fn f32_mut(&mut self) -> &mut Mat {
        (self.group, self.only_q8) = (0, false);
        &mut self.f32
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.f32.bytes() + size_of_val(&*self.q)
    }
    /// Row `i`'s 8-bit form.
    ///
    /// # Panics
    /// If it is stale, or there is no such row.
    pub fn quantised(&self, i: usize) -> impl Iterator<Item = &Block> {
        assert!(self.group > 0, "8-bit activations were not prepared");
        assert!(i < self.rows(), "row {i} of {}", self.rows());
        let (first, step) = place(self.group, self.rows(), self.blocks(), i);
        self.q[first..].iter().step_by(step).take(self.blocks())
    }
    /// Makes the 8-bit form of all rows, rows side by side on the team.
    pub fn quantise(&mut self, ctx: &Ctx) {
        crate::ops::quantise(ctx, self);
    }
    /// Whether the 8-bit form is made, in groups of `group`.
    pub(crate) fn fresh(&self, group: usize) -> bool {
        self.group == group
    }
}

/// What a product reads.
#[derive(Clone, Copy)]
pub struct ActRows<'a> {
    f32: &'a [f32],
    q: &'a [Block],
    rows: usize,
    cols: usize,
}

impl<'a> ActRows<'a> {
    /// Number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }
    /// Elements to a row.
    pub fn cols(self) -> usize {
        self.cols
    }
    /// Blocks of 32 to a row.
    pub fn blocks(self) -> usize {
        self.cols.div_ceil(BLOCK)
    }
    /// Rows of which there is the 8-bit form alone.
    pub(crate) fn of_blocks(q: &'a [Block], rows: usize, cols: usize) -> ActRows<'a> {
        assert!(q.len() >= rows * cols.div_ceil(BLOCK), "{rows} rows of {cols}");
        ActRows { f32: &[], q, rows, cols }
    }
    /// Rows `at`, which begin and end where tiles do.
    pub(crate) fn some(self, at: Range<usize>) -> ActRows<'a> {
        let blocks = self.blocks();
        let f32 = self.f32.get(at.start * self.cols..at.end * self.cols).unwrap_or_default();
        let q = &self.q[at.start * blocks..at.end * blocks];
        ActRows { f32, q, rows: at.len(), ..self }
    }
    /// Where the f32 rows from `row` on are, if there are any.
    pub(crate) fn f32(self, row: usize) -> *const f32 {
        self.f32.get(row * self.cols..).unwrap_or_default().as_ptr()
    }
    /// The 8-bit form of the rows from `row` on, which begins a tile of `rows` if these are a
    /// tile's: block `b` of the tile's row `r` is `b·rows + r` after it.
    pub(crate) fn tile(self, row: usize) -> *const Block {
        self.q[row * self.blocks()..].as_ptr()
    }
}

/// Where a row's first 8-bit block lies, and how far apart its blocks are.
fn place(group: usize, rows: usize, blocks: usize, row: usize) -> (usize, usize) {
    let (first, size) = tile_of(group, rows, row);
    (first * blocks + row - first, size)
}

/// The tile that `row` of `rows` is computed in, where tiles hold up to `most`: its first row, and
/// its rows. What is left after whole tiles goes by fours, twos and ones.
pub(crate) fn tile_of(most: usize, rows: usize, row: usize) -> (usize, usize) {
    let whole = rows / most * most;
    if row < whole {
        return (row / most * most, most);
    }
    let mut first = whole;
    for size in [4, 2] {
        if rows - first >= size {
            if row < first + size {
                return (first, size);
            }
            first += size;
        }
    }
    (row, 1)
}

/// An [`Act`] lent to the operations of a [chain](crate::ops::Chain), as a [`Slot`] is.
#[derive(Clone, Copy)]
pub struct ActSlot<'a> {
    f32: Slot<'a>,
    q: Lent<'a, Block>,
    group: usize,
    blocks: usize,
    /// Whether the 8-bit form is made with the f32 rows.
    q8: bool,
    /// Whether the f32 rows are.
    exact: bool,
}

impl Act {
    /// Lends `rows` rows, of which whoever writes them makes the 8-bit form, too, if `q8`.
    ///
    /// # Panics
    /// Beyond the capacity.
    pub fn lend(&mut self, ctx: &Ctx, rows: usize, q8: bool) -> ActSlot<'_> {
        self.resize(rows);
        self.shared(ctx.kernels.tile, q8)
    }
    /// The rows to write, and their 8-bit form for tiles of up to `group` rows, which counts as
    /// made if `q8`.
    pub(crate) fn shared(&mut self, group: usize, q8: bool) -> ActSlot<'_> {
        self.group = if q8 { group } else { 0 };
        self.only_q8 = false;
        self.made(group)
    }
    /// Lends the rows as they were made.
    pub fn slot(&mut self, ctx: &Ctx) -> ActSlot<'_> {
        self.made(ctx.kernels.tile)
    }
    fn made(&mut self, group: usize) -> ActSlot<'_> {
        let (q8, exact, blocks) = (self.fresh(group), self.exact(), self.blocks());
        ActSlot { f32: self.f32.slot(), q: Lent::new(&mut self.q), group, blocks, q8, exact }
    }
    /// Says that the f32 rows were not written, so that nobody reads them.
    pub(crate) fn forget_f32(&mut self) {
        self.only_q8 = true;
    }
}

impl<'a> ActSlot<'a> {
    /// The f32 rows.
    pub fn f32(&self) -> Slot<'a> {
        self.f32
    }
    /// Whether the 8-bit form is made with the f32 rows.
    pub fn q8(&self) -> bool {
        self.q8
    }
    /// Whether the f32 rows are made.
    pub(crate) fn exact(&self) -> bool {
        self.exact
    }
    /// The same, of which whoever writes the rows makes the 8-bit form, too, if `q8`.
    pub fn in_forms(self, q8: bool) -> ActSlot<'a> {
        ActSlot { q8, ..self }
    }
    /// The same without the f32 rows.
    pub(crate) fn without_f32(self) -> ActSlot<'a> {
        ActSlot { exact: false, ..self }
    }
    /// Rows whose 8-bit form is grouped as if they were all.
    ///
    /// # Panics
    /// Outside the batch.
    pub(crate) fn part(&self, rows: Range<usize>) -> ActSlot<'a> {
        ActSlot {
            f32: self.f32.some(rows.clone()),
            q: self.q.within(rows.start * self.blocks, rows.len() * self.blocks),
            ..*self
        }
    }
    /// Blocks of 32 to a row.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }
    /// All rows, to multiply.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    pub(crate) unsafe fn seen(&self) -> ActRows<'a> {
        let (rows, cols) = (self.f32.rows(), self.f32.cols());
        let (f32, q) = (self.f32.seen(), self.q.at(0, rows * self.blocks));
        // SAFETY: in bounds; only read, by the caller's promise.
        unsafe {
            let q = std::slice::from_raw_parts(q, rows * self.blocks);
            ActRows { f32: f32.stretch(0, 0, rows * cols), q, rows, cols }
        }
    }
    /// The 8-bit form of blocks `from..from + count` of row `i`, if it is made.
    ///
    /// # Safety
    /// No other live reference overlaps it.
    pub(crate) unsafe fn codes(&self, i: usize, from: usize, count: usize) -> Option<QuantRow<'_>> {
        // SAFETY: passed on.
        self.q8.then(|| unsafe { self.quantised(i, from, count) })
    }
    /// The same, whether it is made or not.
    ///
    /// # Safety
    /// As [`ActSlot::codes`].
    pub(crate) unsafe fn quantised(&self, i: usize, from: usize, count: usize) -> QuantRow<'_> {
        assert!(i < self.f32.rows() && from + count <= self.blocks);
        let (first, step) = place(self.group, self.f32.rows(), self.blocks, i);
        QuantRow { blocks: &self.q, first: first + from * step, step, len: count }
    }
}
