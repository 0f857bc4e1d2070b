//! Activations: f32 rows, and their 8-bit form of one f32 scale per 32 inputs.
//!
//! For each block of 32: `scale = max|x| / 127`, `q = round_ties_even(x · (127 / max|x|))` (zero
//! for a block below 1e-36), `isum` the sums of `q` over each 16, `fsum = scale · (isum[0] + isum[1])`.
//! A row whose length is no multiple of 32 is padded with zeros. A block that holds an infinity or
//! a NaN has NaN for its scale, so that it shows in the product.
use crate::mat::{Lent, Mat, Rows, Shared};
use crate::ops::Ctx;

/// Inputs to an activation block.
pub const BLOCK: usize = 32;

/// One row's 8-bit form, to write. With `b` blocks: `32b`, `b`, `2b` and `b` elements.
pub struct QuantRow<'a> {
    /// Codes, -127..=127.
    pub q: &'a mut [i8],
    /// Per 32.
    pub scale: &'a mut [f32],
    /// Per 16; a block's two make one 32-bit word for the kernels.
    pub isum: &'a mut [i16],
    /// Per 32: what multiplies a weight block's minimum.
    pub fsum: &'a mut [f32],
}

/// A batch of activations `[rows, cols]`, f32 always and 8-bit when asked for.
#[derive(Default)]
pub struct Act {
    pub(crate) f32: Mat,
    pub(crate) q: Vec<i8>,
    pub(crate) scale: Vec<f32>,
    pub(crate) isum: Vec<i16>,
    pub(crate) fsum: Vec<f32>,
    pub(crate) quantised: bool,
}

impl Act {
    /// Room for `capacity` rows of `cols`.
    pub fn new(capacity: usize, cols: usize) -> Act {
        let blocks = capacity * cols.div_ceil(BLOCK);
        Act {
            f32: Mat::new(capacity, cols),
            q: vec![0; blocks * BLOCK],
            scale: vec![0.0; blocks],
            isum: vec![0; 2 * blocks],
            fsum: vec![0.0; blocks],
            quantised: false,
        }
    }
    /// Sets the number of rows in use.
    pub fn resize(&mut self, rows: usize) {
        self.f32.resize(rows);
        self.quantised = false;
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
    pub fn view(&self) -> Rows<'_> {
        self.f32.view()
    }
    /// The f32 rows, to write; the 8-bit form is then stale until [`Act::quantise`].
    pub fn f32_mut(&mut self) -> &mut Mat {
        self.quantised = false;
        &mut self.f32
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.f32.bytes()
            + self.q.len()
            + 4 * (self.scale.len() + self.fsum.len())
            + 2 * self.isum.len()
    }
    /// Row `i`'s 8-bit codes, scales, sums of 16 and scaled sums of 32.
    ///
    /// # Panics
    /// If the 8-bit form is stale.
    pub fn quantised(&self, i: usize) -> (&[i8], &[f32], &[i16], &[f32]) {
        assert!(self.quantised, "8-bit activations were not prepared");
        let b = self.blocks();
        let at = i * b..(i + 1) * b;
        (
            &self.q[at.start * BLOCK..at.end * BLOCK],
            &self.scale[at.clone()],
            &self.isum[2 * at.start..2 * at.end],
            &self.fsum[at],
        )
    }
    /// Makes the 8-bit form of all rows, rows side by side on the team.
    pub fn quantise(&mut self, ctx: &Ctx) {
        crate::ops::quantise(ctx, self);
    }
}

/// An [`Act`] lent to the tasks of one phase, each of which writes parts that no other touches.
pub(crate) struct SharedAct<'a> {
    f32: Shared<'a>,
    q: Lent<'a, i8>,
    scale: Lent<'a, f32>,
    isum: Lent<'a, i16>,
    fsum: Lent<'a, f32>,
    blocks: usize,
}

impl Act {
    /// The rows to write, and their 8-bit form, which counts as made if `q8`.
    pub(crate) fn shared(&mut self, q8: bool) -> SharedAct<'_> {
        self.quantised = q8;
        let blocks = self.blocks();
        SharedAct {
            f32: self.f32.shared(),
            q: Lent::new(&mut self.q),
            scale: Lent::new(&mut self.scale),
            isum: Lent::new(&mut self.isum),
            fsum: Lent::new(&mut self.fsum),
            blocks,
        }
    }
}

impl<'a> SharedAct<'a> {
    /// The f32 rows.
    pub(crate) fn f32(&self) -> Shared<'a> {
        self.f32
    }
    /// The 8-bit form of blocks `from..from + count` of row `i`.
    ///
    /// # Safety
    /// No other live reference overlaps it.
    pub(crate) unsafe fn quantised(&self, i: usize, from: usize, count: usize) -> QuantRow<'a> {
        assert!(i < self.f32.rows() && from + count <= self.blocks);
        let at = i * self.blocks + from;
        // SAFETY: exclusive by the caller's promise.
        unsafe {
            QuantRow {
                q: self.q.part(at * BLOCK, count * BLOCK),
                scale: self.scale.part(at, count),
                isum: self.isum.part(2 * at, 2 * count),
                fsum: self.fsum.part(at, count),
            }
        }
    }
}
