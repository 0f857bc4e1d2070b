//! Integers in 32-bit words, each group of inputs with a scale and a zero: GPTQ, AWQ, and
//! compressed-tensors' packed ones; and its bytes.
use super::parts::{Parts, shaped, wrong};
use super::scheme::Gptq;
use super::unpack::{Packing, Zeros};
use super::zeros::{Run, dtype, put};
use super::{Made, Rows};
use crate::error::Cause;
use crate::tensor::{DType, Tensor, Weights};
use half::{bf16, f16};
use std::ops::Range;
use std::sync::Arc;

/// Types that scales have.
pub(super) const SCALES: [DType; 3] = [DType::F16, DType::Bf16, DType::F32];

/// A matrix `[rows, cols]`: `scale·(q - zero)`.
#[derive(Debug)]
struct Integers {
    /// What it is made to.
    dtype: DType,
    rows: usize,
    cols: usize,
    bits: usize,
    codes: (String, Packing),
    scales: (String, Side),
    zeros: Zeros,
    groups: Groups,
    /// What it is made to with its columns in another order, if they have one.
    order: Option<(DType, Arc<[u32]>)>,
}

/// Which axis comes first.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Group,
    Row,
    /// There is one for all.
    One,
}

/// Which group an input is in.
#[derive(Debug)]
enum Groups {
    /// So many inputs one after the other.
    Even(usize),
    /// By input.
    Listed(Vec<u32>),
}

/// `stem.qweight` `[cols·bits/32, rows]`, `qzeros` `[groups, rows·bits/32]`, `scales` `[groups, rows]`
/// and perhaps `g_idx` `[cols]`.
pub(super) fn gptq(how: &Gptq, stem: &str, parts: &mut Parts<'_>) -> Result<Made, Cause> {
    let name = |part: &str| format!("{stem}.{part}");
    let (codes, zeros, scales) = (name("qweight"), name("qzeros"), name("scales"));
    let q = parts.need(&codes, &[DType::I32], 2)?;
    let s = parts.need(&scales, &SCALES, 2)?;
    let z = parts.need(&zeros, &[DType::I32], 2)?;
    let (groups, rows) = (s.shape[0], s.shape[1]);
    // A zero is as many bits as a code.
    let own = z.shape[1].saturating_mul(32).checked_div(rows).unwrap_or(0);
    let bits = if how.varied && [2, 3, 4, 8].contains(&own) { own } else { how.bits };
    let cols = q.shape[0].saturating_mul(32) / bits;
    shaped(&codes, &q, &[(cols * bits).div_ceil(32), rows])?;
    shaped(&zeros, &z, &[groups, (rows * bits).div_ceil(32)])?;
    let listed = parts.find(&name("g_idx"));
    let listed = listed.map(|t| indices(&name("g_idx"), &t, cols, groups)).transpose()?;
    let size = if how.varied { cols.checked_div(groups) } else { Some(how.group.unwrap_or(cols)) };
    let groups = grouped(&scales, &s, groups, cols, size, listed)?;
    let middle = all_middle(&z, bits, how.short);
    let zeros = if middle { Zeros::Middle } else { Zeros::Down(zeros, how.short) };
    let (codes, scales) = ((codes, Packing::Down), (scales, Side::Group));
    let (dtype, order) = (DType::F32, None);
    Ok(Integers { dtype, rows, cols, bits, codes, scales, zeros, groups, order }.made(s.dtype))
}

