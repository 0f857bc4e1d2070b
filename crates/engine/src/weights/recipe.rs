//! How a canonical tensor is made of a checkpoint's.
use rinfer_formats::{DType, Tensor, Weights, quant};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A canonical tensor and how it is made.
pub(super) struct Made {
    /// Canonical, with its suffix.
    pub name: String,
    /// From what.
    pub recipe: Recipe,
}

impl Made {
    pub fn of(name: String, recipe: Recipe) -> Made {
        Made { name, recipe }
    }
}

/// How a canonical tensor is made of the checkpoint's.
#[derive(Debug)]
pub(super) enum Recipe {
    Whole(String),
    Part(String, Part),
    Mapped(String, fn(f32) -> f32),
    /// By expert.
    Stack(BTreeMap<usize, String>),
}

/// Which rows of a tensor.
#[derive(Debug)]
pub(super) struct Part {
    /// Whether its last two axes are swapped first.
    pub turned: bool,
    /// Whether rows are elements of the last axis, or stretches along it.
    pub elements: bool,
    /// The rows.
    pub rows: Rows,
    /// What they make.
    pub form: Form,
}

/// What the chosen rows of a matrix make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One matrix.
    Matrix,
    /// A matrix a stretch, on a new first axis.
    Stack,
    /// The same, with rows and columns swapped.
    TurnedStack,
}

/// Rows `start + i·step .. start + i·step + len` for each `i` below `times`.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub start: usize,
    pub len: usize,
    pub step: usize,
    pub times: usize,
}

impl Recipe {
    /// The tensor; none if a source is not there or has not the rows.
    pub fn make<'a>(&self, raw: &'a dyn Weights) -> Option<Tensor<'a>> {
        match self {
            Recipe::Whole(from) => raw.get(from),
            Recipe::Part(from, part) => part.of(raw.get(from)?),
            Recipe::Mapped(from, map) => mapped(&raw.get(from)?, *map),
            Recipe::Stack(experts) => stacked(raw, experts),
        }
    }
}

impl Part {
    fn of<'a>(&self, tensor: Tensor<'a>) -> Option<Tensor<'a>> {
        let tensor = if self.turned { turned(&tensor)? } else { tensor };
        let axis = tensor.shape.len().checked_sub(if self.elements { 1 } else { 2 })?;
        let (outer, all) = (tensor.shape[..axis].iter().product::<usize>(), tensor.shape[axis]);
        let Rows { start, len, step, times } = self.rows;
        let last = times.checked_sub(1).map_or(0, |i| start + i * step + len);
        let unit = tensor.bytes.len().checked_div(outer * all)?;
        // Blocks of several elements can't be taken apart.
        if last > all || unit * outer * all != tensor.bytes.len() {
            return None;
        }
        let mut shape = tensor.shape.to_vec();
        shape[axis] = len * times;
        let at = |o: usize, i: usize| {
            let from = (o * all + start + i * step) * unit;
            from..from + len * unit
        };
        let bytes = match &tensor.bytes {
            Cow::Borrowed(b) if outer * times == 1 => Cow::Borrowed(&b[at(0, 0)]),
            bytes => {
                let mut out = Vec::with_capacity(outer * len * times * unit);
                (0..outer).for_each(|o| {
                    (0..times).for_each(|i| out.extend_from_slice(&bytes[at(o, i)]));
                });
                Cow::Owned(out)
            }
        };
        if self.form != Form::Matrix {
            shape.splice(axis..=axis, [times, len]);
        }
        let made = Tensor { dtype: tensor.dtype, shape: shape.into(), bytes };
        if self.form == Form::TurnedStack { turned(&made) } else { Some(made) }
    }
}

/// The last two axes swapped; none of a type of blocks.
fn turned<'a>(tensor: &Tensor<'_>) -> Option<Tensor<'a>> {
    let [outer @ .., rows, cols] = &*tensor.shape else { return None };
    let elements = tensor.shape.iter().product::<usize>();
    let unit = tensor.bytes.len().checked_div(elements)?;
    if unit == 0 || unit * elements != tensor.bytes.len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(tensor.bytes.len());
    for matrix in tensor.bytes.chunks(rows * cols * unit) {
        for c in 0..*cols {
            for r in 0..*rows {
                bytes.extend_from_slice(&matrix[(r * cols + c) * unit..][..unit]);
            }
        }
    }
    let shape = [outer, &[*cols, *rows]].concat();
    Some(Tensor { dtype: tensor.dtype, shape: shape.into(), bytes: bytes.into() })
}

fn mapped<'a>(tensor: &Tensor<'_>, map: fn(f32) -> f32) -> Option<Tensor<'a>> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).ok()?;
    let bytes: Vec<u8> = values.into_iter().flat_map(|x| map(x).to_le_bytes()).collect();
    Some(Tensor { dtype: DType::F32, shape: tensor.shape.to_vec().into(), bytes: bytes.into() })
}

/// None unless the experts are numbered without a gap and alike.
fn stacked<'a>(raw: &'a dyn Weights, experts: &BTreeMap<usize, String>) -> Option<Tensor<'a>> {
    let first = raw.get(experts.get(&0)?)?;
    let shape = [&[experts.len()][..], &first.shape].concat();
    let mut bytes = Vec::with_capacity(first.bytes.len() * experts.len());
    for e in 0..experts.len() {
        let expert = raw.get(experts.get(&e)?)?;
        if expert.dtype != first.dtype || expert.shape != first.shape {
            return None;
        }
        bytes.extend_from_slice(&expert.bytes);
        raw.release(&expert.bytes);
    }
    Some(Tensor { dtype: first.dtype, shape: shape.into(), bytes: bytes.into() })
}

/// The same elements in `shape`, if that differs by axes of one element alone.
pub(super) fn reshaped<'a>(mut tensor: Tensor<'a>, shape: &[usize]) -> Tensor<'a> {
    let long = |shape: &[usize]| shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
    if *tensor.shape != *shape && long(&tensor.shape) == long(shape) {
        tensor.shape = shape.to_vec().into();
    }
    tensor
}
