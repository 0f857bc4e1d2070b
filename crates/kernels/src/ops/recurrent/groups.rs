//! Norms of groups of neighbouring columns.
use super::Ctx;
use crate::mat::Mat;
use crate::ops::Norm;
use std::ops::Range;

/// Normalises columns `at` of each row in groups of `width`, in place. Parameters are `width` long,
/// or as long as all groups together.
///
/// # Panics
/// If the shapes differ.
pub fn norm_groups(ctx: &Ctx, norm: &Norm<'_>, width: usize, x: &mut Mat, at: Range<usize>) {
    let whole = width > 0 && at.len().is_multiple_of(width) && at.end <= x.cols();
    assert!(whole, "columns {at:?} of {} in groups of {width}", x.cols());
    let fits = |p: Option<&[f32]>| p.is_none_or(|p| p.len() == width || p.len() == at.len());
    assert!(fits(norm.weight) && fits(norm.bias), "the norm's parameters");
    let (rows, x) = (x.rows(), x.shared());
    ctx.each_row(rows, at.len(), |i| {
        for from in (0..at.len()).step_by(width) {
            let cut = |p: &'_ [f32]| if p.len() == width { 0..width } else { from..from + width };
            let norm = Norm {
                weight: norm.weight.map(|p| &p[cut(p)]),
                bias: norm.bias.map(|p| &p[cut(p)]),
                ..*norm
            };
            // SAFETY: the tier is usable, lengths agree; a row is one task's.
            unsafe { (ctx.kernels.norm)(&norm, x.part(i, at.start + from, width)) };
        }
    });
}
