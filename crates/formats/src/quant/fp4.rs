//! MXFP4 and NVFP4: 4-bit floats (E2M1) under an 8-bit scale. OCP Microscaling Formats 1.0.
use super::bits::part;
use super::codes::Codes;
use super::iq4::look_up;

/// Twice E2M1's values (scales are halved instead, and values stay integers), plus 128.
pub(super) const VALUES: [u8; 16] =
    [128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116];

/// A scale E8M0, 16 bytes of nibbles.
pub(super) fn mxfp4(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<17>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), scale) in blocks.zip(&mut out.scale) {
        *scale = half_e8m0(block[0]);
        look_up(&VALUES, part(block, 1), q);
    }
}

/// Four scales E4M3, then for each 8 bytes of nibbles, low ones first.
pub(super) fn nvfp4(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<36>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let d = half_e4m3(block[i]);
            let value = |code: u8| d * (f32::from(VALUES[usize::from(code)]) - 128.0);
            for (j, byte) in part::<8>(block, 4 + 8 * i).iter().enumerate() {
                out[j] = value(byte & 15);
                out[j + 8] = value(byte >> 4);
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
