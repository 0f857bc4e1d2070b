//! How a canonical tensor is made of a checkpoint's.
use rinfer_formats::{DType, Tensor, Weights, common, quant, recast};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// As one vector.
    Flat(String),
    Part(String, Part),
    /// Of several, one after the other.
    Joined(Vec<String>, Part),
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
            Recipe::Flat(from) => raw.get(from).map(|tensor| {
                let shape = vec![tensor.shape.iter().product()].into();
                Tensor { shape, ..tensor }
            }),
            Recipe::Part(from, part) => part.of(raw.get(from)?, raw.alike(from)),
            Recipe::Joined(sources, part) => part.of(joined(raw, sources)?, 1),
            Recipe::Mapped(from, map) => Some(mapped(raw.get(from)?, *map)),
            Recipe::Stack(experts) => stacked(raw, experts),
        }
    }
    /// Its part `i` along the first axis, which only stacks add.
    pub fn part<'a>(&self, raw: &'a dyn Weights, i: usize) -> Option<Tensor<'a>> {
        match self {
            Recipe::Whole(from) => raw.part(from, i),
            Recipe::Part(from, part) if part.form == Form::Matrix => part.of(raw.part(from, i)?, 1),
            Recipe::Part(from, part) => part.stretch(raw.get(from)?, raw.alike(from), i),
            Recipe::Mapped(from, map) => Some(mapped(raw.part(from, i)?, *map)),
            Recipe::Stack(experts) => {
                let expert = raw.get(experts.get(&i)?)?;
                let (dtype, _) = alike(raw, experts)?;
                Some(held(expert, dtype))
            }
            Recipe::Flat(_) | Recipe::Joined(..) => None,
        }
    }
    /// The type and order of [`Recipe::in_order`].
    pub fn order(&self, raw: &dyn Weights) -> Option<(DType, Arc<[u32]>)> {
        match self {
            Recipe::Whole(from) => raw.order(from),
            Recipe::Part(from, part) if part.keeps_columns() => raw.order(from),
            _ => None,
        }
    }
    /// The type of a stack of matrices that can't be turned, as they are stored; or that of their columns'
    /// order.
    pub fn across(&self, raw: &dyn Weights, in_order: bool) -> Option<DType> {
        let Recipe::Part(from, part) = self else { return None };
        let dtype = match in_order {
            true => raw.order(from)?.0,
            false => raw.describe(from)?.0,
        };
        let widened = part.dtype(dtype, raw.alike(from)) != dtype;
        (part.form == Form::TurnedStack && part.stays() && widened).then_some(dtype)
    }
    /// Matrix `i` of a stack as it is stored: of one that is turned, before that.
    pub fn part_as_stored<'a>(&self, tensor: Tensor<'a>, i: usize) -> Option<Tensor<'a>> {
        let Recipe::Part(_, part) = self else { return None };
        Part { rows: part.rows.clone(), form: Form::Stack, ..*part }.stretch(tensor, 1, i)
    }
    /// The tensor that a stack's matrices are some rows of.
    pub fn source(&self) -> Option<&str> {
        match self {
            Recipe::Part(from, part) if part.stays() && part.form != Form::Matrix => Some(from),
            _ => None,
        }
    }
    /// The tensors that are a stack's parts.
    pub fn parts(&self) -> Option<&BTreeMap<usize, String>> {
        match self {
            Recipe::Stack(experts) => Some(experts),
            _ => None,
        }
    }
    /// The tensor with its columns in the order of the source's, if those have one and stay whole.
    pub fn in_order<'a>(&self, raw: &'a dyn Weights) -> Option<Tensor<'a>> {
        match self {
            Recipe::Whole(from) => raw.in_order(from),
            Recipe::Part(from, part) if part.keeps_columns() => part.of(raw.in_order(from)?, 1),
            _ => None,
        }
    }
    /// Its type and shape.
    pub fn describe(&self, raw: &dyn Weights) -> Option<(DType, Vec<usize>)> {
        match self {
            Recipe::Whole(from) => raw.describe(from),
            Recipe::Part(from, part) => {
                let (dtype, shape) = raw.describe(from)?;
                Some((part.dtype(dtype, raw.alike(from)), part.shape(&shape)?))
            }
            Recipe::Flat(from) => {
                let (dtype, shape) = raw.describe(from)?;
                Some((dtype, vec![shape.iter().product()]))
            }
            Recipe::Joined(sources, part) => {
                let (dtype, shape) = below(raw, sources)?;
                Some((part.dtype(dtype, 1), part.shape(&shape)?))
            }
            Recipe::Mapped(from, _) => Some((DType::F32, raw.describe(from)?.1)),
            Recipe::Stack(experts) => alike(raw, experts),
        }
    }
}

