//! Norms of groups of neighbouring columns.
use crate::mat::{Mat, Slot};
use crate::ops::chain::{Phases, alone};
use crate::ops::{Chain, Ctx, Norm, Stage, by_rows, few};
use crate::team::Worker;

/// Normalises each row in groups of `width` columns, in place. Parameters are `width` long, or as long
/// as all groups together.
///
/// # Panics
/// If the shapes differ.
pub fn norm_groups(ctx: &Ctx, norm: &Norm<'_>, width: usize, x: &mut Mat) {
    alone(ctx, Groups::new(*norm, width, x.slot()));
}

/// The same, as an operation.
struct Groups<'a> {
    norm: Norm<'a>,
    width: usize,
    x: Slot<'a>,
}

impl<'a> Groups<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(norm: Norm<'a>, width: usize, x: Slot<'a>) -> Groups<'a> {
        let cols = x.cols();
        assert!(width > 0 && cols.is_multiple_of(width), "{cols} columns in groups of {width}");
        let fits = |p: Option<&[f32]>| p.is_none_or(|p| p.len() == width || p.len() == cols);
        assert!(fits(norm.weight) && fits(norm.bias), "the norm's parameters");
        Groups { norm, width, x }
    }
}

// SAFETY: a group is one task's.
unsafe impl Phases for Groups<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows() * self.x.cols() / self.width, self.width, least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Groups { norm, width, x } = self;
        let groups = x.cols() / width;
        by_rows(worker, x.rows() * groups, &|i| {
            let (row, from) = (i / groups, i % groups * width);
            let cut = |p: &'_ [f32]| if p.len() == *width { 0..*width } else { from..from + width };
            let norm = Norm {
                weight: norm.weight.map(|p| &p[cut(p)]),
                bias: norm.bias.map(|p| &p[cut(p)]),
                ..*norm
            };
            // SAFETY: passed on, lengths agree.
            unsafe { (ctx.kernels.norm)(&norm, x.part(row, from, *width)) };
        });
    }
}

impl<'a> Chain<'a> {
    /// Norms of groups of `width` columns, as of [`norm_groups()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn norm_groups(&mut self, norm: Norm<'a>, width: usize, x: Slot<'a>) {
        self.push(Stage::State, Groups::new(norm, width, x));
    }
}
