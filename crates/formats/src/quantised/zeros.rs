//! Blocks of 32 integers, written as the type that holds them without loss.
use crate::tensor::DType;
use half::{bf16, f16};

/// The type that holds `scale·(q - zero)` for codes of `bits`, where rows are whole blocks of one
/// scale and zero: `middle` says that all zeros are half of the codes' range.
pub(super) fn dtype(scales: DType, bits: usize, middle: bool, whole: bool) -> DType {
    match (scales, bits, middle) {
        _ if !whole => DType::F32,
        (DType::F16, ..=4, true) => DType::Q4_0,
        (DType::F16, ..=4, false) => DType::Q4_Z,
        (DType::Bf16, ..=4, _) => DType::Q4_B,
        (DType::F16, _, true) => DType::Q8_0,
        (DType::F16, _, false) => DType::Q8_Z,
        (_, ..=4, _) | (_, _, true) => DType::Q8_F,
        _ => DType::F32,
    }
}

/// Appends the block of `q`, or as many floats.
pub(super) fn put(dtype: DType, q: &[u8], scale: f32, zero: i32, out: &mut Vec<u8>) {
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
        _ => out.extend(q.iter().flat_map(|q| (scale * signed(q) as f32).to_le_bytes())),
    }
}