/// `stem.qweight` `[cols, rows/8]`, `qzeros` `[groups, rows/8]`, `scales` `[groups, rows]`.
pub(super) fn awq(group: Option<usize>, stem: &str, parts: &mut Parts<'_>) -> Result<Made, Cause> {
    let name = |part: &str| format!("{stem}.{part}");
    let (codes, zeros, scales) = (name("qweight"), name("qzeros"), name("scales"));
    let q = parts.need(&codes, &[DType::I32], 2)?;
    let s = parts.need(&scales, &SCALES, 2)?;
    let z = parts.need(&zeros, &[DType::I32], 2)?;
    let (groups, rows, cols) = (s.shape[0], s.shape[1], q.shape[0]);
    shaped(&codes, &q, &[cols, rows.div_ceil(8)])?;
    shaped(&zeros, &z, &[groups, rows.div_ceil(8)])?;
    let groups = grouped(&scales, &s, groups, cols, Some(group.unwrap_or(cols)), None)?;
    let (codes, scales) = ((codes, Packing::Across), (scales, Side::Group));
    let (dtype, order, bits, zeros) = (DType::F32, None, 4, Zeros::Across(zeros));
    Ok(Integers { dtype, rows, cols, bits, codes, scales, zeros, groups, order }.made(s.dtype))
}

/// `stem.weight_packed` `[rows, cols·bits/32]`, `weight_scale` `[rows, groups]`, `weight_shape`, and
/// perhaps `weight_zero_point` and `weight_g_idx`.
pub(super) fn packed(bits: &[usize], stem: &str, parts: &mut Parts<'_>) -> Result<Made, Cause> {
    let name = |part: &str| format!("{stem}.weight_{part}");
    let (codes, scales) = (name("packed"), name("scale"));
    let q = parts.need(&codes, &[DType::I32], 2)?;
    let s = parts.need(&scales, &SCALES, 2)?;
    let shape = parts.need(&name("shape"), &[DType::I64, DType::I32], 1)?;
    let [rows, cols] = match sizes(&shape)[..] {
        [rows, cols] => [rows, cols],
        _ => return Err(wrong(&name("shape"), &shape, "two sizes".to_owned())),
    };
    let fits = |bits: &usize| *q.shape == [rows, cols.div_ceil(32 / bits)];
    let bits = *bits.iter().find(|bits| fits(bits)).ok_or_else(|| {
        wrong(
            &codes,
            &q,
            format!("{rows} rows of {cols} codes of {bits:?} bits, as weight_shape says"),
        )
    })?;
    let groups = s.shape[1];
    shaped(&scales, &s, &[rows, groups])?;
    let listed = parts.find(&name("g_idx"));
    let listed = listed.map(|t| indices(&name("g_idx"), &t, cols, groups)).transpose()?;
    let groups = grouped(&scales, &s, groups, cols, cols.checked_div(groups), listed)?;
    let zeros = zero_points(parts, stem, bits, rows, s.shape[1])?;
    parts.of_activations(stem);
    let (codes, scales) = ((codes, Packing::Along), (scales, Side::Row));
    let (dtype, order) = (DType::F32, None);
    Ok(Integers { dtype, rows, cols, bits, codes, scales, zeros, groups, order }.made(s.dtype))
}

/// `stem.weight` in signed bytes, and `weight_scale` for all, `[rows, 1]` or `[rows, groups]`.
pub(super) fn bytes(stem: &str, parts: &mut Parts<'_>) -> Result<Made, Cause> {
    let (codes, scales) = (format!("{stem}.weight"), format!("{stem}.weight_scale"));
    let q = parts.need(&codes, &[DType::I8], 2)?;
    let (rows, cols) = (q.shape[0], q.shape[1]);
    let axes = parts.axes(&scales);
    let s = parts.need(&scales, &SCALES, axes)?;
    let (side, groups) = match s.shape[..] {
        [] | [1] => (Side::One, 1),
        [n] if n == rows => (Side::Row, 1),
        [n, groups] if n == rows => (Side::Row, groups),
        _ => return Err(wrong(&scales, &s, format!("one scale, or some for each of {rows} rows"))),
    };
    let grouped = grouped(&scales, &s, groups, cols, cols.checked_div(groups), None)?;
    let zeros = zero_points(parts, stem, 8, rows, groups)?;
    parts.of_activations(stem);
    let (codes, scales, dtype) = ((codes, Packing::Bytes), (scales, side), DType::F32);
    Ok(Integers { dtype, rows, cols, bits: 8, codes, scales, zeros, groups: grouped, order: None }
        .made(s.dtype))
}

