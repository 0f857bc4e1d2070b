//! Products of each head's part of a row with weights of that head's own.
use super::Ctx;
use super::linear::{group, share};
use crate::act::Act;
use crate::layout::{Packed, Reads};
use crate::mat::{Mat, MatmulTask, Rows, Store};

/// A head of the input is `[k | kept]`, one of the output `[kept | n]`.
pub struct PerHead<'a> {
    /// `[n, k]`, one a head.
    pub weights: &'a [Packed],
    /// Elements that are not multiplied: they follow those that are, and lead the products.
    pub kept: usize,
}

/// `out = [kept | weights·x]` head by head. `x` is `[rows, heads·(k + kept)]`, `out`, which takes
/// its row count, `[rows, heads·(kept + n)]`; `parts` has room for `heads` rows of `k` to each.
///
/// # Panics
/// If shapes disagree.
pub fn per_head(ctx: &Ctx, how: &PerHead<'_>, x: Rows<'_>, parts: &mut Act, out: &mut Mat) {
    let (rows, kept, [n, k]) = (x.rows(), how.kept, how.shape());
    how.check(x, parts, out);
    out.resize(rows);
    parts.resize(how.weights.len() * rows);
    let q8 = how.weights.iter().any(|w| w.layout().reads() == Reads::Q8);
    let (blocks, to) = (parts.blocks(), out.shared());
    let part = parts.shared(ctx.kernels.tile, q8);
    ctx.each_row(how.weights.len(), rows * (k + kept), |head| {
        let part = part.part(head * rows..(head + 1) * rows);
        for row in 0..rows {
            let (x, rest) = x.row(row)[head * (k + kept)..][..k + kept].split_at(k);
            // SAFETY: the tier is usable; a head is one task's.
            unsafe {
                to.part(row, head * (kept + n), kept).copy_from_slice(rest);
                part.f32().part(row, 0, k).copy_from_slice(x);
                if q8 {
                    (ctx.kernels.quantise)(x, part.quantised(row, 0, blocks));
                }
            }
        }
    });
    let all: usize = how.weights.iter().map(|w| w.bytes().len()).sum();
    let (panels, parts) = (n.div_ceil(crate::layout::PANEL), &*parts);
    let group = group(share(ctx, all), &how.weights[0]);
    let groups = panels.div_ceil(group);
    ctx.team.run(|worker| {
        worker.phase(how.weights.len() * groups, |i| {
            let (head, first) = (i / groups, i % groups * group);
            let weights = &how.weights[head];
            let task = MatmulTask {
                weights: weights.view(),
                input: parts.part(head * rows..(head + 1) * rows),
                bias: None,
                store: Store::Set,
                first: 0,
                out: to.columns(head * (kept + n) + kept, n),
            };
            let matmul = ctx.kernels.matmul[weights.layout() as usize];
            // SAFETY: the tier is usable, the shapes were checked, and a group of panels is one
            // task's.
            unsafe { matmul(&task, first..panels.min(first + group)) };
        });
    });
}

impl PerHead<'_> {
    /// Outputs and inputs of a head.
    fn shape(&self) -> [usize; 2] {
        [self.weights[0].rows(), self.weights[0].cols()]
    }
    fn check(&self, x: Rows<'_>, parts: &Act, out: &Mat) {
        let (heads, [n, k]) = (self.weights.len(), self.shape());
        let alike = |w: &Packed| [w.rows(), w.cols()] == [n, k];
        assert!(self.weights.iter().all(alike), "the heads' weights differ in shape");
        assert_eq!(x.cols(), heads * (k + self.kept), "input");
        assert_eq!(parts.cols(), k, "parts");
        assert_eq!(out.cols(), heads * (self.kept + n), "output");
    }
}
