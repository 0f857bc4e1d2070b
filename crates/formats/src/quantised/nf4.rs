//! bitsandbytes' 4-bit types: codes of a table that the file has, and a scale for each block of
//! elements, which may be codes themselves. Dettmers et al. 2023, arXiv:2305.14314.
use super::integers::scale;
use super::parts::{Parts, shaped, wrong};
use super::{Made, Rows};
use crate::error::Cause;
use crate::quant::{FP4, NF4};
use crate::tensor::{DType, Weights};
use serde::Deserialize;
use std::ops::Range;

/// A matrix, by elements of all rows together. Of another table than bitsandbytes' own, or of rows that
/// are no whole blocks of 32, it is widened.
#[derive(Debug)]
struct Table {
    /// What it is made to.
    dtype: DType,
    cols: usize,
    codes: String,
    block: usize,
    values: [f32; 16],
    scales: Vec<f32>,
}

/// What the tensor `quant_state` says, as text.
#[derive(Debug, Deserialize)]
struct State {
    blocksize: usize,
    shape: Vec<usize>,
    nested_blocksize: Option<usize>,
    nested_offset: Option<f32>,
}

/// Types that there are, by what they are called in a tensor's name.
const TYPES: [&str; 2] = ["nf4", "fp4"];

/// Whether `stem.weight` is stored so.
pub(super) fn is_one(stem: &str, parts: &Parts<'_>) -> bool {
    parts.has(&format!("{stem}.weight.absmax"))
}

/// `stem.weight`, two codes to a byte, the first in its high nibble; `absmax`, `quant_map` and
/// `quant_state`, and perhaps the same of the scales.
pub(super) fn matrix(stem: &str, parts: &mut Parts<'_>) -> Result<Made, Cause> {
    let codes = format!("{stem}.weight");
    let name = |part: &str| format!("{codes}.{part}");
    let states = TYPES.map(|kind| name(&format!("quant_state.bitsandbytes__{kind}")));
    let at = states.iter().find(|state| parts.has(state)).unwrap_or(&states[0]);
    let text = parts.need(at, &[DType::U8], 1)?;
    let state: State = serde_json::from_slice(&text.bytes)
        .map_err(|e| wrong(at, &text, format!("JSON of a quantisation: {e}")))?;
    let sizes = |state: &State| match state.shape[..] {
        [rows, cols] if rows > 0 && cols > 0 && state.blocksize > 0 => Some((rows, cols)),
        _ => None,
    };
    let (rows, cols) = sizes(&state)
        .ok_or_else(|| wrong(at, &text, "a shape of two sizes and a blocksize".to_owned()))?;
    let elements = rows.saturating_mul(cols);
    let q = parts.need(&codes, &[DType::U8], 2)?;
    shaped(&codes, &q, &[elements.div_ceil(2), 1])?;
    let map = parts.need(&name("quant_map"), &[DType::F32], 1)?;
    shaped(&name("quant_map"), &map, &[16])?;
    let absmax = parts.need(&name("absmax"), &[DType::F32, DType::U8], 1)?;
    let count = elements.div_ceil(state.blocksize);
    shaped(&name("absmax"), &absmax, &[count])?;
    let scales = if absmax.dtype == DType::F32 {
        (0..count).map(|i| scale(&absmax, i)).collect()
    } else {
        nested(&absmax.bytes, &state, at, parts, name)?
    };
    let values: [f32; 16] = std::array::from_fn(|i| scale(&map, i));
    let whole = cols.is_multiple_of(32) && state.blocksize.is_multiple_of(32);
    let mut own = [(NF4, DType::NF4), (FP4, DType::FP4)].into_iter().filter(|_| whole);
    let dtype = own.find(|(table, _)| *table == values).map_or(DType::F32, |(_, own)| own);
    let matrix = Table { dtype, cols, codes, block: state.blocksize, values, scales };
    Ok(Made::new(dtype, vec![rows, cols], matrix))
}

/// Scales that are codes of a table of 256, each block of them with a scale, and a sum for all.
fn nested(
    codes: &[u8],
    state: &State,
    at: &str,
    parts: &mut Parts<'_>,
    name: impl Fn(&str) -> String,
) -> Result<Vec<f32>, Cause> {
    let (map, tops) = (name("nested_quant_map"), name("nested_absmax"));
    let table = parts.need(&map, &[DType::F32], 1)?;
    shaped(&map, &table, &[256])?;
    let top = parts.need(&tops, &[DType::F32], 1)?;
    let (block, offset) = match (state.nested_blocksize, state.nested_offset) {
        (Some(block), Some(offset)) if block > 0 => (block, offset),
        _ => {
            let expected = "nested_blocksize and nested_offset".to_owned();
            let found = "without them".to_owned();
            return Err(Cause::PartShape { tensor: at.to_owned(), found, expected });
        }
    };
    shaped(&tops, &top, &[codes.len().div_ceil(block)])?;
    let of = |(i, code): (usize, &u8)| scale(&table, usize::from(*code)) * scale(&top, i / block);
    Ok(codes.iter().enumerate().map(|one| of(one) + offset).collect())
}

impl Rows for Table {
    fn write(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>) {
        let Some(q) = raw.get(&self.codes) else { return };
        let code = |i: usize| q.bytes[i / 2] >> (4 * (1 - i % 2)) & 15;
        let elements = rows.start * self.cols..rows.end * self.cols;
        if self.dtype == DType::F32 {
            for i in elements {
                let value = self.values[usize::from(code(i))] * self.scales[i / self.block];
                out.extend(value.to_le_bytes());
            }
            return;
        }
        for from in elements.step_by(32) {
            out.extend(self.scales[from / self.block].to_le_bytes());
            out.extend((from..from + 16).map(|i| code(i) | code(i + 16) << 4));
        }
    }
}
