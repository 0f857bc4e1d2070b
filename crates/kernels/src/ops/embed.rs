//! Embedding look-up.
use super::Ctx;
use crate::layout::Packed;
use crate::mat::Mat;

/// `out[i] = scale · table[ids[i]]`; `out` takes `ids`' length as its row count.
///
/// # Panics
/// If an id is outside the table, or `out` is not as wide.
pub fn embed(ctx: &Ctx, table: &Packed, ids: &[u32], scale: f32, out: &mut Mat) {
    assert_eq!(out.cols(), table.cols(), "the output's width against the table's");
    out.resize(ids.len());
    let (cols, out) = (out.cols(), out.shared());
    ctx.each_row(ids.len(), cols, |i| {
        // SAFETY: a row is one task's.
        let row = unsafe { out.part(i, 0, cols) };
        table.row(ids[i] as usize, row);
        for x in row {
            *x *= scale;
        }
    });
}
