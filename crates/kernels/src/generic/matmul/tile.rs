//! The loops around a tile: which rows and panels, and what becomes of its sums.
use crate::act::{ActRows, Block, tile_of};
use crate::isa::Isa;
use crate::layout::PANEL;
use crate::mat::{MatmulTask, Store};
use std::ops::Range;

/// A layout's inner loop.
pub(super) trait Kernel {
    /// The sums of `R` rows by `V` vectors over all inputs.
    ///
    /// # Safety
    /// The CPU has `S`; `w` is a panel of this layout, from the tile's first lane on; `x` is the
    /// tile's rows, in the form that the layout reads, with as many inputs.
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(w: Panel, x: Input<R>)
    -> [[S::F; V]; R];
}

/// A panel's bytes, seen from lane `lane` on.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    data: *const u8,
    lane: usize,
}

impl Panel {
    /// What lies at `offset`, elements of `N` bytes a lane, of the tile's vector `v`.
    #[inline(always)]
    pub unsafe fn at<S: Isa, const N: usize>(self, offset: usize, v: usize) -> *const u8 {
        // SAFETY: within the panel, by the caller's promise.
        unsafe { self.data.add(offset + N * (self.lane + v * S::LANES)) }
    }
    /// All lanes' bytes.
    #[inline(always)]
    pub fn data(self) -> *const u8 {
        self.data
    }
    /// The tile's first lane.
    #[inline(always)]
    pub fn lane(self) -> usize {
        self.lane
    }
}

/// Activations of a tile's `R` rows.
#[derive(Clone, Copy)]
pub(super) struct Input<const R: usize> {
    f32: *const f32,
    q: *const Block,
    cols: usize,
    blocks: usize,
}

impl<const R: usize> Input<R> {
    fn new(x: ActRows<'_>, row: usize) -> Self {
        let (cols, blocks) = (x.cols(), x.blocks());
        Input { f32: x.f32(row), q: x.tile(row), cols, blocks }
    }
    /// Inputs to a row.
    #[inline(always)]
    pub fn cols(self) -> usize {
        self.cols
    }
    /// Blocks of 32 to a row.
    #[inline(always)]
    pub fn blocks(self) -> usize {
        self.blocks
    }
    /// Input `k` of row `r`.
    #[inline(always)]
    pub unsafe fn f32(self, r: usize, k: usize) -> f32 {
        // SAFETY: this and the following read within the rows, by the caller's promise.
        unsafe { *self.f32.add(r * self.cols + k) }
    }
    /// Block `b` of row `r`.
    #[inline(always)]
    unsafe fn block(self, r: usize, b: usize) -> *const Block {
        // SAFETY: as above.
        unsafe { self.q.add(b * R + r) }
    }
    /// The four codes of group `g` in block `b`.
    #[inline(always)]
    pub unsafe fn word(self, r: usize, b: usize, g: usize) -> i32 {
        // SAFETY: as above; a block's codes lie first in it, aligned.
        unsafe { *self.block(r, b).cast::<i32>().add(g) }
    }
    /// The scale of block `b`.
    #[inline(always)]
    pub unsafe fn scale(self, r: usize, b: usize) -> f32 {
        // SAFETY: as above.
        unsafe { (*self.block(r, b)).scale }
    }
    /// The negated sum of block `b`.
    #[inline(always)]
    pub unsafe fn minus(self, r: usize, b: usize) -> i32 {
        // SAFETY: as above.
        unsafe { (*self.block(r, b)).minus }
    }
    /// The negated sum of half `h` of block `b`, times 32.
    #[inline(always)]
    pub unsafe fn minus_32(self, r: usize, b: usize, h: usize) -> i32 {
        // SAFETY: as above.
        unsafe { (*self.block(r, b)).minus_32[h] }
    }
    /// The scaled sum of block `b`.
    #[inline(always)]
    pub unsafe fn fsum(self, r: usize, b: usize) -> f32 {
        // SAFETY: as above.
        unsafe { (*self.block(r, b)).fsum }
    }
}

/// Inputs, of batch rows together, that stay in a level-2 cache while panels pass by: of 1.6 bytes
/// in 8-bit form.
const CHUNK: usize = 128 << 10;

