//! The K formats: blocks of 256 with f16 scales, sub-blocks of 16 or 32 with small integer ones.
use super::bits::{part, u16_at};
use super::codes::Codes;

/// 16 bytes of scale and minimum nibbles, 64 bytes of codes, d, m.
pub(super) fn q2(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<84>().0.iter().zip(out.q.as_chunks_mut().0);
    let subs = out.s.as_chunks_mut::<16>().0.iter_mut().zip(out.t.as_chunks_mut::<16>().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 80), u16_at(block, 82));
        for ((s, t), both) in s.iter_mut().zip(t).zip(part::<16>(block, 0)) {
            (*s, *t) = (both & 15, both >> 4);
        }
        low_pairs(part(block, 16), q);
    }
}

/// 32 bytes of third bits, 64 bytes of low bits, 12 bytes of 6-bit scales, d. The value is
/// `d·(scale - 32)·(code - 4)`, which `W6K` holds with codes moved up by 28.
pub(super) fn q3(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<110>().0.iter().zip(out.q.as_chunks_mut().0);
    for (((block, q), s), d) in blocks.zip(out.s.as_chunks_mut().0).zip(&mut out.d) {
        *d = u16_at(block, 108);
        q3_scales(part(block, 96), s);
        low_pairs(part(block, 32), q);
        let high = part::<32>(block, 0);
        for (bit, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (q, high) in q.iter_mut().zip(high) {
                *q = (*q | (high >> bit & 1) << 2).wrapping_add(28);
            }
        }
    }
}

/// d, m, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
pub(super) fn q4(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<144>().0.iter().zip(out.q.as_chunks_mut().0);
    let subs = out.s.as_chunks_mut().0.iter_mut().zip(out.t.as_chunks_mut().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        scales_and_minima(part(block, 4), s, t);
        low_nibbles(part(block, 16), q);
    }
}

/// d, m, 12 bytes of 6-bit scales and minima, 32 bytes of fifth bits, 128 bytes of nibbles.
pub(super) fn q5(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<176>().0.iter().zip(out.q.as_chunks_mut().0);
    let subs = out.s.as_chunks_mut().0.iter_mut().zip(out.t.as_chunks_mut().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        scales_and_minima(part(block, 4), s, t);
        low_nibbles(part(block, 48), q);
        let high = part::<32>(block, 16);
        for (bit, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (q, high) in q.iter_mut().zip(high) {
                *q |= (high >> bit & 1) << 4;
            }
        }
    }
}

/// 128 bytes of nibbles, 64 bytes of high bits, 16 signed scales, d.
pub(super) fn q6(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<210>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    for (((block, q), s), d) in blocks.zip(out.s.as_chunks_mut::<16>().0).zip(&mut out.d) {
        *d = u16_at(block, 208);
        *s = *part(block, 192);
        for (half, q) in q.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let (low, high) = (part::<64>(block, 64 * half), part::<32>(block, 128 + 32 * half));
            for i in 0..32 {
                let (a, b, h) = (low[i], low[i + 32], high[i]);
                q[i] = a & 15 | (h & 3) << 4;
                q[i + 32] = b & 15 | (h >> 2 & 3) << 4;
                q[i + 64] = a >> 4 | (h >> 4 & 3) << 4;
                q[i + 96] = b >> 4 | (h >> 6) << 4;
            }
        }
    }
}

/// Four codes a byte: a run of 32 bytes holds 128, its lowest bits first.
fn low_pairs(packed: &[u8; 64], q: &mut [u8; 256]) {
    let runs = packed.as_chunks::<32>().0.iter().zip(q.as_chunks_mut::<128>().0);
    for (packed, q) in runs {
        for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (q, byte) in q.iter_mut().zip(packed) {
                *q = byte >> (2 * i) & 3;
            }
        }
    }
}

/// Two codes a byte: a run of 32 bytes holds 64, the low nibbles first.
fn low_nibbles(packed: &[u8; 128], q: &mut [u8; 256]) {
    let runs = packed.as_chunks::<32>().0.iter().zip(q.as_chunks_mut::<64>().0);
    for (packed, q) in runs {
        for (i, byte) in packed.iter().enumerate() {
            q[i] = byte & 15;
            q[i + 32] = byte >> 4;
        }
    }
}

/// Eight 6-bit scales and minima. The first four of each are the low bits of bytes 0 to 7; the
/// others have their low nibbles in bytes 8 to 11 and their high pairs atop the first.
fn scales_and_minima(packed: &[u8; 12], s: &mut [u8; 8], t: &mut [u8; 8]) {
    for i in 0..4 {
        let (scale, minimum, low) = (packed[i], packed[i + 4], packed[i + 8]);
        s[i] = scale & 63;
        t[i] = minimum & 63;
        s[i + 4] = low & 15 | scale >> 6 << 4;
        t[i + 4] = low >> 4 | minimum >> 6 << 4;
    }
}

/// Sixteen 6-bit scales less 32: low nibbles in bytes 0 to 7, high pairs in bytes 8 to 11.
fn q3_scales(packed: &[u8; 12], s: &mut [u8; 16]) {
    for (i, s) in s.iter_mut().enumerate() {
        let low = packed[i % 8] >> (i / 8 * 4) & 15;
        let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        *s = (low | high << 4).wrapping_sub(32);
    }
}
