//! Rows that each count by a weight of their own.
use super::Ctx;
use crate::mat::{Mat, Store};

/// `out[i] (+)= weights[i] · y[i]`; `out` takes `y`'s row count, or has it where it is added to.
///
/// # Panics
/// If the shapes differ.
pub fn weighted(ctx: &Ctx, y: &Mat, weights: &[f32], out: &mut Mat, store: Store) {
    let (rows, cols) = (y.rows(), y.cols());
    if store == Store::Set {
        out.resize(rows);
    }
    let same = (out.rows(), out.cols(), weights.len()) == (rows, cols, rows);
    assert!(same, "rows, weights and output are of one shape");
    let out = out.shared();
    ctx.each_row(rows, cols, |i| {
        // SAFETY: the tier is usable, lengths agree; a row is one task's.
        unsafe {
            let row = out.part(i, 0, cols);
            if store == Store::Set {
                row.fill(0.0);
            }
            (ctx.kernels.add)(y.row(i), weights[i], row);
        }
    });
}
