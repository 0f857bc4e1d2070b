//! The loops around a tile: which rows and panels, and what becomes of its sums.
use crate::act::{Act, BLOCK};
use crate::isa::Isa;
use crate::layout::PANEL;
use crate::mat::{MatmulTask, Store};
use std::ops::Range;

/// A layout's inner loop.
pub(super) trait Kernel {
    /// Sums that fit in registers, as multiples of [`Isa::TILE`].
    const FIT: usize;
    /// Writes the sums of `R` rows by `V` vectors over all inputs, from a row's `lane` on.
    ///
    /// # Safety
    /// The CPU has `S`; `w` is a panel of this layout, from the tile's first lane on; `x` is the
    /// tile's first row, in the form that the layout reads, with as many inputs.
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(w: Panel, x: Input, y: &mut Sums);
}

/// Bytes of codes that memory is asked for ahead of their use: the CPU's own prefetch ends at each
/// page of 4096.
const AHEAD: usize = 4096;
/// Bytes to a cache line.
const LINE: usize = 64;

/// A panel's bytes, seen from lane `lane` on.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    heads: *const u8,
    codes: *const u8,
    lane: usize,
}

impl Panel {
    /// The scales at `offset`, elements of `N` bytes a lane, of the tile's vector `v`.
    #[inline(always)]
    pub unsafe fn head<S: Isa, const N: usize>(self, offset: usize, v: usize) -> *const u8 {
        // SAFETY: within the heads, by the caller's promise.
        unsafe { self.heads.add(offset + N * (self.lane + v * S::LANES)) }
    }
    /// The codes at `offset`, elements of `N` bytes a lane, of the tile's vector `v`.
    #[inline(always)]
    pub unsafe fn codes<S: Isa, const N: usize>(self, offset: usize, v: usize) -> *const u8 {
        // SAFETY: within the codes, by the caller's promise.
        unsafe { self.codes.add(offset + N * (self.lane + v * S::LANES)) }
    }
    /// Asks for `lines` lines of codes that will be read after those at `offset`.
    #[inline(always)]
    pub unsafe fn codes_ahead<S: Isa>(self, offset: usize, lines: usize) {
        for i in 0..lines {
            // SAFETY: a prefetch may point anywhere.
            unsafe { S::prefetch(self.codes.wrapping_add(offset + AHEAD + LINE * i)) };
        }
    }
    /// As `codes_ahead` for the scales at `offset`, `bytes` of which go with `codes` bytes of codes.
    #[inline(always)]
    pub unsafe fn head_ahead<S: Isa>(self, offset: usize, bytes: usize, codes: usize) {
        for i in 0..bytes.div_ceil(LINE) {
            let ahead = AHEAD * bytes / codes + LINE * i;
            // SAFETY: a prefetch may point anywhere.
            unsafe { S::prefetch(self.heads.wrapping_add(offset + ahead)) };
        }
    }
    /// The tile's first lane.
    #[inline(always)]
    pub fn lane(self) -> usize {
        self.lane
    }
}

/// Activations from one row on.
#[derive(Clone, Copy)]
pub(super) struct Input {
    f32: *const f32,
    q: *const i8,
    scale: *const f32,
    isum: *const i16,
    fsum: *const f32,
    cols: usize,
    blocks: usize,
}

