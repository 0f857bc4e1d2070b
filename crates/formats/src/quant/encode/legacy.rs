//! Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: blocks of 32.
use super::search::{code, inverse, line, scale};
use super::weights;
use half::f16;

/// d, 16 bytes of nibbles: codes from -8 to 7, biased by 8.
pub(super) fn q4_0(x: &[f32; 32]) -> [u8; 18] {
    let (d, q) = symmetric(x, -8.0, 7.0);
    let mut out = [0; 18];
    out[..2].copy_from_slice(&d.to_le_bytes());
    nibbles(&q.map(|q| (q + 8) as u8), &mut out[2..]);
    out
}

/// d, m, 16 bytes of nibbles.
pub(super) fn q4_1(x: &[f32; 32]) -> [u8; 20] {
    let (d, m, q) = affine(x, 15.0);
    let mut out = [0; 20];
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..4].copy_from_slice(&m.to_le_bytes());
    nibbles(&q, &mut out[4..]);
    out
}

/// d, the 32 fifth bits, 16 bytes of nibbles: codes from -16 to 15, biased by 16.
pub(super) fn q5_0(x: &[f32; 32]) -> [u8; 22] {
    let (d, q) = symmetric(x, -16.0, 15.0);
    let q = q.map(|q| (q + 16) as u8);
    let mut out = [0; 22];
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..6].copy_from_slice(&fifths(&q));
    nibbles(&q, &mut out[6..]);
    out
}

/// d, m, the 32 fifth bits, 16 bytes of nibbles.
pub(super) fn q5_1(x: &[f32; 32]) -> [u8; 24] {
    let (d, m, q) = affine(x, 31.0);
    let mut out = [0; 24];
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..4].copy_from_slice(&m.to_le_bytes());
    out[4..8].copy_from_slice(&fifths(&q));
    nibbles(&q, &mut out[8..]);
    out
}

/// d, 32 signed bytes.
pub(super) fn q8_0(x: &[f32; 32]) -> [u8; 34] {
    let (d, q) = symmetric(x, -127.0, 127.0);
    let mut out = [0; 34];
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..].copy_from_slice(&q.map(|q| q as u8));
    out
}

/// The scale and the codes within `low..=high` that come nearest to `x`.
fn symmetric(x: &[f32; 32], low: f32, high: f32) -> (f16, [i8; 32]) {
    let d = f16::from_f32(scale(x, &weights(x), low, high));
    let inverse = inverse(d.to_f32());
    (d, x.map(|x| code(x * inverse, low, high) as i8))
}

/// Scale, offset and codes within `0..=high` that come nearest to `x`.
fn affine(x: &[f32; 32], high: f32) -> (f16, f16, [u8; 32]) {
    let line = line(x, &weights(x), high, false);
    let (d, m) = (f16::from_f32(line.scale), f16::from_f32(line.offset));
    let (inverse, offset) = (inverse(d.to_f32()), m.to_f32());
    (d, m, x.map(|x| code((x - offset) * inverse, 0.0, high) as u8))
}

/// The low four bits of each code, the second half's above the first's.
fn nibbles(q: &[u8; 32], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = q[i] & 15 | q[i + 16] << 4;
    }
}

/// The fifth bit of each code.
fn fifths(q: &[u8; 32]) -> [u8; 4] {
    let bits = q.iter().rev().fold(0u32, |bits, q| bits << 1 | u32::from(q >> 4 & 1));
    bits.to_le_bytes()
}
