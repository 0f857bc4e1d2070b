//! Keys and values of one compressed vector a position. DeepSeek-V2, arXiv:2405.04434.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Norm, Stage, by_rows, few};
use crate::mat::{Mat, Seen, Slot, apart};
use crate::team::Worker;

/// A row of `x` is `[latent | rest]`; `v = norm(latent)` and `k = [rest | v]`, which take its row
/// count.
///
/// # Panics
/// If the shapes differ.
pub fn latent(ctx: &Ctx, norm: &Norm<'_>, x: &Mat, k: &mut Mat, v: &mut Mat) {
    let (k, v) = (k.lend(x.rows()), v.lend(x.rows()));
    alone(ctx, Latents::new(*norm, x.into(), k, v));
}

/// The same, as an operation.
struct Latents<'a> {
    norm: Norm<'a>,
    x: Seen<'a>,
    k: Slot<'a>,
    v: Slot<'a>,
}

impl<'a> Latents<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(norm: Norm<'a>, x: Seen<'a>, k: Slot<'a>, v: Slot<'a>) -> Latents<'a> {
        let (cols, width) = (x.cols(), v.cols());
        assert!(
            k.cols() == cols && width <= cols,
            "{width} of {cols}, to {} and {width}",
            k.cols()
        );
        assert!([k.rows(), v.rows()] == [x.rows(); 2], "as many rows");
        norm.check(width);
        apart([*k, *v], [x]);
        Latents { norm, x, k, v }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Latents<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows(), self.x.cols(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Latents { norm, x, k, v } = self;
        by_rows(worker, x.rows(), &|i| {
            // SAFETY: passed on, lengths agree.
            unsafe {
                let (latent, rest) = x.row(i).split_at(v.cols());
                let v = v.part(i, 0, latent.len());
                v.copy_from_slice(latent);
                (ctx.kernels.norm)(norm, v);
                k.part(i, 0, rest.len()).copy_from_slice(rest);
                k.part(i, rest.len(), latent.len()).copy_from_slice(v);
            }
        });
    }
}

impl<'a> Chain<'a> {
    /// Keys and values of `x`, as of [`latent()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn latent(&mut self, norm: Norm<'a>, x: Slot<'a>, k: Slot<'a>, v: Slot<'a>) {
        self.push(Stage::Norm, Latents::new(norm, x.into(), k, v));
    }
}
