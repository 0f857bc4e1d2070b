//! A feed-forward network as a branch.
use super::{Around, Ends, between};
use crate::act::{Act, BLOCK};
use crate::layout::Reads;
use crate::mat::{Mat, Store};
use crate::ops::chain::chain;
use crate::ops::glu::unit;
use crate::ops::linear::Linears;
use crate::ops::sparsify::sparse;
use crate::ops::{Ctx, Gated, GatedScratch, Stage, Watch, Weights, by_chunks, by_rows};

/// `down·(act(gate·x)·(up·x))`, or `down·act(gate·x)` without `up`.
pub struct MlpBranch<'a> {
    /// Whether the unit's products are made already, in [`MlpBuffers::products`].
    pub made: bool,
    /// From the input.
    pub unit: Gated<'a>,
    /// Lets only what stands out of a row of gates pass, as in [`crate::ops::sparsify()`].
    pub sparsity: Option<f32>,
    /// Output.
    pub down: Weights<'a>,
}

/// Rows up to which weights are read in one run of memory each; more are computed a few columns at
/// a time, whose products stay in a cache.
const FEW: usize = 16;
/// Columns of activations to a task, of few rows: whole blocks.
const COLUMNS: usize = 256;

/// What an MLP writes on the way, sized once.
pub struct MlpBuffers {
    /// Of few rows, or whole.
    gate: Mat,
    /// The same.
    up: Mat,
    /// Of many rows, unless whole.
    products: GatedScratch,
    hidden: Act,
}

impl MlpBuffers {
    /// For batches of up to `rows` rows of `d_ff` hidden elements, whose gates are looked at
    /// `whole` or not, on `threads` threads.
    pub fn new(d_ff: usize, whole: bool, rows: usize, threads: usize) -> MlpBuffers {
        let few = if whole { rows } else { rows.min(FEW) };
        MlpBuffers {
            gate: Mat::new(few, d_ff),
            up: Mat::new(few, d_ff),
            products: GatedScratch::new(if rows > few { rows } else { 0 }, threads),
            hidden: Act::new(rows, d_ff),
        }
    }
    /// Products of the gate and of what it multiplies, to be made by other means: of all rows, if
    /// these are looked at `whole`.
    pub fn products(&mut self) -> [&mut Mat; 2] {
        [&mut self.gate, &mut self.up]
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.gate.bytes() + self.up.bytes() + self.products.bytes() + self.hidden.bytes()
    }
}

impl<'a> MlpBranch<'a> {
    /// Of all products that are left to do.
    pub fn weights(&self) -> impl Iterator<Item = Weights<'a>> {
        self.unit.weights().filter(|_| !self.made).chain([self.down])
    }
}

/// Takes the stream, or an input, through an MLP: the numbers of [`crate::ops::norm()`],
/// [`crate::ops::linear()`], [`crate::ops::sparsify()`], [`crate::ops::glu()`] and
/// [`crate::ops::residual()`] one after another.
///
/// # Panics
/// If shapes disagree, there is no stream where one is needed, or the buffers are too small.
pub fn mlp_branch(
    ctx: &Ctx,
    how: &MlpBranch<'_>,
    buffers: &mut MlpBuffers,
    ends: Ends<'_>,
    watch: Watch<'_>,
) {
    assert!(how.down.0.order().is_none(), "a down in an order");
    let first = [Some(how.unit.gate), how.unit.up].map(|weights| weights.filter(|_| !how.made));
    let around = Around::new(ctx, ends, &first, how.down);
    let rows = around.rows();
    if rows > FEW && how.sparsity.is_none() && !how.made {
        many(ctx, how, buffers, &around, watch);
    } else {
        few(ctx, how, buffers, &around, watch);
    }
}

/// A few columns of both products at a time.
fn many(
    ctx: &Ctx,
    how: &MlpBranch<'_>,
    buffers: &mut MlpBuffers,
    around: &Around<'_>,
    watch: Watch<'_>,
) {
    let (rows, q8) = (around.rows(), how.down.0.layout().reads() == Reads::Q8);
    let hidden = between(ctx, &mut buffers.hidden, rows, how.down);
    let wide = |(weights, _): Weights<'_>| weights.rows() == hidden.f32().cols();
    assert!(how.unit.weights().all(wide), "the output's width against the weights' rows");
    let products = buffers.products.lend(ctx, rows);
    let [first, last] = around.stages();
    let stage = |i: usize| [first, Some(Stage::Products), Some(Stage::Products), last][i];
    // SAFETY: the tier is usable and the shapes were checked; what a phase reads, one before it
    // made or this call was given, and what it writes is lent to this call.
    chain(ctx, watch, 4, stage, |worker, i| unsafe {
        match i {
            0 => around.enter(worker),
            1 => products.phase(ctx, worker, &how.unit, around.input(), &hidden, q8),
            2 => around.leave(worker, hidden.seen()),
            _ => around.join(worker),
        }
    });
    if q8 {
        buffers.hidden.forget_f32();
    }
}

/// Each product as a whole.
fn few(
    ctx: &Ctx,
    how: &MlpBranch<'_>,
    buffers: &mut MlpBuffers,
    around: &Around<'_>,
    watch: Watch<'_>,
) {
    let MlpBuffers { gate, up, hidden, .. } = buffers;
    let (rows, q8) = (around.rows(), how.down.0.layout().reads() == Reads::Q8);
    gate.resize(rows);
    up.resize(rows);
    let (gate, up) = (gate.shared(), up.shared());
    let hidden = between(ctx, hidden, rows, how.down);
    let second = how.unit.up.map(|weights| (weights, Store::Set, up));
    let jobs = [Some((how.unit.gate, Store::Set, gate)), second];
    let products = Linears::new(ctx, &jobs[..if how.made { 0 } else { 2 }]);
    let [first, last] = around.stages();
    let sparse_unit = how.sparsity.map(|_| Stage::Unit);
    let product = Some(Stage::Products);
    let stage = |i: usize| [first, product, sparse_unit, Some(Stage::Unit), product, last][i];
    let cols = gate.cols();
    // SAFETY: as above; a row, and a stretch of columns that is whole blocks, is one task's.
    chain(ctx, watch, 6, stage, |worker, i| unsafe {
        match i {
            0 => around.enter(worker),
            1 => products.phase(ctx, worker, around.input()),
            2 => how.sparsity.iter().for_each(|deviations| {
                by_rows(worker, rows, &|i| sparse(*deviations, gate.part(i, 0, cols)));
            }),
            3 => by_chunks(worker, (rows, cols), COLUMNS, &|i, from, len| {
                let blocks = len.div_ceil(BLOCK);
                let codes = q8.then(|| hidden.quantised(i, from / BLOCK, blocks));
                let up = second.map_or(&[][..], |_| up.seen().from(i, from, len));
                let y = hidden.f32().part(i, from, len);
                unit(ctx, how.unit.act, gate.seen().from(i, from, len), up, y, codes);
            }),
            4 => around.leave(worker, hidden.seen()),
            _ => around.join(worker),
        }
    });
}
