//! Gates of an attention's output. Qiu et al. 2025, arXiv:2505.06708.
use super::glu::unit;
use super::{Ctx, Glu};
use crate::act::{Act, BLOCK};
use crate::mat::Mat;

/// `out = x · sigmoid(gate)`: a gate for each element, or for each stretch of elements of one
/// length; `out` takes `x`'s row count. With `q8` the 8-bit form is made in the same pass.
///
/// # Panics
/// If the shapes differ.
pub fn gate_heads(ctx: &Ctx, gates: &Mat, x: &Act, out: &mut Act, q8: bool) {
    let (rows, cols, heads) = (x.rows(), x.cols(), gates.cols());
    assert_eq!(cols, out.cols(), "input and output are of one width");
    assert!(cols.is_multiple_of(heads), "{heads} gates to {cols} columns");
    assert_eq!(gates.rows(), rows, "gates of as many rows");
    out.resize(rows);
    let (x, head_dim) = (x.view(), cols / heads);
    let out = out.shared(ctx.kernels.tile, q8);
    ctx.each_chunk(rows, cols, |i, from, len| {
        let gates = gates.row(i);
        for from in (from..from + len).step_by(BLOCK) {
            let len = BLOCK.min(cols - from);
            let mut own = [0.0; BLOCK];
            own[..len]
                .iter_mut()
                .enumerate()
                .for_each(|(j, own)| *own = gates[(from + j) / head_dim]);
            // SAFETY: the tier is usable, lengths agree; chunks are disjoint and whole blocks.
            unsafe {
                let y = out.f32().part(i, from, len);
                let codes = q8.then(|| out.quantised(i, from / BLOCK, 1));
                unit(ctx, Glu::Sigmoid, &own[..len], &x.row(i)[from..from + len], y, codes);
            }
        }
    });
}
