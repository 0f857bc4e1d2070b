//! Stand-in until formats has `dequantise`.
use rinfer_formats::{DType, Tensor};

pub fn dequantise(t: &Tensor<'_>) -> Option<Vec<f32>> {
    let b = &t.bytes;
    Some(match t.dtype {
        DType::F32 => b.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        DType::Bf16 => b
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
            .collect(),
        DType::F16 => b.as_chunks().0.iter().map(|b| half(u16::from_le_bytes(*b))).collect(),
        _ => return None,
    })
}
fn half(h: u16) -> f32 {
    let (s, e, m) = (u32::from(h >> 15), u32::from(h >> 10 & 31), u32::from(h & 1023));
    let v =
        if e == 0 { m as f32 * 2f32.powi(-24) } else { f32::from_bits((e + 112) << 23 | m << 13) };
    if s == 1 { -v } else { v }
}
