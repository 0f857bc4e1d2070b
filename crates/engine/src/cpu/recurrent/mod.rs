//! Mixers with a state of fixed size: each is some projections, a short convolution, a state that
//! rows pass in order, and a gated output.
mod conv;
mod delta_net;
mod lightning;
mod mamba1;
mod mamba2;
mod rg_lru;
mod short_conv;

use super::branch::Line;
use super::pack::Packer;
use super::scratch::{distinct, place};
use crate::backend::LoadError;
use crate::spec::{ModelSpec, Op};
use crate::state::Recurrent;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::Ctx;
use rinfer_kernels::{Act, Mat};

/// One mixer, resolved.
pub(crate) struct RecurrentStep {
    mixer: Box<dyn Mixer>,
    /// Which of the recurrent states.
    state: usize,
    buffers: usize,
}

/// A kind of mixer.
trait Mixer: Send + Sync {
    /// Adds `out (+)= mixer(x)`, whose sequences' states are `state`.
    fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        own: (Slot<'a>, &'a mut Buffers),
        x: &mut ActSlot<'a>,
        to: (Slot<'a>, Store),
    );
    /// Whether the input's 8-bit form is read.
    fn reads_q8(&self) -> bool;
    /// Bytes of weights held.
    fn bytes(&self) -> usize;
}

impl RecurrentStep {
    /// Layer `i`'s operation, if it is recurrent: the model's operation number `nth`.
    pub fn new(
        spec: &ModelSpec,
        i: usize,
        op: &Op,
        nth: usize,
        packer: &Packer<'_>,
    ) -> Result<Option<RecurrentStep>, LoadError> {
        let mixer: Box<dyn Mixer> = match op {
            Op::DeltaNet(d) => Box::new(delta_net::DeltaNetStep::new(i, d, packer)?),
            Op::Lightning(l) => Box::new(lightning::LightningStep::new(i, l, packer)?),
            Op::Mamba1(m) => Box::new(mamba1::Mamba1Step::new(i, m, packer)?),
            Op::Mamba2(m) => Box::new(mamba2::Mamba2Step::new(i, m, packer)?),
            Op::RgLru(r) => Box::new(rg_lru::RgLruStep::new(i, r, packer)?),
            Op::ShortConv(s) => Box::new(short_conv::ShortConvStep::new(i, s, packer)?),
            Op::Attention(_)
            | Op::Mla(_)
            | Op::Mlp(_)
            | Op::Moe(_)
            | Op::Laurel(_)
            | Op::InputGate(_)
            | Op::Linear => return Ok(None),
        };
        let buffers = shape(op, spec.d_model).map_or(0, |s| place(&shapes(spec), &s, Shape::eq));
        let state = spec.ops().take(nth).filter_map(|op| shape(op, spec.d_model)).count();
        Ok(Some(RecurrentStep { mixer, state, buffers }))
    }
    /// Adds `out (+)= mixer(x)`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        (buffers, states): (&'a mut [Buffers], &'a mut Recurrent),
        x: &mut ActSlot<'a>,
        to: (Slot<'a>, Store),
    ) {
        let state = states.state(self.state).slot();
        self.mixer.add(line, (state, &mut buffers[self.buffers]), x, to);
    }
    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.mixer.reads_q8()
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.mixer.bytes()
    }
}

/// What a recurrent operation takes in memory beside its weights.
#[derive(Debug, PartialEq)]
pub(crate) struct Shape {
    /// Floats of a sequence's state.
    pub floats: usize,
    /// Widths of the matrices that rows go through.
    mats: Vec<usize>,
    /// Widths of what later projections read.
    acts: Vec<usize>,
}

/// An operation's shape, if it is recurrent.
pub(crate) fn shape(op: &Op, d_model: usize) -> Option<Shape> {
    match op {
        Op::DeltaNet(d) => Some(delta_net::shape(d)),
        Op::Lightning(l) => Some(lightning::shape(l)),
        Op::Mamba1(m) => Some(mamba1::shape(m)),
        Op::Mamba2(m) => Some(mamba2::shape(m)),
        Op::RgLru(r) => Some(rg_lru::shape(r)),
        Op::ShortConv(s) => Some(short_conv::shape(s, d_model)),
        Op::Attention(_)
        | Op::Mla(_)
        | Op::Mlp(_)
        | Op::Moe(_)
        | Op::Laurel(_)
        | Op::InputGate(_)
        | Op::Linear => None,
    }
}

/// The distinct shapes of a model's recurrent operations.
pub(crate) fn shapes(spec: &ModelSpec) -> Vec<Shape> {
    distinct(spec.ops().filter_map(|op| shape(op, spec.d_model)), Shape::eq)
}

/// Floats of a sequence's state, by recurrent operation.
pub(crate) fn floats(spec: &ModelSpec) -> impl Iterator<Item = usize> {
    spec.ops().filter_map(|op| Some(shape(op, spec.d_model)?.floats))
}

/// What a recurrent operation writes on the way, shared by all of one shape.
pub(crate) struct Buffers {
    mats: Vec<Mat>,
    acts: Vec<Act>,
}

impl Buffers {
    /// For batches of up to `rows` rows.
    pub fn new(shape: &Shape, rows: usize) -> Buffers {
        Buffers {
            mats: shape.mats.iter().map(|w| Mat::new(rows, *w)).collect(),
            acts: shape.acts.iter().map(|w| Act::new(rows, *w)).collect(),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let acts = self.acts.iter().map(Act::bytes);
        self.mats.iter().map(Mat::bytes).chain(acts).sum()
    }
    /// So many rows of all of them, as many as the operation's shape has. (Nobody makes the 8-bit form
    /// of activations who does not [say so](ActSlot::in_forms).)
    fn lend<const M: usize, const A: usize>(
        &mut self,
        ctx: &Ctx,
        rows: usize,
    ) -> ([Slot<'_>; M], [ActSlot<'_>; A]) {
        let mats = self.mats.as_mut_slice().try_into();
        let acts = self.acts.as_mut_slice().try_into();
        let mats: &mut [Mat; M] = mats.expect("the shape's matrices");
        let acts: &mut [Act; A] = acts.expect("the shape's activations");
        (mats.each_mut().map(|m| m.lend(rows)), acts.each_mut().map(|a| a.lend(ctx, rows, false)))
    }
}
