//! Tensors as numbers, and numbers as tensors.
use rinfer_formats::{DType, Tensor, quant};
use std::borrow::Cow;

/// A tensor's numbers; none of a type that is no weights'.
pub(crate) fn wide(tensor: &Tensor<'_>) -> Option<Vec<f32>> {
    let mut wide = vec![0.0; tensor.shape.iter().product()];
    quant::dequantise(tensor.dtype, &tensor.bytes, &mut wide).ok()?;
    Some(wide)
}

/// Numbers as a tensor of f32.
pub(crate) fn floats<'a>(values: &[f32], shape: impl Into<Cow<'a, [usize]>>) -> Tensor<'a> {
    let mut bytes = vec![0; size_of_val(values)];
    let all = bytes.as_chunks_mut().0.iter_mut().zip(values);
    all.for_each(|(bytes, value)| *bytes = value.to_le_bytes());
    Tensor { dtype: DType::F32, shape: shape.into(), bytes: bytes.into() }
}
