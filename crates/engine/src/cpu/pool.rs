//! Pooling: from all rows of a sequence to one vector, through dense layers, to unit length.
//! Reimers & Gurevych 2019, arXiv:1908.10084.
use super::executor::Pass;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{Dense, DenseAct, Head, ModelSpec, Pool};
use crate::weights::dense_layers;
use rinfer_kernels::mat::Store;
use rinfer_kernels::{Act, Mat, ops};

/// Sequences whose vectors go through dense layers together.
const ROWS: usize = 16;
/// The length that a vector is divided by at least.
const LEAST: f64 = 1e-12;

/// The pooling head, resolved.
pub(crate) struct PoolStep {
    norm: Option<NormWeights>,
    how: Pool,
    dense: Vec<DenseStep>,
    normalise: bool,
}

struct DenseStep {
    projection: Projection,
    act: Option<DenseAct>,
    norm: Option<NormWeights>,
}

impl PoolStep {
    /// Of a model that gives a vector a sequence.
    pub fn new(spec: &ModelSpec, packer: &Packer<'_>) -> Result<PoolStep, LoadError> {
        let Head::Pool { how, normalise, .. } = &spec.head else {
            return Err(LoadError::Unsupported("a model without vectors".into()));
        };
        let layers = dense_layers(&spec.head);
        let dense = layers.iter().map(|(name, d)| DenseStep::new(name, d, packer));
        Ok(PoolStep {
            norm: NormWeights::new(spec.final_norm.as_ref(), "output_norm", packer)?,
            how: *how,
            dense: dense.collect::<Result<_, _>>()?,
            normalise: *normalise,
        })
    }

    /// Appends the vectors of the sequences that end in the stream's rows `ends`, one after another.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        stream: &mut Mat,
        ends: &[usize],
        b: &mut Buffers,
        out: &mut Vec<f32>,
    ) {
        let norm = self.norm.as_ref().map(NormWeights::view);
        let all = matches!(self.how, Pool::Mean | Pool::Max);
        if let Some(norm) = norm.filter(|_| all) {
            ops::norm_in_place(pass.ctx, &norm, stream);
        }
        let mut from = 0;
        for ends in ends.chunks(ROWS) {
            b.rows.resize(ends.len());
            for (i, end) in ends.iter().enumerate() {
                pool(self.how, stream, from..end + 1, &mut b.sums, b.rows.row_mut(i));
                from = end + 1;
            }
            if let Some(norm) = norm.filter(|_| !all) {
                ops::norm_in_place(pass.ctx, &norm, &mut b.rows);
            }
            let mut made = &mut b.rows;
            for (step, (x, to)) in self.dense.iter().zip(&mut b.dense) {
                step.run(pass, made, x, to);
                made = to;
            }
            if self.normalise {
                (0..ends.len()).for_each(|i| to_unit(made.row_mut(i)));
            }
            out.extend_from_slice(made.data());
        }
        pass.clock.lap(Kind::Head);
    }

    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let norm = |norm: &Option<NormWeights>| norm.as_ref().map_or(0, NormWeights::bytes);
        let dense = self.dense.iter().map(|d| d.projection.bytes() + norm(&d.norm));
        norm(&self.norm) + dense.sum::<usize>()
    }
}

impl DenseStep {
    fn new(name: &str, d: &Dense, packer: &Packer<'_>) -> Result<DenseStep, LoadError> {
        Ok(DenseStep {
            projection: Projection::new(name, d.bias, packer)?,
            act: d.act,
            norm: NormWeights::new(d.norm.as_ref(), &format!("{name}_norm"), packer)?,
        })
    }
    fn run(&self, pass: &mut Pass<'_>, from: &Mat, x: &mut Act, to: &mut Mat) {
        ops::norm(pass.ctx, None, from, x, self.projection.reads_q8());
        pass.linear(Kind::Head, x, &mut [self.projection.job(to, Store::Set)]);
        match self.act {
            None => {}
            Some(DenseAct::Tanh) => to.data_mut().iter_mut().for_each(|x| *x = libm::tanhf(*x)),
            Some(DenseAct::Gelu) => to.data_mut().iter_mut().for_each(|x| *x = gelu(*x)),
        }
        if let Some(norm) = &self.norm {
            ops::norm_in_place(pass.ctx, &norm.view(), to);
        }
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// One vector of some rows. Sums are in double precision and in order.
fn pool(how: Pool, stream: &Mat, rows: std::ops::Range<usize>, sums: &mut [f64], out: &mut [f32]) {
    match how {
        Pool::Cls => out.copy_from_slice(stream.row(rows.start)),
        Pool::Last => out.copy_from_slice(stream.row(rows.end - 1)),
        Pool::Max => {
            out.copy_from_slice(stream.row(rows.start));
            for row in rows.skip(1) {
                out.iter_mut().zip(stream.row(row)).for_each(|(out, x)| *out = out.max(*x));
            }
        }
        Pool::Mean => {
            let count = rows.len() as f64;
            sums.fill(0.0);
            for row in rows {
                sums.iter_mut().zip(stream.row(row)).for_each(|(sum, x)| *sum += f64::from(*x));
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = (*sum / count) as f32);
        }
    }
}

/// Divides a vector by its length.
pub(crate) fn to_unit(x: &mut [f32]) {
    let square: f64 = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = square.sqrt().max(LEAST);
    x.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}

/// What a pooling head writes on the way.
pub(crate) struct Buffers {
    rows: Mat,
    sums: Vec<f64>,
    /// By dense layer: its input and its output.
    dense: Vec<(Act, Mat)>,
    width: usize,
}

impl Buffers {
    /// For batches of any number of rows.
    pub fn new(spec: &ModelSpec) -> Buffers {
        let (d, mut from) = (spec.d_model, spec.d_model);
        let dense = dense_layers(&spec.head).into_iter().map(|(_, layer)| {
            let input = std::mem::replace(&mut from, layer.width);
            (Act::new(ROWS, input), Mat::new(ROWS, layer.width))
        });
        Buffers {
            dense: dense.collect(),
            rows: Mat::new(ROWS, d),
            sums: vec![0.0; d],
            width: spec.width(),
        }
    }
    /// Elements to a vector.
    pub fn width(&self) -> usize {
        self.width
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let dense = self.dense.iter().map(|(x, out)| x.bytes() + out.bytes()).sum::<usize>();
        self.rows.bytes() + 8 * self.sums.len() + dense
    }
}
