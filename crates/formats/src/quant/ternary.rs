//! TQ1_0, TQ2_0, Q1_0, Q2_0: one or two bits an element under an f16 scale.
use super::bits::{half_at, part};

/// 240 elements at five a byte in base 3, 16 at four a byte, d; -1, 0 or 1.
///
/// A byte is its digits' fraction of 1, times 256: multiplying by 3 moves a digit out at the top.
pub(super) fn tq1(bytes: &[u8], out: &mut [f32]) {
    fn digits(d: f32, packed: &[u8], out: &mut [f32]) {
        let mut power = 1u8;
        for out in out.chunks_exact_mut(packed.len()) {
            for (out, byte) in out.iter_mut().zip(packed) {
                let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
                *out = d * (f32::from(digit) - 1.0);
            }
            power = power.wrapping_mul(3);
        }
    }
    for (block, out) in bytes.as_chunks::<54>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let d = half_at(block, 52);
        digits(d, &block[..32], &mut out[..160]);
        digits(d, &block[32..48], &mut out[160..240]);
        digits(d, &block[48..52], &mut out[240..]);
    }
}

/// 64 bytes of four codes, d; the code less 1.
pub(super) fn tq2(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<66>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let d = half_at(block, 64);
        for (run, out) in out.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let packed = part::<32>(block, 32 * run);
            for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (out, byte) in out.iter_mut().zip(packed) {
                    *out = d * (f32::from(byte >> (2 * i) & 3) - 1.0);
                }
            }
        }
    }
}

/// d, 128 bits; 1 or -1.
pub(super) fn q1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<128>().0) {
        let d = half_at(block, 0);
        for (byte, out) in part::<16>(block, 2).iter().zip(out.as_chunks_mut::<8>().0) {
            for (i, out) in out.iter_mut().enumerate() {
                *out = if byte >> i & 1 == 1 { d } else { -d };
            }
        }
    }
}

/// d, 64 pairs of bits; the code less 1.
pub(super) fn q2(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        let d = half_at(block, 0);
        for (byte, out) in part::<16>(block, 2).iter().zip(out.as_chunks_mut::<4>().0) {
            for (i, out) in out.iter_mut().enumerate() {
                *out = d * (f32::from(byte >> (2 * i) & 3) - 1.0);
            }
        }
    }
}
