//! MXFP4 and NVFP4: 4-bit floats (E2M1) under an 8-bit scale. OCP Microscaling Formats 1.0.
use super::bits::{nibbles, part};
use super::codes::Codes;
use half::{bf16, f16};

/// A scale E8M0, 16 bytes of nibbles.
pub(super) fn mxfp4(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<17>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), d) in blocks.zip(&mut out.d) {
        // Exact: a bfloat16 has the exponents of an f32.
        *d = bf16::from_f32(half_e8m0(block[0])).to_bits();
        nibbles(part(block, 1), q);
    }
}

/// Four scales E4M3, then for each 8 bytes of nibbles, low ones first.
pub(super) fn nvfp4(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<36>().0.iter().zip(out.q.as_chunks_mut::<64>().0);
    for ((block, q), d) in blocks.zip(out.d.as_chunks_mut::<4>().0) {
        *d = std::array::from_fn(|i| f16::from_f32(half_e4m3(block[i])).to_bits());
        for (i, q) in q.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            for (j, byte) in part::<8>(block, 4 + 8 * i).iter().enumerate() {
                (q[j], q[j + 8]) = (byte & 15, byte >> 4);
            }
        }
    }
}

/// Half of 2^(x - 127), subnormal for the lowest two.
pub(super) fn half_e8m0(x: u8) -> f32 {
    let x = u32::from(x);
    f32::from_bits(if x < 2 { 0x0020_0000 << x } else { (x - 1) << 23 })
}

/// Half of an unsigned E4M3 with bias 7. Its not-a-number counts as zero, as llama.cpp has it.
fn half_e4m3(x: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(x >> 3 & 15), f32::from(x & 7));
    match (exponent, x) {
        (_, 0x7f) => 0.0,
        (0, _) => mantissa * 0.5f32.powi(10),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 8),
    }
}
