//! Several residual streams: how they start, what layers make of them, and how they end.
use super::branch::Line;
use super::executor::Pass;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{AltUp, ModelSpec};
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{self, Ctx};
use rinfer_kernels::{Act, Mat};

/// What is done with the streams before a branch.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// At a layer's start.
    Predict(usize),
    /// Before its last branch.
    Correct(usize),
}

/// All streams' weights, resolved.
pub(crate) struct AltUpSteps {
    expand: Vec<Projection>,
    average: Vec<Projection>,
    layers: Vec<Mixer>,
}

/// One layer's.
struct Mixer {
    norm: Option<NormWeights>,
    router: Projection,
    predict: Projection,
    correct: Projection,
}

impl AltUpSteps {
    /// Of a model that has several streams.
    pub fn new(
        spec: &ModelSpec,
        altup: &AltUp,
        packer: &Packer<'_>,
    ) -> Result<AltUpSteps, LoadError> {
        let layers = (0..spec.layers.len()).map(|i| Mixer::new(i, altup, packer));
        Ok(AltUpSteps {
            expand: Projection::stack("altup_proj", packer)?,
            average: Projection::stack("altup_unembd_proj", packer)?,
            layers: layers.collect::<Result<_, _>>()?,
        })
    }
    /// Makes the streams of `stream`, the first.
    pub fn expand(&self, pass: &mut Pass<'_>, stream: &Mat, input: &mut Act, b: &mut Buffers) {
        let q8 = self.expand.iter().any(Projection::reads_q8);
        ops::norm(pass.ctx, None, stream, input, q8);
        for (one, out) in self.expand.iter().zip(&mut b.projected) {
            pass.linear(Kind::Projections, input, &mut [one.job(out, Store::Set)]);
        }
        ops::expand(pass.ctx, stream, &b.projected, &mut b.all);
        pass.clock.lap(Kind::Norm);
    }
    /// Adds a prediction or correction; `stream` is the first.
    pub fn turn<'a>(
        &'a self,
        line: &mut Line<'a>,
        turn: Turn,
        stream: Slot<'a>,
        of: &mut Slots<'a>,
    ) {
        let (Turn::Predict(i) | Turn::Correct(i)) = turn;
        let layer = &self.layers[i];
        layer.modalities(line, stream, of);
        let (projection, to) = match turn {
            Turn::Predict(_) => (&layer.predict, of.predict),
            Turn::Correct(_) => (&layer.correct, of.correct),
        };
        let mut modalities = of.modalities;
        line.product(&mut modalities, projection, to, Store::Set);
        let how = match turn {
            Turn::Predict(_) => ops::Turn::Predict(to.into()),
            Turn::Correct(_) => ops::Turn::Correct(to.into()),
        };
        line.chain.turn(how, of.all, stream, of.new);
    }
    /// Averages the streams into `stream`, the first.
    pub fn average(&self, pass: &mut Pass<'_>, stream: &mut Mat, input: &mut Act, b: &mut Buffers) {
        let (rows, d) = (stream.rows(), stream.cols());
        for (k, (one, out)) in self.average.iter().zip(&mut b.projected).enumerate() {
            input.resize(rows);
            for i in 0..rows {
                let from = &b.all.row(i)[(k + 1) * d..][..d];
                input.f32_mut().row_mut(i).copy_from_slice(from);
            }
            pass.linear(Kind::Projections, input, &mut [one.job(out, Store::Set)]);
        }
        ops::average(pass.ctx, &b.projected, stream);
        pass.clock.lap(Kind::Norm);
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let ends = self.expand.iter().chain(&self.average).map(Projection::bytes);
        ends.sum::<usize>() + self.layers.iter().map(Mixer::bytes).sum::<usize>()
    }
}

impl Mixer {
    fn new(i: usize, altup: &AltUp, packer: &Packer<'_>) -> Result<Mixer, LoadError> {
        let project = |part| Projection::new(&layer(i, part), false, packer);
        let norm = NormWeights::new(Some(&altup.norm), &layer(i, "altup_router_norm"), packer)?;
        Ok(Mixer {
            norm: norm.map(|norm| norm.scaled(altup.scale)),
            router: project("altup_router")?,
            predict: project("altup_predict_coef")?,
            correct: project("altup_correct_coef")?,
        })
    }
    /// Adds what coefficients are made of, from the first stream.
    fn modalities<'a>(&'a self, line: &mut Line<'a>, stream: Slot<'a>, of: &Slots<'a>) {
        let norm = self.norm.as_ref().map(NormWeights::view);
        let mut normed = of.normed.in_forms(self.router.reads_q8_as_is());
        line.chain.norm(norm, None, stream, normed);
        line.product(&mut normed, &self.router, of.modalities.f32(), Store::Set);
        line.chain.softcap(1.0, of.modalities.f32());
    }
    fn bytes(&self) -> usize {
        let projections = [&self.router, &self.predict, &self.correct].map(Projection::bytes);
        let norm = self.norm.as_ref().map_or(0, NormWeights::bytes);
        norm + projections.iter().sum::<usize>()
    }
}

/// The streams, and what is written on the way.
pub(crate) struct Buffers {
    /// `[rows, streams · d_model]`
    pub all: Mat,
    new: Mat,
    projected: Vec<Mat>,
    normed: Act,
    modalities: Act,
    predict: Mat,
    correct: Mat,
}

/// The same, lent.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a> {
    /// The streams.
    pub all: Slot<'a>,
    /// Scratch, as large.
    pub new: Slot<'a>,
    normed: ActSlot<'a>,
    modalities: ActSlot<'a>,
    predict: Slot<'a>,
    correct: Slot<'a>,
}

impl Buffers {
    /// Of so many rows.
    pub fn lend(&mut self, ctx: &Ctx, rows: usize) -> Slots<'_> {
        Slots {
            all: self.all.slot(),
            new: self.new.lend(rows),
            normed: self.normed.lend(ctx, rows, false),
            modalities: self.modalities.lend(ctx, rows, false),
            predict: self.predict.lend(rows),
            correct: self.correct.lend(rows),
        }
    }
    /// For batches of up to `rows` rows; none if the model has one stream.
    pub fn new(spec: &ModelSpec, rows: usize) -> Option<Buffers> {
        let (n, d) = (spec.altup?.streams, spec.d_model);
        Some(Buffers {
            all: Mat::new(rows, n * d),
            new: Mat::new(rows, n * d),
            projected: (1..n).map(|_| Mat::new(rows, d)).collect(),
            normed: Act::new(rows, d),
            modalities: Act::new(rows, n),
            predict: Mat::new(rows, n * n),
            correct: Mat::new(rows, n),
        })
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = [&self.all, &self.new, &self.predict, &self.correct].into_iter();
        let mats: usize = mats.chain(&self.projected).map(Mat::bytes).sum();
        mats + self.normed.bytes() + self.modalities.bytes()
    }
}