/// compressed-tensors' zeros: none, in words, or in bytes.
fn zero_points(
    parts: &mut Parts<'_>,
    stem: &str,
    bits: usize,
    rows: usize,
    groups: usize,
) -> Result<Zeros, Cause> {
    let name = format!("{stem}.weight_zero_point");
    let Some(z) = parts.find(&name) else { return Ok(Zeros::Middle) };
    if z.dtype == DType::I32 {
        shaped(&name, &z, &[rows.div_ceil(32 / bits), groups])?;
        return Ok(Zeros::Along(name));
    }
    if z.dtype != DType::I8 {
        return Err(wrong(&name, &z, "I32 or I8".to_owned()));
    }
    shaped(&name, &z, &[rows, groups])?;
    let half = 1i32 << (bits - 1);
    let beyond = z.bytes.iter().position(|z| !(-half..half).contains(&i32::from(*z as i8)));
    if let Some(at) = beyond {
        let expected = format!("{} to {}", -half, half - 1);
        let found = i64::from(z.bytes[at] as i8);
        return Err(Cause::PartValue { tensor: name, at, found, expected });
    }
    Ok(Zeros::Bytes(name))
}

/// Each input's group, below `count`.
fn indices(name: &str, t: &Tensor<'_>, cols: usize, count: usize) -> Result<Vec<u32>, Cause> {
    if t.dtype != DType::I32 {
        return Err(wrong(name, t, "I32".to_owned()));
    }
    shaped(name, t, &[cols])?;
    let all: Vec<u32> = t.bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    match all.iter().position(|group| *group as usize >= count) {
        None => Ok(all),
        Some(at) => {
            let expected = format!("a group below {count}");
            let found = i64::from(all[at] as i32);
            Err(Cause::PartValue { tensor: name.to_owned(), at, found, expected })
        }
    }
}

/// Which of `count` groups inputs are in: as `listed`, or `size` each.
fn grouped(
    name: &str,
    scales: &Tensor<'_>,
    count: usize,
    cols: usize,
    size: Option<usize>,
    listed: Option<Vec<u32>>,
) -> Result<Groups, Cause> {
    let size = size.unwrap_or(0).max(1);
    let even = |all: &[u32]| all.iter().enumerate().all(|(i, g)| i / size == *g as usize);
    if cols.div_ceil(size) != count {
        let expected =
            format!("scales of {} groups of {size} of {cols} inputs", cols.div_ceil(size));
        return Err(wrong(name, scales, expected));
    }
    Ok(listed.filter(|all| !even(all)).map_or(Groups::Even(size), Groups::Listed))
}

/// Whether all of these zeros of `bits` are half of the codes' range, less what they are short of.
fn all_middle(zeros: &Tensor<'_>, bits: usize, short: u32) -> bool {
    // A stream of 3 bits is the same again after three words.
    let stream =
        (0..96 / bits).fold(0u128, |all, i| all | (middle(bits) - u128::from(short)) << (i * bits));
    let words = zeros.bytes.as_chunks::<4>().0;
    let row = zeros.shape.get(1).copied().unwrap_or(0).max(1);
    let of = |i: usize| (stream >> (32 * (i % row % 3))) as u32;
    words.iter().enumerate().all(|(i, word)| u32::from_le_bytes(*word) == of(i))
}

fn middle(bits: usize) -> u128 {
    1 << (bits - 1)
}

