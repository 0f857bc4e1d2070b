//! What is done to queries, keys and values between their projections and the attention: bounds,
//! norms of heads, rotary positions (Su et al. 2021, arXiv:2104.09864), factors of positions.
use super::chain::{Phases, alone};
use super::{Chain, Ctx, Norm, Stage, by_rows, few};
use crate::mat::{Mat, Slot};
use crate::team::Worker;

/// Which two elements of a head form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// `(i, i + dim/2)`, as Hugging Face stores it.
    Halves,
    /// `(2i, 2i + 1)`, as GGUF's llama stores it.
    Pairs,
}

/// A norm of heads, or of the whole row.
#[derive(Clone, Copy)]
pub enum HeadNorm<'a> {
    /// Each head by itself, with the same `head_dim` weights.
    PerHead(Norm<'a>),
    /// Each head by itself, with `head_dim` weights of its own: as many as the row is long.
    EachHead(Norm<'a>),
    /// All heads together, weights as long as the row.
    Whole(Norm<'a>),
}

/// What happens to each row of queries, keys or values, in this order.
#[derive(Clone, Copy, Default)]
pub struct Rotate<'a> {
    /// Elements to a head.
    pub head_dim: usize,
    /// Before the rotation.
    pub norm: Option<HeadNorm<'a>>,
    /// Cuts elements off at ± this, after that norm.
    pub clip: Option<f32>,
    /// Rotation angles of each row, `[rows, dim]`: `dim/2` cosines, then `dim/2` sines, where
    /// `dim <= head_dim` leading elements rotate.
    pub rope: Option<(RopeLayout, &'a Mat)>,
    /// After the rotation.
    pub then: Option<HeadNorm<'a>>,
    /// Multiplies each row by a number of its own.
    pub scales: Option<&'a [f32]>,
}

/// Applies `how` to every head of every row of `x`, in place.
///
/// # Panics
/// If the shapes differ.
pub fn rotate(ctx: &Ctx, how: &Rotate<'_>, x: &mut Mat) {
    alone(ctx, Rotated::new(*how, x.slot()));
}

/// The same, as an operation.
struct Rotated<'a> {
    how: Rotate<'a>,
    x: Slot<'a>,
}

impl<'a> Rotated<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(how: Rotate<'a>, x: Slot<'a>) -> Rotated<'a> {
        how.check(x.rows(), x.cols());
        Rotated { how, x }
    }
}

// SAFETY: a row is one task's.
unsafe impl Phases for Rotated<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows(), self.x.cols(), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let Rotated { how, x } = self;
        by_rows(worker, x.rows(), &|i| {
            // SAFETY: passed on, lengths agree.
            unsafe { how.heads(ctx, i, 0, x.part(i, 0, x.cols())) };
        });
    }
}

impl<'a> Chain<'a> {
    /// `how` of every head of every row of `x`, as of [`rotate()`], if it changes anything.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn rotate(&mut self, how: Rotate<'a>, x: Slot<'a>) {
        if how.does_something() {
            self.push(Stage::Heads, Rotated::new(how, x));
        }
    }
}

impl Rotate<'_> {
    /// Whether it changes anything.
    pub fn does_something(&self) -> bool {
        let Rotate { head_dim: _, norm, clip, rope, then, scales } = self;
        norm.or(*then).is_some() || clip.is_some() || rope.is_some() || scales.is_some()
    }

    /// Whether heads of a row may be done one by one.
    pub(super) fn splits(&self) -> bool {
        let whole = |norm: Option<HeadNorm<'_>>| matches!(norm, Some(HeadNorm::Whole(_)));
        !whole(self.norm) && !whole(self.then)
    }

    /// Does the heads of row `i` that `row` is, from head `first` on: all, unless it
    /// [splits](Rotate::splits).
    ///
    /// # Safety
    /// The tier is usable, lengths agree.
    pub(super) unsafe fn heads(&self, ctx: &Ctx, i: usize, first: usize, row: &mut [f32]) {
        // SAFETY: passed on.
        unsafe {
            self.normalise(ctx, self.norm, first, row);
            if let Some(bound) = self.clip {
                row.iter_mut().for_each(|x| *x = x.clamp(-bound, bound));
            }
            if let Some((layout, angles)) = self.rope {
                let (cos, sin) = angles.row(i).split_at(angles.cols() / 2);
                for head in row.chunks_exact_mut(self.head_dim) {
                    (ctx.kernels.rope)(layout, head, cos, sin);
                }
            }
            self.normalise(ctx, self.then, first, row);
        }
        if let Some(scales) = self.scales {
            row.iter_mut().for_each(|x| *x *= scales[i]);
        }
    }

    /// # Safety
    /// As [`Rotate::heads`].
    unsafe fn normalise(
        &self,
        ctx: &Ctx,
        norm: Option<HeadNorm<'_>>,
        first: usize,
        row: &mut [f32],
    ) {
        // SAFETY: passed on.
        let apply = |norm: &Norm<'_>, x: &mut [f32]| unsafe { (ctx.kernels.norm)(norm, x) };
        match norm {
            None => {}
            Some(HeadNorm::Whole(norm)) => apply(&norm, row),
            Some(HeadNorm::PerHead(norm)) => {
                row.chunks_exact_mut(self.head_dim).for_each(|head| apply(&norm, head));
            }
            Some(HeadNorm::EachHead(norm)) => {
                for (h, head) in (first..).zip(row.chunks_exact_mut(self.head_dim)) {
                    let own = h * self.head_dim..(h + 1) * self.head_dim;
                    let part = |p: Option<_>| p.map(|p: &[f32]| &p[own.clone()]);
                    apply(&Norm { weight: part(norm.weight), bias: part(norm.bias), ..norm }, head);
                }
            }
        }
    }

    /// # Panics
    /// If something does not fit `[rows, cols]`.
    pub(super) fn check(&self, rows: usize, cols: usize) {
        let whole = self.head_dim > 0 && cols.is_multiple_of(self.head_dim);
        assert!(whole, "{cols} columns are no whole number of heads of {}", self.head_dim);
        for norm in [&self.norm, &self.then].into_iter().flatten() {
            match norm {
                HeadNorm::PerHead(norm) => norm.check(self.head_dim),
                HeadNorm::EachHead(norm) | HeadNorm::Whole(norm) => norm.check(cols),
            }
        }
        if let Some((_, angles)) = self.rope {
            let (of, dim) = (angles.rows(), angles.cols());
            assert!(of >= rows, "angles of {of} rows for {rows}");
            let fits = dim.is_multiple_of(2) && dim <= self.head_dim;
            assert!(fits, "{dim} angles to a head of {}", self.head_dim);
        }
        let scales = self.scales.map_or(rows, <[f32]>::len);
        assert!(scales >= rows, "{scales} scales for {rows} rows");
        assert!(self.clip.is_none_or(|bound| bound > 0.0), "a bound of {:?}", self.clip);
    }
}