impl Input {
    fn new(x: &Act, row: usize) -> Input {
        let (cols, blocks) = (x.cols(), x.blocks());
        Input {
            f32: x.f32.data()[row * cols..].as_ptr(),
            q: x.q[row * blocks * BLOCK..].as_ptr(),
            scale: x.scale[row * blocks..].as_ptr(),
            isum: x.isum[2 * row * blocks..].as_ptr(),
            fsum: x.fsum[row * blocks..].as_ptr(),
            cols,
            blocks,
        }
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
    /// The four codes of group `g` in block `b`.
    #[inline(always)]
    pub unsafe fn word(self, r: usize, b: usize, g: usize) -> i32 {
        // SAFETY: as above.
        unsafe { self.q.add((r * self.blocks + b) * BLOCK + 4 * g).cast::<i32>().read_unaligned() }
    }
    /// The scale of block `b`.
    #[inline(always)]
    pub unsafe fn scale(self, r: usize, b: usize) -> f32 {
        // SAFETY: as above.
        unsafe { *self.scale.add(r * self.blocks + b) }
    }
    /// The sums of block `b`'s two halves, 16 bits each.
    #[inline(always)]
    pub unsafe fn isum(self, r: usize, b: usize) -> i32 {
        // SAFETY: as above.
        unsafe { self.isum.add(2 * (r * self.blocks + b)).cast::<i32>().read_unaligned() }
    }
    /// The scaled sum of block `b`.
    #[inline(always)]
    pub unsafe fn fsum(self, r: usize, b: usize) -> f32 {
        // SAFETY: as above.
        unsafe { *self.fsum.add(r * self.blocks + b) }
    }
}

/// Batch rows whose inputs together stay in a level-2 cache while panels pass by.
const CHUNK_BYTES: usize = 128 << 10;

/// Computes panels by tiles of `K`.
///
/// # Safety
/// As [`crate::tier::MatmulFn`]; `K` is the kernel of the weights' layout.
#[inline(always)]
pub(super) unsafe fn panels<S: Isa, K: Kernel>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let rows = t.input.rows();
    let chunk = (CHUNK_BYTES / t.input.cols().max(1)).next_multiple_of(S::TILE);
    for from in (0..rows).step_by(chunk) {
        let to = rows.min(from + chunk);
        for p in panels.clone() {
            let mut row = from;
            // SAFETY: rows and panels are within the task's, whose shapes agree.
            unsafe {
                while const { S::TILE >= 8 } && to - row >= 8 {
                    rows_of::<S, K, 8>(t, p, row);
                    row += 8;
                }
                while const { S::TILE == 6 } && to - row >= 6 {
                    rows_of::<S, K, 6>(t, p, row);
                    row += 6;
                }
                while const { S::TILE >= 4 } && to - row >= 4 {
                    rows_of::<S, K, 4>(t, p, row);
                    row += 4;
                }
                while const { S::TILE >= 2 } && to - row >= 2 {
                    rows_of::<S, K, 2>(t, p, row);
                    row += 2;
                }
                while to > row {
                    rows_of::<S, K, 1>(t, p, row);
                    row += 1;
                }
            }
        }
    }
}

/// `R` rows of a panel, as many vectors at a time as the tile holds.
#[inline(always)]
unsafe fn rows_of<S: Isa, K: Kernel, const R: usize>(t: &MatmulTask<'_>, p: usize, row: usize) {
    // SAFETY: passed on.
    unsafe {
        match const { vectors::<S, K>(R) } {
            4 => vectors_of::<S, K, R, 4>(t, p, row),
            2 => vectors_of::<S, K, R, 2>(t, p, row),
            _ => vectors_of::<S, K, R, 1>(t, p, row),
        }
    }
}

/// Vectors to a tile of `rows` rows.
const fn vectors<S: Isa, K: Kernel>(rows: usize) -> usize {
    let (fit, panel) = (K::FIT * S::TILE / rows, PANEL / S::LANES);
    if fit < panel { fit } else { panel }
}

#[inline(always)]
unsafe fn vectors_of<S: Isa, K: Kernel, const R: usize, const V: usize>(
    t: &MatmulTask<'_>,
    p: usize,
    row: usize,
) {
    let (heads, codes) = t.weights.panel(p);
    let (heads, codes) = (heads.as_ptr(), codes.as_ptr());
    let x = Input::new(t.input, row);
    let mut y = [[0.0; PANEL]; ROWS];
    for lane in (0..PANEL).step_by(V * S::LANES) {
        // SAFETY: passed on.
        unsafe { K::tile::<S, R, V>(Panel { heads, codes, lane }, x, &mut y) };
    }
    finish(t, p, row, &y[..R]);
}

/// Rows that a tile may have.
const ROWS: usize = 8;
/// A tile's sums, before bias and store.
pub(super) type Sums = [[f32; PANEL]; ROWS];

/// Writes `R` rows by `V` vectors from a row's `lane` on.
#[inline(always)]
pub(super) unsafe fn store<S: Isa, const R: usize, const V: usize>(
    sums: &mut Sums,
    lane: usize,
    y: &[[S::F; V]; R],
) {
    for r in 0..R {
        for v in 0..V {
            // SAFETY: a tile's lanes are within a panel.
            unsafe { S::store(sums[r].as_mut_ptr().add(lane + v * S::LANES), y[r][v]) };
        }
    }
}

/// Adds the bias to a panel's sums and stores those of outputs that exist.
fn finish(t: &MatmulTask<'_>, p: usize, row: usize, sums: &[[f32; PANEL]]) {
    let n = PANEL * p;
    let lanes = PANEL.min(t.weights.rows() - n);
    let bias = t.bias.map(|bias| &bias[n..n + lanes]);
    for (r, sums) in sums.iter().enumerate() {
        let mut y = *sums;
        if let Some(bias) = bias {
            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
        // SAFETY: tasks write disjoint panels.
        let out = unsafe { t.out.part(row + r, n, lanes) };
        match t.store {
            Store::Set => out.copy_from_slice(&y[..lanes]),
            Store::Add => out.iter_mut().zip(y).for_each(|(out, y)| *out += y),
        }
    }
}