fn sizes(t: &Tensor<'_>) -> Vec<usize> {
    let each = t.dtype.format().bytes;
    let size = |b: &[u8]| match *b {
        [a, b, c, d, 0, 0, 0, 0] | [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => usize::MAX,
    };
    t.bytes.chunks(each).map(size).collect()
}

/// The `i`th scale.
pub(super) fn scale(t: &Tensor<'_>, i: usize) -> f32 {
    let two = || u16::from_le_bytes([t.bytes[2 * i], t.bytes[2 * i + 1]]);
    match t.dtype {
        DType::F16 => f16::from_bits(two()).to_f32(),
        DType::Bf16 => bf16::from_bits(two()).to_f32(),
        _ => f32::from_le_bytes(t.bytes.as_chunks().0[i]),
    }
}

impl Integers {
    /// The same as a tensor, of the type that holds it.
    fn made(mut self, scales: DType) -> Made {
        let middle = matches!(self.zeros, Zeros::Middle);
        let of = |run| dtype(scales, self.bits, middle, run);
        let (as_is, order) = match &self.groups {
            Groups::Even(size) => {
                let fits = |run| size.is_multiple_of(run) || *size >= self.cols;
                (of(Run::of(self.cols, fits)), None)
            }
            Groups::Listed(all) => {
                let (order, run) = sorted(all);
                (DType::F32, Some((of(run), order)))
            }
        };
        let order = order.filter(|(dtype, _)| *dtype != DType::F32);
        (self.dtype, self.order) = (as_is, order.clone());
        Made::new(self.dtype, vec![self.rows, self.cols], self).with_order(order)
    }

    /// Appends blocks of the codes of `rows` that `columns` yield, in their order; or floats.
    fn put(
        &self,
        raw: &dyn Weights,
        rows: Range<usize>,
        dtype: DType,
        order: Option<&[u32]>,
        out: &mut Vec<u8>,
    ) {
        let z = self.zeros.name().and_then(|name| raw.get(name));
        let (Some(q), Some(s)) = (raw.get(&self.codes.0), raw.get(&self.scales.0)) else { return };
        let (packing, side) = (self.codes.1, self.scales.1);
        let groups = match (side, &s.shape[..]) {
            (Side::Group, [groups, _]) | (Side::Row, [_, groups]) => *groups,
            _ => 1,
        };
        let codes = packing.codes(&q, self.bits, self.rows, self.cols, rows.clone());
        let step = if dtype == DType::F32 { 1 } else { 32 };
        let mut ordered = vec![0; self.cols];
        for (r, row) in rows.zip(codes.chunks(self.cols)) {
            let row = match order {
                None => row,
                Some(order) => {
                    ordered.iter_mut().zip(order).for_each(|(q, k)| *q = row[*k as usize]);
                    &ordered[..]
                }
            };
            let of = |column: usize| {
                let column = order.map_or(column, |order| order[column] as usize);
                let group = match &self.groups {
                    Groups::Even(size) => column / size,
                    Groups::Listed(all) => all[column] as usize,
                };
                let at = match side {
                    Side::Group => group * self.rows + r,
                    Side::Row => r * groups + group,
                    Side::One => 0,
                };
                (scale(&s, at), self.zeros.zero(z.as_ref(), self.bits, r, (group, groups)))
            };
            let halved = matches!(dtype, DType::Q4_H | DType::Q8_H);
            for (b, block) in row.chunks(step).enumerate() {
                let first = of(b * step);
                let second = if halved { of(b * step + step / 2) } else { first };
                put(dtype, block, [first, second], out);
            }
        }
    }
}

/// Columns by their groups, and how many together are then of one.
fn sorted(groups: &[u32]) -> (Arc<[u32]>, Run) {
    let mut order: Vec<u32> = (0..groups.len() as u32).collect();
    order.sort_by_key(|column| groups[*column as usize]);
    let group = |column: &u32| groups[*column as usize];
    let one = |block: &[u32]| block.iter().all(|column| group(column) == group(&block[0]));
    let run = Run::of(groups.len(), |run| order.chunks(run).all(one));
    (order.into(), run)
}

impl Rows for Integers {
    fn write(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>) {
        self.put(raw, rows, self.dtype, None, out);
    }
    fn write_sorted(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>) {
        if let Some((dtype, order)) = &self.order {
            self.put(raw, rows, *dtype, Some(order), out);
        }
    }
}
