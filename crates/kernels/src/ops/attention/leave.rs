//! How results leave an attention.
use super::BLOCK;
use super::work::Work;
use crate::act;
use crate::kv::{MergeTask, Shares};
use crate::ops::Ctx;
use crate::team::Worker;
use std::ops::Range;

impl Work<'_> {
    /// Divides some heads of a row by their sums, puts them where they belong, and makes their 8-bit
    /// form where they are whole blocks. A sink joins a sum as the share of one more page.
    pub(super) fn finish(&self, ctx: &Ctx, row: usize, heads: Range<usize>, shares: Shares) {
        let v_dim = self.shape.v_dim;
        for (i, head) in heads.clone().enumerate() {
            // SAFETY: these shares are the calling task's.
            let (stats, values) = unsafe {
                let values = std::slice::from_raw_parts_mut(shares.values.add(i * v_dim), v_dim);
                (std::slice::from_raw_parts_mut(shares.stats.add(2 * i), 2), values)
            };
            if let Some(sinks) = self.shape.sinks {
                let (page_stats, page_values) = (&[sinks[head], 1.0], self.nothing);
                let task = MergeTask { stats, values, page_stats, page_values };
                // SAFETY: the tier is usable, lengths agree.
                unsafe { (ctx.kernels.merge)(task) };
            }
            let inverse = 1.0 / stats[1];
            values.iter_mut().for_each(|value| *value *= inverse);
        }
        let (from, len) = (heads.start * v_dim, heads.len() * v_dim);
        let out = self.out.f32().at(row, from, len);
        if !std::ptr::eq(out, shares.values) {
            // SAFETY: these heads of this row are the calling task's, and lie elsewhere.
            unsafe { shares.values.copy_to_nonoverlapping(out, len) };
        }
        if self.out.q8() && self.blocks_of(heads.len()) {
            self.quantise_some(ctx, row, from, len);
        }
    }

    /// Whether so many heads are whole blocks of the 8-bit form.
    fn blocks_of(&self, heads: usize) -> bool {
        (heads * self.shape.v_dim).is_multiple_of(act::BLOCK)
    }

    /// The 8-bit form of some whole blocks of a row, which are the calling task's.
    fn quantise_some(&self, ctx: &Ctx, row: usize, from: usize, len: usize) {
        // SAFETY: the tier is usable; the columns are the task's.
        unsafe {
            let to = self.out.quantised(row, from / act::BLOCK, len.div_ceil(act::BLOCK));
            (ctx.kernels.quantise)(self.out.f32().part(row, from, len), to);
        }
    }

    /// Whether the 8-bit form, if it is wanted, is made with the result.
    fn quantised(&self) -> bool {
        !self.out.q8() || self.blocks_of(if self.waves == 0 { self.shape.group() } else { 1 })
    }

    /// Phase: the 8-bit form of the result, unless it was made with it.
    pub(super) fn quantise(&self, ctx: &Ctx, worker: &Worker<'_>) {
        if !self.quantised() {
            let (rows, cols) = (self.rows.len(), self.shape.heads * self.shape.v_dim);
            worker.phase(rows.div_ceil(BLOCK), |i| {
                (i * BLOCK..rows.min((i + 1) * BLOCK))
                    .for_each(|i| self.quantise_some(ctx, i, 0, cols));
            });
        }
    }
}
