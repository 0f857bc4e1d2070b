//! Whole residual branches, each in one run of the team: from the stream through a norm, products and
//! what lies between them, back to the stream.
//!
//! The numbers are those of the single operations one after another.
mod attention;
mod mlp;

pub use attention::{AttentionBranch, AttentionBuffers, Cached, attention_branch};
pub use mlp::{MlpBranch, MlpBuffers, mlp_branch};

use super::linear::{Linears, prepare};
use super::{Ctx, Norm, Residual, Stage, Weights, by_rows, norm};
use crate::act::{Act, ActRows, SharedAct};
use crate::layout::{Packed, Reads};
use crate::mat::{Mat, Shared, Store};
use crate::team::Worker;

/// Where a branch begins and ends.
pub struct Ends<'a> {
    /// What its products read.
    pub input: &'a mut Act,
    /// How that is made of the stream; none where it is made already.
    pub pre: Option<Pre<'a>>,
    /// `[rows, n]`; only where it is read or joined.
    pub stream: Option<&'a mut Mat>,
    /// Where the result goes.
    pub to: To<'a>,
    /// Where what an attention's output multiplies is brought in its weights' order, if they have one.
    pub turned: Option<&'a mut Act>,
}

impl<'a> Ends<'a> {
    /// Apart from the stream: from an input that is made to a matrix.
    pub fn apart(input: &'a mut Act, out: &'a mut Mat, store: Store) -> Ends<'a> {
        Ends { input, pre: None, stream: None, to: To::Out(out, store), turned: None }
    }
}

/// How a branch's input is made of the stream.
pub struct Pre<'a> {
    /// None is a copy.
    pub norm: Option<Norm<'a>>,
    /// As of [`crate::ops::norm_in_order()`].
    pub order: Option<&'a [u32]>,
    /// Whether the 8-bit form is made, too.
    pub q8: bool,
}

/// Where the result of a branch goes.
pub enum To<'a> {
    /// It is added to the stream.
    Stream,
    /// To a matrix of the stream's shape.
    Out(&'a mut Mat, Store),
    /// There, and joins the stream then.
    Joined(&'a mut Mat, Store, Residual<'a>),
}

/// A branch's ends, as its tasks share them.
struct Around<'a> {
    ctx: &'a Ctx,
    input: SharedAct<'a>,
    pre: Option<Pre<'a>>,
    stream: Option<Shared<'a>>,
    last: Linears<'a>,
    /// What joins the stream, and how.
    join: Option<(Shared<'a>, Residual<'a>)>,
}

impl<'a> Around<'a> {
    /// Around products that begin with `first` and end with `last`.
    ///
    /// # Panics
    /// If shapes disagree, or there is no stream where one is needed.
    fn new(
        ctx: &'a Ctx,
        ends: Ends<'a>,
        first: &[Option<Weights<'a>>],
        last: Weights<'a>,
    ) -> Around<'a> {
        let Ends { input, pre, stream, to, .. } = ends;
        let stream = stream.map(|stream| stream.shared());
        let of = || stream.expect("a branch without a stream");
        if let Some(pre) = &pre {
            norm::check(of().cols(), pre.norm.as_ref(), pre.order, input);
            input.resize(of().rows());
            input.shared(ctx.kernels.tile, pre.q8);
        }
        for &(weights, bias) in first.iter().flatten() {
            assert!(weights.order().is_none(), "weights in an order");
            let made = pre.is_none() || pre.as_ref().is_some_and(|pre| pre.q8);
            assert!(made || weights.layout().reads() == Reads::F32, "the 8-bit form is not made");
            prepare(ctx, input, weights, bias);
        }
        let rows = input.rows();
        let (out, store, join) = match to {
            To::Stream => (of(), Store::Add, None),
            To::Out(out, store) => (sized(out, store, rows), store, None),
            To::Joined(out, store, how) => {
                let out = sized(out, store, rows);
                how.check(out, of());
                (out, store, Some((out, how)))
            }
        };
        assert_eq!(out.rows(), rows, "the rows to add to");
        let last = Linears::new(ctx, &[Some((last, store, out))]);
        Around { ctx, input: input.shared_as_is(), pre, stream, last, join }
    }

    /// What its first phase does, and its last.
    fn stages(&self) -> [Option<Stage>; 2] {
        [self.pre.is_some(), self.join.is_some()].map(|there| there.then_some(Stage::Norm))
    }

    /// Number of rows.
    fn rows(&self) -> usize {
        self.input.f32().rows()
    }

    /// Phase: makes the input.
    ///
    /// # Safety
    /// The tier is usable, and nobody else touches the input or writes the stream meanwhile.
    unsafe fn enter(&self, worker: &Worker<'_>) {
        let Some((pre, stream)) = self.pre.as_ref().zip(self.stream) else { return };
        let (cols, input) = (stream.cols(), &self.input);
        by_rows(worker, stream.rows(), &|i| {
            // SAFETY: passed on, lengths were checked; a row is one task's.
            unsafe {
                let codes = pre.q8.then(|| input.quantised(i, 0, input.blocks()));
                let x = stream.seen().from(i, 0, cols);
                let y = input.f32().part(i, 0, cols);
                norm::one(self.ctx, pre.norm.as_ref(), pre.order, x, y, codes);
            }
        });
    }

    /// The input.
    ///
    /// # Safety
    /// It is made, and nobody writes it meanwhile.
    unsafe fn input(&self) -> ActRows<'a> {
        // SAFETY: passed on.
        unsafe { self.input.seen() }
    }

    /// Phase: the last product.
    ///
    /// # Safety
    /// As of [`Linears::phase`], `x` having the branch's rows.
    unsafe fn leave(&self, worker: &Worker<'_>, x: ActRows<'_>) {
        // SAFETY: passed on.
        unsafe { self.last.phase(self.ctx, worker, x) }
    }

    /// Phase: joins the stream.
    ///
    /// # Safety
    /// The tier is usable, and nobody else touches the result or the stream meanwhile.
    unsafe fn join(&self, worker: &Worker<'_>) {
        if let Some(((out, how), stream)) = self.join.as_ref().zip(self.stream) {
            // SAFETY: passed on, shapes were checked; a row is one task's.
            by_rows(worker, out.rows(), &|i| unsafe { how.row(self.ctx, i, *out, stream) });
        }
    }
}

/// `out` with as many rows, which it must have already if they are added to.
fn sized(out: &mut Mat, store: Store, rows: usize) -> Shared<'_> {
    if store == Store::Set {
        out.resize(rows);
    }
    out.shared()
}

/// Whether each column multiplies the input in its place.
fn as_is(weights: &Packed) -> bool {
    weights.order().is_none()
}

/// `x` as an input of products with `weights`, and whether it is made in 8 bits: not where it is to be
/// brought in another order first.
///
/// # Panics
/// If it is not as wide as they are.
fn between<'a>(ctx: &Ctx, x: &'a mut Act, rows: usize, weights: Weights<'_>) -> SharedAct<'a> {
    let (weights, bias) = weights;
    assert_eq!(x.cols(), weights.cols(), "the input's width against the weights'");
    assert!(bias.is_none_or(|bias| bias.len() == weights.rows()), "a bias of another length");
    x.resize(rows);
    x.shared(ctx.kernels.tile, as_is(weights) && weights.layout().reads() == Reads::Q8)
}
