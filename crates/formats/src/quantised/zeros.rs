//! Blocks of 32 integers, written as the type that holds them without loss.
use crate::tensor::DType;
use half::{bf16, f16};

/// The type that holds `scale·(q - zero)` for codes of `bits`, where rows are whole blocks of 32, each of
/// one scale and zero, or each half of it: `middle` says that all zeros are half of the codes' range.
pub(super) fn dtype(scales: DType, bits: usize, middle: bool, run: Run) -> DType {
    match (run, scales, bits, middle) {
        (Run::Short, ..) => DType::F32,
        (Run::Half, _, ..=4, _) | (_, DType::F32, ..=4, _) => DType::Q4_H,
        (Run::Half, ..) => DType::Q8_H,
        (_, DType::F16, ..=4, true) => DType::Q4_0,
        (_, DType::F16, ..=4, false) => DType::Q4_Z,
        (_, _, ..=4, _) => DType::Q4_B,
        (_, DType::F16, _, true) => DType::Q8_0,
        (_, DType::F16, _, false) => DType::Q8_Z,
        (_, _, _, true) => DType::Q8_F,
        (_, _, _, false) => DType::Q8_FZ,
    }
}

/// How many inputs next to each other are sure to have one scale and zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Run {
    Short,
    /// 16, of which two make a block.
    Half,
    /// A block.
    Whole,
}

impl Run {
    /// Of rows of `cols` inputs for which `fits` says that so many have one.
    pub fn of(cols: usize, fits: impl Fn(usize) -> bool) -> Run {
        match cols.is_multiple_of(32) {
            true if fits(32) => Run::Whole,
            true if fits(16) => Run::Half,
            _ => Run::Short,
        }
    }
}

/// A block's scale and zero, or each half's.
pub(super) type Halves = [(f32, i32); 2];

/// Appends the block of `q`, or as many floats. Of what has one scale, both halves' are alike.
pub(super) fn put(dtype: DType, q: &[u8], halves: Halves, out: &mut Vec<u8>) {
    let (scale, zero) = halves[0];
    let signed = |q: &u8| i32::from(*q) - zero;
    // The first half of the block lies in the low nibbles.
    let nibbles = |out: &mut Vec<u8>, bias: i32| {
        let ([low, high], _) = q.as_chunks::<16>() else { return };
        let nibble = |q: u8| q.wrapping_add(bias as u8) & 15;
        let bytes: [u8; 16] = std::array::from_fn(|i| nibble(low[i]) | nibble(high[i]) << 4);
        out.extend_from_slice(&bytes);
    };
    match dtype {
        DType::Q4_0 => {
            out.extend(f16::from_f32(scale).to_le_bytes());
            nibbles(out, 8 - zero);
        }
        DType::Q4_Z | DType::Q4_B => {
            let half = dtype == DType::Q4_Z;
            let half =
                if half { f16::from_f32(scale).to_bits() } else { bf16::from_f32(scale).to_bits() };
            out.extend(half.to_le_bytes());
            out.push(zero as u8);
            nibbles(out, 0);
        }
        DType::Q8_0 => {
            out.extend(f16::from_f32(scale).to_le_bytes());
            out.extend(q.iter().map(|q| signed(q) as u8));
        }
        DType::Q8_Z => {
            out.extend(f16::from_f32(scale).to_le_bytes());
            out.extend((zero as u16).to_le_bytes());
            out.extend_from_slice(q);
        }
        DType::Q8_F => {
            out.extend(scale.to_le_bytes());
            out.extend(q.iter().map(|q| (signed(q) + 128) as u8));
        }
        DType::Q8_FZ => {
            out.extend(scale.to_le_bytes());
            out.extend((zero as u16).to_le_bytes());
            out.extend_from_slice(q);
        }
        DType::Q4_H | DType::Q8_H => {
            halves.iter().for_each(|(scale, _)| out.extend(scale.to_le_bytes()));
            let wide = dtype == DType::Q8_H;
            for (_, zero) in halves {
                out.extend(&(zero as u16).to_le_bytes()[..if wide { 2 } else { 1 }]);
            }
            match wide {
                true => out.extend_from_slice(q),
                false => nibbles(out, 0),
            }
        }
        _ => out.extend(q.iter().flat_map(|q| (scale * signed(q) as f32).to_le_bytes())),
    }
}
