//! IQ4_NL and IQ4_XS: 4-bit codes for 16 values that are dense near zero.
use super::bits::{half_at, nibbles, part, u16_at};
use super::codes::Codes;

/// The values, plus 128.
pub(super) const VALUES: [u8; 16] =
    [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// d, 16 bytes of nibbles.
pub(super) fn nl(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<18>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), scale) in blocks.zip(&mut out.scale) {
        *scale = half_at(block, 0);
        look_up(&VALUES, part(block, 2), q);
    }
}

/// d, the high pairs of eight 6-bit scales, their low nibbles, 128 bytes of nibbles.
pub(super) fn xs(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<136>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    for ((block, q), scales) in blocks.zip(out.scale.as_chunks_mut::<8>().0) {
        let (d, high, low) = (half_at(block, 0), u16_at(block, 2), part::<4>(block, 4));
        let subs = q.as_chunks_mut().0.iter_mut().zip(scales);
        for (i, (q, scale)) in subs.enumerate() {
            let bits = low[i / 2] >> (i % 2 * 4) & 15 | ((high >> (2 * i) & 3) << 4) as u8;
            *scale = d * f32::from(bits as i8 - 32);
            look_up(&VALUES, part(block, 8 + 16 * i), q);
        }
    }
}

/// The low nibbles' values, then the high ones'. Every value is compared with, which vectors do
/// faster than a table is looked up in byte by byte.
pub(super) fn look_up(values: &[u8; 16], packed: &[u8; 16], q: &mut [u8; 32]) {
    nibbles(packed, q);
    for q in q {
        let chosen = |(code, value): (u8, &u8)| if *q == code { *value } else { 0 };
        *q = (0..).zip(values).map(chosen).fold(0, |all, one| all | one);
    }
}
