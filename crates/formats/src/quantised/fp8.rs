//! 8-bit floats, E4M3, with a scale for all, for a row, or for a block of rows and columns.
//! Micikevicius et al. 2022, arXiv:2209.05433; blocks as in DeepSeek-V3, arXiv:2412.19437.
use super::integers::{SCALES, scale};
use super::parts::{Parts, wrong};
use super::{Made, Rows};
use crate::error::Cause;
use crate::quant;
use crate::tensor::{DType, Tensor, Weights};
use std::ops::Range;

/// A matrix `[rows, cols]`.
#[derive(Debug)]
struct Floats {
    dtype: DType,
    cols: usize,
    weight: String,
    scales: String,
    /// Rows and columns to a scale, and scales to a row of them.
    block: [usize; 2],
    across: usize,
}

/// `stem.weight` and its scales: `weight_scale_inv` or `weight_scale`, both of which multiply.
pub(super) fn matrix(
    block: Option<[usize; 2]>,
    stem: &str,
    parts: &mut Parts<'_>,
) -> Result<Made, Cause> {
    let name = |part: &str| format!("{stem}.{part}");
    let weight = name("weight");
    let w = parts.need(&weight, &[DType::F8_E4M3], 2)?;
    let (rows, cols) = (w.shape[0], w.shape[1]);
    let inverse = name("weight_scale_inv");
    let scales =
        if block.is_some() || parts.has(&inverse) { inverse } else { name("weight_scale") };
    let axes = parts.axes(&scales);
    let s = parts.need(&scales, &SCALES, axes)?;
    let block = covered(&s, rows, cols, block).ok_or_else(|| {
        let blocks = block.map_or(String::new(), |[a, b]| format!(", or for blocks of {a}x{b}"));
        wrong(&scales, &s, format!("one scale, or one for each of {rows} rows{blocks}"))
    })?;
    parts.of_activations(stem);
    let whole = cols.is_multiple_of(32) && (block[1].is_multiple_of(32) || block[1] >= cols);
    let dtype = if whole { DType::Q8_E } else { DType::F32 };
    let across = cols.div_ceil(block[1].max(1));
    let matrix = Floats { dtype, cols, weight, scales, block, across };
    Ok(Made::new(dtype, vec![rows, cols], matrix))
}

/// Rows and columns that a scale is for.
fn covered(
    s: &Tensor<'_>,
    rows: usize,
    cols: usize,
    block: Option<[usize; 2]>,
) -> Option<[usize; 2]> {
    let fits = |[a, b]: &[usize; 2]| *s.shape == [rows.div_ceil(*a), cols.div_ceil(*b)];
    match (s.shape[..].iter().product(), block.filter(fits)) {
        (_, Some(block)) => Some(block),
        (1, None) if block.is_none() => Some([rows.max(1), cols.max(1)]),
        (n, None) if block.is_none() && n == rows && s.shape[0] == rows => Some([1, cols.max(1)]),
        _ => None,
    }
}

impl Rows for Floats {
    fn alike(&self) -> usize {
        self.block[0]
    }
    fn write(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>) {
        let (Some(w), Some(s)) = (raw.get(&self.weight), raw.get(&self.scales)) else { return };
        let step = if self.dtype == DType::F32 { 1 } else { 32 };
        for r in rows {
            let row = &w.bytes[r * self.cols..(r + 1) * self.cols];
            for (b, bytes) in row.chunks(step).enumerate() {
                let at = r / self.block[0] * self.across + b * step / self.block[1];
                put(self.dtype, bytes, scale(&s, at), out);
            }
        }
    }
}

/// A matrix `[rows, cols]` of the type Q8_E with its axes swapped, where 32 rows, from every multiple of 32
/// on, have the scales of each of their columns in common. One that is no number makes all that it shares
/// a scale with none.
///
/// # Panics
/// If `rows` or `cols` is no multiple of 32, or `bytes` are not as many.
pub fn turned(bytes: &[u8], rows: usize, cols: usize) -> Vec<u8> {
    let (blocks, rest) = bytes.as_chunks::<36>();
    let across = cols / 32;
    let whole = rows.is_multiple_of(32) && cols.is_multiple_of(32) && rest.is_empty();
    assert!(whole && blocks.len() == rows * across, "{rows} by {cols}");
    let mut out = Vec::with_capacity(bytes.len());
    for c in 0..cols {
        for r in (0..rows).step_by(32) {
            let column = || (r..r + 32).map(|r| &blocks[r * across + c / 32]);
            let scale =
                |block: &[u8; 36]| f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
            let number = column().all(|block| !scale(block).is_nan());
            let first = scale(&blocks[r * across + c / 32]);
            out.extend(if number { first } else { f32::NAN }.to_le_bytes());
            out.extend(column().map(|block| block[4 + c % 32]));
        }
    }
    out
}

/// A block of the type, or as many floats. What is no number makes all of its block none.
fn put(dtype: DType, bytes: &[u8], scale: f32, out: &mut Vec<u8>) {
    if dtype == DType::Q8_E {
        let number = bytes.iter().all(|byte| byte & 0x7f != 0x7f);
        out.extend(if number { scale } else { f32::NAN }.to_le_bytes());
        return out.extend_from_slice(bytes);
    }
    for byte in bytes {
        out.extend((scale * quant::from_e4m3(*byte)).to_le_bytes());
    }
}