/// Computes panels by tiles of `K`.
///
/// # Safety
/// As [`crate::tier::MatmulFn`]; `K` is the kernel of the weights' layout.
#[inline(always)]
pub(super) unsafe fn panels<S: Isa, K: Kernel>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let rows = t.input.rows();
    const { assert!(matches!(S::TILE, 1 | 2 | 4 | 6 | 8), "every size has its arm below") };
    let chunk = (CHUNK / t.input.cols().max(1)).max(1).next_multiple_of(S::TILE);
    for from in (0..rows).step_by(chunk) {
        let to = rows.min(from + chunk);
        for p in panels.clone() {
            let mut row = from;
            while row < to {
                let (_, size) = tile_of(S::TILE, rows, row);
                // SAFETY: rows and panels are within the task's, whose shapes agree; no tile is of
                // more rows than `S` holds.
                unsafe {
                    match size {
                        8 if const { S::TILE == 8 } => rows_of::<S, K, 8>(t, p, row),
                        6 if const { S::TILE == 6 } => rows_of::<S, K, 6>(t, p, row),
                        4 if const { S::TILE >= 4 } => rows_of::<S, K, 4>(t, p, row),
                        2 if const { S::TILE >= 2 } => rows_of::<S, K, 2>(t, p, row),
                        _ => rows_of::<S, K, 1>(t, p, row),
                    }
                }
                row += size;
            }
        }
    }
}

/// `R` rows of a panel, as many vectors at a time as the tile holds.
#[inline(always)]
unsafe fn rows_of<S: Isa, K: Kernel, const R: usize>(t: &MatmulTask<'_>, p: usize, row: usize) {
    // SAFETY: passed on.
    unsafe {
        match const { vectors::<S>(R) } {
            4 => vectors_of::<S, K, R, 4>(t, p, row),
            2 => vectors_of::<S, K, R, 2>(t, p, row),
            _ => vectors_of::<S, K, R, 1>(t, p, row),
        }
    }
}

/// Vectors to a tile of `rows` rows.
const fn vectors<S: Isa>(rows: usize) -> usize {
    let (fit, panel) = (S::TILE / rows, PANEL / S::LANES);
    if fit < panel { fit } else { panel }
}

#[inline(always)]
unsafe fn vectors_of<S: Isa, K: Kernel, const R: usize, const V: usize>(
    t: &MatmulTask<'_>,
    p: usize,
    row: usize,
) {
    let data = t.weights.panel(p).as_ptr();
    let x = Input::<R>::new(t.input, row);
    for lane in (0..PANEL).step_by(V * S::LANES) {
        let n = PANEL * p + lane;
        let left = t.weights.rows().saturating_sub(n);
        // SAFETY: passed on.
        unsafe {
            let y = K::tile::<S, R, V>(Panel { data, lane }, x);
            if left >= V * S::LANES {
                whole::<S, R, V>(t, (row, n), y);
            } else if left > 0 {
                part::<S, R, V>(t, (row, n), left, y);
            }
        }
    }
}

/// Adds the bias to a tile's sums and stores them.
#[inline(always)]
unsafe fn whole<S: Isa, const R: usize, const V: usize>(
    t: &MatmulTask<'_>,
    (row, n): (usize, usize),
    y: [[S::F; V]; R],
) {
    for r in 0..R {
        let out = t.out.at(row + r, n - t.first, V * S::LANES);
        for v in 0..V {
            let mut y = y[r][v];
            // SAFETY: there are as many outputs, and their panel is this task's.
            unsafe {
                if let Some(bias) = t.bias {
                    y = S::add(y, S::load(bias.as_ptr().add(n + v * S::LANES)));
                }
                let out = out.add(v * S::LANES);
                match t.store {
                    Store::Set => S::store(out, y),
                    Store::Add => S::store(out, S::add(S::load(out), y)),
                }
            }
        }
    }
}

/// As `whole` where only the first `lanes` outputs exist.
#[cold]
#[inline(never)]
unsafe fn part<S: Isa, const R: usize, const V: usize>(
    t: &MatmulTask<'_>,
    (row, n): (usize, usize),
    lanes: usize,
    y: [[S::F; V]; R],
) {
    for r in 0..R {
        let mut sums = [0.0; PANEL];
        for v in 0..V {
            // SAFETY: a tile's lanes are at most a panel's.
            unsafe { S::store(sums.as_mut_ptr().add(v * S::LANES), y[r][v]) };
        }
        // SAFETY: the panel is this task's.
        let out = unsafe { t.out.part(row + r, n - t.first, lanes) };
        for (i, (out, y)) in out.iter_mut().zip(sums).enumerate() {
            let y = t.bias.map_or(y, |bias| y + bias[n + i]);
            *out = if t.store == Store::Add { *out + y } else { y };
        }
    }
}