impl Part {
    /// Whether it is some rows of a matrix.
    fn keeps_columns(&self) -> bool {
        self.stays() && self.form == Form::Matrix
    }
    /// Whether its rows are some rows of a matrix, whatever becomes of them.
    fn stays(&self) -> bool {
        !self.turned && !self.elements
    }
    /// Of a tensor of type `from`: blocks of several elements are widened to be turned, unless so many rows
    /// are `alike` that those of a stretch are blocks of the same scales.
    fn dtype(&self, from: DType, alike: usize) -> DType {
        let turns = self.turned || self.form == Form::TurnedStack;
        let Rows { start, len, step, .. } = self.rows;
        let blocks = [start, len, step, alike].iter().all(|n| n.is_multiple_of(32));
        let whole = from == DType::Q8_E && blocks && !self.turned && !self.elements;
        if turns && from.format().elems > 1 && !whole { DType::F32 } else { from }
    }
    fn widened<'a>(&self, tensor: Tensor<'a>, alike: usize) -> Tensor<'a> {
        let dtype = self.dtype(tensor.dtype, alike);
        held(tensor, dtype)
    }
    /// Of a tensor of shape `from`, which must have the rows.
    fn shape(&self, from: &[usize]) -> Option<Vec<usize>> {
        let mut shape = without_units(from);
        let last = shape.len().checked_sub(1)?;
        if self.turned {
            shape.swap(last, last.checked_sub(1)?);
        }
        let axis = last.checked_sub(usize::from(!self.elements))?;
        let Rows { start, len, step, times } = self.rows;
        let end = times.checked_sub(1).map_or(0, |i| start + i * step + len);
        if end > shape[axis] {
            return None;
        }
        match self.form {
            Form::Matrix => shape[axis] = len * times,
            Form::Stack | Form::TurnedStack => drop(shape.splice(axis..=axis, [times, len])),
        }
        if self.form == Form::TurnedStack {
            swap_last(&mut shape);
        }
        Some(shape)
    }

    /// Matrix `i` of a stack.
    fn stretch<'a>(&self, tensor: Tensor<'a>, alike: usize, i: usize) -> Option<Tensor<'a>> {
        let Rows { start, len, step, times } = self.rows;
        let rows = Rows { start: start + i * step, len, step, times: 1 };
        let one = (i < times).then_some(Part { rows, form: Form::Matrix, ..*self })?;
        let made = one.of(tensor, alike)?;
        let turns = self.form == Form::TurnedStack;
        if turns { turned(&self.widened(made, alike)) } else { Some(made) }
    }

    fn of<'a>(&self, tensor: Tensor<'a>, alike: usize) -> Option<Tensor<'a>> {
        let mut shape = self.shape(&tensor.shape)?;
        let tensor = self.widened(tensor, alike);
        let tensor = Tensor { shape: without_units(&tensor.shape).into(), ..tensor };
        let tensor = if self.turned { turned(&tensor)? } else { tensor };
        let axis = tensor.shape.len() - if self.elements { 1 } else { 2 };
        let (outer, all) = (tensor.shape[..axis].iter().product::<usize>(), tensor.shape[axis]);
        let Rows { start, len, step, times } = self.rows;
        let unit = tensor.bytes.len().checked_div(outer * all)?;
        // Blocks of several elements can't be taken apart.
        if unit * outer * all != tensor.bytes.len() {
            return None;
        }
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
        let dtype = tensor.dtype;
        if self.form == Form::TurnedStack {
            swap_last(&mut shape);
            return turned(&Tensor { dtype, shape: shape.into(), bytes });
        }
        Some(Tensor { dtype, shape: shape.into(), bytes })
    }
}

/// Swaps the last two of at least two.
fn swap_last(shape: &mut [usize]) {
    if let [.., a, b] = shape {
        std::mem::swap(a, b);
    }
}

