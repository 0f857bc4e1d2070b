//! Blocks of 32 that quantised folders are translated to: integers with a zero or an f32 scale, or those of
//! each half; 8-bit floats; and bitsandbytes' codes.
use super::bits::{nibbles, part, u16_at};
use super::codes::Codes;

/// E4M3 as in OCP's 8-bit floats: no infinities, and one not-a-number of each sign.
pub(super) fn e4m3(bytes: &[u8], out: &mut [f32]) {
    for (out, byte) in out.iter_mut().zip(bytes) {
        *out = from_e4m3(*byte);
    }
}

/// The value of an E4M3.
pub(crate) fn from_e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let size = match (exponent, byte & 0x7f) {
        (_, 0x7f) => f32::NAN,
        (0, _) => mantissa * 0.5f32.powi(9),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    if byte & 0x80 == 0 { size } else { -size }
}

/// d, zero, 16 bytes of nibbles.
pub(super) fn q4_z(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<19>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), (d, z)) in blocks.zip(out.d.iter_mut().zip(&mut out.z)) {
        (*d, *z) = (u16_at(block, 0), u16::from(block[2]));
        nibbles(part(block, 3), q);
    }
}

/// d, zero (16 bits), 32 bytes.
pub(super) fn q8_z(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<36>().0.iter().zip(out.q.as_chunks_mut::<32>().0);
    for ((block, q), (d, z)) in blocks.zip(out.d.iter_mut().zip(&mut out.z)) {
        (*d, *z) = (u16_at(block, 0), u16_at(block, 2));
        q.copy_from_slice(&block[4..]);
    }
}

/// Scale (f32), zero (16 bits), 32 bytes.
pub(super) fn q8_fz(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<38>().0.iter().zip(out.q.as_chunks_mut::<32>().0);
    for ((block, q), (scale, z)) in blocks.zip(out.scale.iter_mut().zip(&mut out.z)) {
        (*scale, *z) = (f32::from_le_bytes(*part(block, 0)), u16_at(block, 4));
        q.copy_from_slice(&block[6..]);
    }
}

/// Two scales (f32), two zeros (16 bits), 32 bytes.
pub(super) fn q8_h(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<44>().0.iter().zip(out.q.as_chunks_mut::<32>().0);
    let twos = out.scale.as_chunks_mut().0.iter_mut().zip(out.z.as_chunks_mut().0);
    for ((block, q), (scale, z)) in blocks.zip(twos) {
        *scale = [0, 4].map(|at| f32::from_le_bytes(*part(block, at)));
        *z = [8, 10].map(|at| u16_at(block, at));
        q.copy_from_slice(&block[12..]);
    }
}

/// Two scales (f32), two zeros, 16 bytes of nibbles.
pub(super) fn q4_h(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<26>().0.iter().zip(out.q.as_chunks_mut().0);
    let twos = out.scale.as_chunks_mut().0.iter_mut().zip(out.z.as_chunks_mut().0);
    for ((block, q), (scale, z)) in blocks.zip(twos) {
        *scale = [0, 4].map(|at| f32::from_le_bytes(*part(block, at)));
        *z = [8, 9].map(|at| u16::from(block[at]));
        nibbles(part(block, 10), q);
    }
}

/// Scale (f32), 16 bytes of nibbles.
pub(super) fn q4_f(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<20>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), scale) in blocks.zip(&mut out.scale) {
        *scale = f32::from_le_bytes(*part(block, 0));
        nibbles(part(block, 4), q);
    }
}

/// Scale (f32), 32 bytes.
pub(super) fn q8_f(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<36>().0.iter().zip(out.q.as_chunks_mut::<32>().0);
    for ((block, q), scale) in blocks.zip(&mut out.scale) {
        *scale = f32::from_le_bytes(*part(block, 0));
        q.copy_from_slice(&block[4..]);
    }
}
