//! IQ4_NL and IQ4_XS: 4-bit codes for 16 values that are dense near zero.
use super::bits::{nibbles, part, u16_at};
use super::codes::Codes;

/// d, 16 bytes of nibbles.
pub(super) fn nl(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<18>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), d) in blocks.zip(&mut out.d) {
        *d = u16_at(block, 0);
        nibbles(part(block, 2), q);
    }
}

/// d, the high pairs of eight 6-bit scales, their low nibbles, 128 bytes of nibbles.
pub(super) fn xs(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<136>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let scales = out.d.iter_mut().zip(out.s.as_chunks_mut::<8>().0);
    for ((block, q), (d, s)) in blocks.zip(scales) {
        *d = u16_at(block, 0);
        let (high, low) = (u16_at(block, 2), part::<4>(block, 4));
        for (i, (q, s)) in q.as_chunks_mut().0.iter_mut().zip(s).enumerate() {
            let bits = low[i / 2] >> (i % 2 * 4) & 15 | ((high >> (2 * i) & 3) << 4) as u8;
            *s = bits.wrapping_sub(32);
            nibbles(part(block, 8 + 16 * i), q);
        }
    }
}