/// The last two axes swapped; of types of blocks, only of Q8_E.
fn turned<'a>(tensor: &Tensor<'_>) -> Option<Tensor<'a>> {
    let [outer @ .., rows, cols] = &*tensor.shape else { return None };
    let shape = [outer, &[*cols, *rows]].concat();
    if tensor.dtype == DType::Q8_E {
        let each = tensor.bytes.len() / outer.iter().product::<usize>().max(1);
        let matrices = tensor.bytes.chunks(each.max(1));
        let bytes: Vec<u8> =
            matrices.flat_map(|m| rinfer_formats::turned(m, *rows, *cols)).collect();
        return Some(Tensor { dtype: DType::Q8_E, shape: shape.into(), bytes: bytes.into() });
    }
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
    Some(Tensor { dtype: tensor.dtype, shape: shape.into(), bytes: bytes.into() })
}

/// What stores no weights stays as it is: whoever reads it says so.
fn mapped(tensor: Tensor<'_>, map: fn(f32) -> f32) -> Tensor<'_> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    if quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).is_err() {
        return tensor;
    }
    let bytes: Vec<u8> = values.into_iter().flat_map(|x| map(x).to_le_bytes()).collect();
    Tensor { dtype: DType::F32, bytes: bytes.into(), ..tensor }
}

/// Matrices below each other.
fn joined<'a>(raw: &dyn Weights, sources: &[String]) -> Option<Tensor<'a>> {
    let (dtype, shape) = below(raw, sources)?;
    let mut bytes = Vec::new();
    for name in sources {
        bytes.extend_from_slice(&raw.get(name)?.bytes);
    }
    Some(Tensor { dtype, shape: shape.into(), bytes: bytes.into() })
}

/// Type and shape of matrices below each other; none unless they are of one type and width.
fn below(raw: &dyn Weights, sources: &[String]) -> Option<(DType, Vec<usize>)> {
    let mut whole: Option<(DType, Vec<usize>)> = None;
    for name in sources {
        let (dtype, shape) = raw.describe(name)?;
        let shape = Some(without_units(&shape)).filter(|shape| shape.len() == 2)?;
        match &mut whole {
            None => whole = Some((dtype, shape)),
            Some((other, all)) if *other == dtype && all.get(1..) == shape.get(1..) => {
                all[0] += shape[0];
            }
            Some(_) => return None,
        }
    }
    whole
}

fn stacked<'a>(raw: &'a dyn Weights, experts: &BTreeMap<usize, String>) -> Option<Tensor<'a>> {
    let (dtype, shape) = alike(raw, experts)?;
    let mut bytes = Vec::new();
    for name in experts.values() {
        let expert = raw.get(name)?;
        bytes.extend_from_slice(&held(expert.clone(), dtype).bytes);
        raw.release(&expert.bytes);
    }
    Some(Tensor { dtype, shape: shape.into(), bytes: bytes.into() })
}

