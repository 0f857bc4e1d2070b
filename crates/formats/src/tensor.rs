//! Weights as they lie in a file: names, types, shapes and bytes.
use crate::map::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

/// How a tensor's elements are stored. Block formats carry GGUF's names, but for the last five, which
/// no file has: what quantised folders are translated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's")]
#[expect(non_camel_case_types, reason = "the names are the field's")]
#[non_exhaustive]
pub enum DType {
    F32,
    F16,
    Bf16,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    Bool,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ1_S,
    IQ1_M,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    IQ4_NL,
    IQ4_XS,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
    Q2_0,
    F8_E4M3,
    Q4_Z,
    Q4_B,
    Q8_Z,
    Q8_F,
    Q8_E,
    Q8_FZ,
    Q8_H,
    Q4_H,
    NF4,
    FP4,
}

/// A tensor of a checkpoint: borrowed from the mapping, or owned where a reader had to change it.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// How elements are stored.
    pub dtype: DType,
    /// Outermost axis first: a matrix is `[rows (outputs), cols (inputs)]`.
    pub shape: Cow<'a, [usize]>,
    /// `shape`'s elements in row-major order; rows are whole blocks.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> Tensor<'a> {
    /// Part `i` along the first axis.
    pub fn part(self, i: usize) -> Option<Tensor<'a>> {
        let (count, shape) = self.shape.split_first().filter(|(count, _)| i < **count)?;
        let each = self.bytes.len() / count;
        let bytes = match &self.bytes {
            Cow::Borrowed(all) => Cow::Borrowed(&all[i * each..(i + 1) * each]),
            Cow::Owned(all) => Cow::Owned(all[i * each..(i + 1) * each].to_vec()),
        };
        Some(Tensor { dtype: self.dtype, shape: shape.to_vec().into(), bytes })
    }
    /// Product of all axes but the last.
    pub fn rows(&self) -> usize {
        self.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }
    /// The last axis.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
}

/// A matrix, or several of one shape one after another, as the kernels read them.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    /// The kernels' name for how it lies.
    pub layout: &'a str,
    /// Rows and columns are last.
    pub shape: &'a [usize],
    /// Of all of it, aligned to 64.
    pub bytes: Bytes,
}

/// Where a backend takes weights from: a GGUF file, a folder of safetensors, a bundle.
pub trait Weights: Sync {
    /// The tensor called `name`, if there is one.
    fn get(&self, name: &str) -> Option<Tensor<'_>>;
    /// Its part `i` along the first axis, where that is cheaper than all of it.
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        self.get(name)?.part(i)
    }
    /// Its type and shape, where that is cheaper than all of it.
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.get(name).map(|tensor| (tensor.dtype, tensor.shape.to_vec()))
    }
    /// The type of [`Weights::in_order`]'s tensor, and its order: its column `k` is column `order[k]` of
    /// the tensor called `name`. None where columns lie as they are.
    fn order(&self, _name: &str) -> Option<(DType, Arc<[u32]>)> {
        None
    }
    /// The tensor called `name` with its columns in [`Weights::order`], where it takes less memory so.
    fn in_order(&self, _name: &str) -> Option<Tensor<'_>> {
        None
    }
    /// The tensor called `name` as the kernels read it, where that is how it is stored: then it is no
    /// [`Weights::get`].
    fn prepared(&self, _name: &str) -> Option<Prepared<'_>> {
        None
    }
    /// The order in which the norm called `name` makes its output, or the matrix reads its input, where
    /// that is stored.
    fn stored_order(&self, _name: &str) -> Option<Arc<[u32]>> {
        None
    }
    /// How many rows, from a multiple of that many on, are sure to have the scales of each of their columns
    /// in common: 1 where that is not known.
    fn alike(&self, _name: &str) -> usize {
        1
    }
    /// As [`Weights::order`], of part `i` along the first axis.
    fn part_order(&self, _name: &str, _i: usize) -> Option<(DType, Arc<[u32]>)> {
        None
    }
    /// As [`Weights::in_order`], of part `i` along the first axis.
    fn part_in_order(&self, _name: &str, _i: usize) -> Option<Tensor<'_>> {
        None
    }
    /// The type of the stack called `name` with rows and columns of its parts swapped, where that is how
    /// they are stored and blocks of them can't be turned: of [`Weights::part_across`], or, `in_order`, of
    /// [`Weights::part_in_order`], which then has them swapped too.
    fn across(&self, _name: &str, _in_order: bool) -> Option<DType> {
        None
    }
    /// Part `i` of such a stack as it is stored.
    fn part_across(&self, _name: &str, _i: usize) -> Option<Tensor<'_>> {
        None
    }
    /// Every name, in file order.
    fn names(&self) -> Vec<&str>;
    /// Says that `bytes`, a part of a tensor's, are not looked at again soon, so that the memory
    /// that they take can be given back.
    fn release(&self, _bytes: &[u8]) {}
}
