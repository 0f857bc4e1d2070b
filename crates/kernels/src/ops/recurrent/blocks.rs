//! A product with a block-diagonal matrix.
use super::Ctx;
use crate::mat::Mat;

/// For each of `blocks` stretches of columns `out = weights · x + bias` of that stretch, where
/// `weights` are `[blocks, in, out]` and inputs are summed in order. `out` takes `x`'s row count.
///
/// # Panics
/// If the shapes differ.
pub fn block_diagonal(
    ctx: &Ctx,
    blocks: usize,
    weights: &[f32],
    bias: &[f32],
    x: &Mat,
    out: &mut Mat,
) {
    let (rows, cols) = (x.rows(), x.cols());
    assert!(blocks > 0 && cols.is_multiple_of(blocks), "{blocks} blocks of {cols} columns");
    let n = cols / blocks;
    assert!(weights.len() == cols * n && bias.len() == cols && out.cols() == cols, "the shapes");
    out.resize(rows);
    let out = out.shared();
    ctx.each_row(rows * blocks, n * n, |i| {
        let (row, at) = (i / blocks, i % blocks * n);
        // SAFETY: a stretch of a row is one task's.
        let y = unsafe { out.part(row, at, n) };
        y.copy_from_slice(&bias[at..at + n]);
        for (j, x) in x.row(row)[at..at + n].iter().enumerate() {
            // SAFETY: the tier is usable, lengths agree.
            unsafe { (ctx.kernels.add)(&weights[(at + j) * n..(at + j + 1) * n], *x, y) };
        }
    });
}