/// The same numbers in a type that holds them: that of [`all`].
pub(super) fn held(tensor: Tensor<'_>, dtype: DType) -> Tensor<'_> {
    match dtype {
        _ if dtype == tensor.dtype => tensor,
        DType::F32 => mapped(tensor, |x| x),
        _ => {
            let bytes = recast(tensor.dtype, dtype, &tensor.bytes, tensor.cols());
            Tensor { dtype, bytes: bytes.into(), ..tensor }
        }
    }
}

/// The type that holds those of all without loss, which is f32 if no type of blocks does.
pub(super) fn all(types: impl Iterator<Item = DType>) -> Option<DType> {
    types.reduce(|all, one| common(all, one).unwrap_or(DType::F32))
}

/// Type and shape of the stack; none unless the experts are numbered without a gap and of one shape.
fn alike(raw: &dyn Weights, experts: &BTreeMap<usize, String>) -> Option<(DType, Vec<usize>)> {
    let (mut dtype, shape) = raw.describe(experts.get(&0)?)?;
    for (e, (number, name)) in experts.iter().enumerate() {
        let (own, fits) = raw.describe(name).map(|(own, found)| (own, found == shape))?;
        if e != *number || !fits {
            return None;
        }
        dtype = all([dtype, own].into_iter())?;
    }
    Some((dtype, [&[experts.len()][..], &shape].concat()))
}

/// A shape without inner axes of one element, where there are more than two axes.
fn without_units(shape: &[usize]) -> Vec<usize> {
    let [outer, inner @ .., last] = shape else { return shape.to_vec() };
    let inner = inner.iter().copied().filter(|n| *n != 1);
    std::iter::once(*outer).chain(inner).chain([*last]).collect()
}

/// Whether shapes differ by axes of one element alone, if at all.
pub(super) fn same_but_for_ones(a: &[usize], b: &[usize]) -> bool {
    let long = |shape: &[usize]| shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
    a == b || long(a) == long(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many of its rows are alike.
    struct One(Tensor<'static>, usize);
    impl Weights for One {
        fn get(&self, _: &str) -> Option<Tensor<'_>> {
            Some(self.0.clone())
        }
        fn alike(&self, _: &str) -> usize {
            self.1
        }
        fn names(&self) -> Vec<&str> {
            Vec::new()
        }
    }

    /// Columns of blocks, and matrices that are turned, are as those of the floats that they hold.
    #[test]
    fn blocks_are_widened_to_be_turned() {
        let values: Vec<f32> = (0..4 * 64).map(|i| (i % 101) as f32 - 50.0).collect();
        let mut blocks = Vec::new();
        quant::quantise(DType::Q8_0, &values, &mut blocks).unwrap();
        let mut floats = vec![0.0; values.len()];
        quant::dequantise(DType::Q8_0, &blocks, &mut floats).unwrap();
        let shape = || vec![4, 64].into();
        let floats: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        let blocks = One(Tensor { dtype: DType::Q8_0, shape: shape(), bytes: blocks.into() }, 32);
        let floats = One(Tensor { dtype: DType::F32, shape: shape(), bytes: floats.into() }, 1);
        for (turned, form, rows) in [
            (true, Form::Matrix, Rows { start: 3, len: 2, step: 1, times: 1 }),
            (false, Form::TurnedStack, Rows { start: 1, len: 1, step: 2, times: 2 }),
        ] {
            let recipe = Recipe::Part(String::new(), Part { turned, elements: false, rows, form });
            let of = |raw| recipe.make(raw).map(|t| (t.dtype, t.shape.to_vec(), t.bytes.to_vec()));
            assert_eq!(of(&blocks), of(&floats));
            assert!(of(&blocks).is_some());
            assert_eq!(recipe.describe(&blocks), recipe.describe(&floats));
            let part = |raw| recipe.part(raw, 1).map(|t| (t.dtype, t.bytes.to_vec()));
            if form == Form::TurnedStack {
                assert_eq!(part(&blocks), part(&floats));
            }
        }
    }

    /// Heads of 32 keys and 32 values each: 8-bit floats of which 32 rows have their scales in common are
    /// turned as they are, and others widened.
    #[test]
    fn eight_bit_floats_are_turned_by_blocks() {
        let (rows, cols) = (4 * 32, 64);
        let block = |r: usize, b: usize| {
            let scale = 0.5 + (r / 32) as f32 + 0.25 * b as f32;
            let codes = (0..32).map(move |k| ((r * 7 + b * 3 + k * 5) % 127) as u8);
            scale.to_le_bytes().into_iter().chain(codes)
        };
        let blocks: Vec<u8> =
            (0..rows).flat_map(|r| (0..2).flat_map(move |b| block(r, b))).collect();
        let shape = vec![rows, cols].into();
        let tensor = Tensor { dtype: DType::Q8_E, shape, bytes: blocks.into() };
        let rows = Rows { start: 0, len: 32, step: 64, times: 2 };
        let part = Part { turned: false, elements: false, rows, form: Form::TurnedStack };
        let recipe = Recipe::Part(String::new(), part);
        let made = |alike| {
            let one = One(tensor.clone(), alike);
            let part = recipe.part(&one, 1).expect("a part");
            let made = recipe.make(&one).expect("a stack");
            assert_eq!(recipe.describe(&one), Some((made.dtype, made.shape.to_vec())));
            let [all, part] = [made.clone(), part].map(|made| {
                let mut floats = vec![0.0; made.shape.iter().product()];
                quant::dequantise(made.dtype, &made.bytes, &mut floats).expect("weights");
                floats
            });
            assert_eq!(all[all.len() / 2..], part);
            (made.dtype, made.shape.to_vec(), all)
        };
        let (blocks, floats) = (made(32), made(16));
        assert_eq!((blocks.0, floats.0), (DType::Q8_E, DType::F32));
        assert_eq!((&blocks.1, blocks.1.as_slice()), (&floats.1, &[2, 64, 32][..]));
        assert_eq!(blocks.2, floats.2);
    }
}
