//! A product with a block-diagonal matrix.
use crate::mat::{Mat, Seen, Slot, apart};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Stage, by_rows, few};
use crate::team::Worker;

/// For each of `blocks` stretches of columns `out = weights · x + bias` of that stretch, where
/// `weights` are `[blocks, in, out]` and inputs are summed in order. `out` takes `x`'s row count.
///
/// # Panics
/// If the shapes differ.
pub fn block_diagonal(
    ctx: &Ctx,
    blocks: usize,
    (weights, bias): (&[f32], &[f32]),
    x: &Mat,
    out: &mut Mat,
) {
    let out = out.lend(x.rows());
    alone(ctx, Blocks::new(blocks, (weights, bias), x.into(), out));
}

/// The same, as an operation.
struct Blocks<'a> {
    blocks: usize,
    weights: &'a [f32],
    bias: &'a [f32],
    x: Seen<'a>,
    out: Slot<'a>,
}

impl<'a> Blocks<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(
        blocks: usize,
        (weights, bias): (&'a [f32], &'a [f32]),
        x: Seen<'a>,
        out: Slot<'a>,
    ) -> Blocks<'a> {
        let cols = x.cols();
        assert!(blocks > 0 && cols.is_multiple_of(blocks), "{blocks} blocks of {cols} columns");
        let square = weights.len() == cols * (cols / blocks) && bias.len() == cols;
        assert!(square && (out.rows(), out.cols()) == (x.rows(), cols), "the shapes");
        apart([*out], [x]);
        Blocks { blocks, weights, bias, x, out }
    }
}

// SAFETY: a stretch of a row is one task's.
unsafe impl Phases for Blocks<'_> {
    fn few(&self, least: usize) -> bool {
        let n = self.x.cols() / self.blocks;
        few(self.x.rows() * self.blocks, n * n, least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Blocks { blocks, weights, bias, x, out } = self;
        let n = x.cols() / blocks;
        by_rows(worker, x.rows() * blocks, &|i| {
            let (row, at) = (i / blocks, i % blocks * n);
            // SAFETY: passed on, lengths agree.
            unsafe {
                let y = out.part(row, at, n);
                y.copy_from_slice(&bias[at..at + n]);
                for (j, x) in x.row(row)[at..at + n].iter().enumerate() {
                    (ctx.kernels.add)(&weights[(at + j) * n..(at + j + 1) * n], *x, y);
                }
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// `out = weights · x + bias` block by block, as of [`block_diagonal()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn block_diagonal(
        &mut self,
        blocks: usize,
        weights: (&'a [f32], &'a [f32]),
        x: Slot<'a>,
        out: Slot<'a>,
    ) {
        self.push(Stage::State, Blocks::new(blocks, weights, x.into(), out));
    }
}
