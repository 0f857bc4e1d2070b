//! The K formats: blocks of 256 with f16 scales, sub-blocks of 16 or 32 with small integer ones.
//!
//! A run of 32 bytes holds 32 codes in its lowest bits, the next 32 above them, and so on.
use super::bits::{field, part, put, u16_at, words};
use super::codes::Codes;

/// 16 bytes of scale and minimum nibbles, 64 bytes of codes, d, m.
pub(super) fn q2(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<84>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let subs = out.s.as_chunks_mut::<16>().0.iter_mut().zip(out.t.as_chunks_mut::<16>().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 80), u16_at(block, 82));
        for ((s, t), both) in s.iter_mut().zip(t).zip(part::<16>(block, 0)) {
            (*s, *t) = (both & 15, both >> 4);
        }
        unpack::<2>(&block[16..80], q, |_, _| 0);
    }
}

/// 32 bytes of third bits, 64 bytes of low bits, 12 bytes of 6-bit scales, d. The value is
/// `d·(scale - 32)·(code - 4)`.
pub(super) fn q3(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<110>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    for (((block, q), s), d) in blocks.zip(out.s.as_chunks_mut().0).zip(&mut out.d) {
        *d = u16_at(block, 108);
        q3_scales(part(block, 96), s);
        let high: [u64; 4] = words(part::<32>(block, 0));
        unpack::<2>(&block[32..96], q, |group, w| field(high[w], group, 1) << 2);
    }
}

/// d, m, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
pub(super) fn q4(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<144>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let subs = out.s.as_chunks_mut().0.iter_mut().zip(out.t.as_chunks_mut().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        scales_and_minima(part(block, 4), s, t);
        unpack::<4>(&block[16..144], q, |_, _| 0);
    }
}

/// d, m, 12 bytes of 6-bit scales and minima, 32 bytes of fifth bits, 128 bytes of nibbles.
pub(super) fn q5(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<176>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let subs = out.s.as_chunks_mut().0.iter_mut().zip(out.t.as_chunks_mut().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        scales_and_minima(part(block, 4), s, t);
        let high: [u64; 4] = words(part::<32>(block, 16));
        unpack::<4>(&block[48..176], q, |group, w| field(high[w], group, 1) << 4);
    }
}

/// 128 bytes of nibbles, 64 bytes of high bits, 16 signed scales, d.
pub(super) fn q6(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<210>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    for (((block, q), s), d) in blocks.zip(out.s.as_chunks_mut::<16>().0).zip(&mut out.d) {
        *d = u16_at(block, 208);
        *s = *part(block, 192);
        for (run, q) in q.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let low: [u64; 8] = words(part::<64>(block, 64 * run));
            let high: [u64; 4] = words(part::<32>(block, 128 + 32 * run));
            for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let low = &low[i % 2 * 4..];
                let code = |w| field(low[w], i / 2 * 4, 15) | field(high[w], 2 * i, 3) << 4;
                put(std::array::from_fn::<_, 4, _>(code), q);
            }
        }
    }
}

/// Groups of 32 codes of `BITS` bits; `more(g, w)` is added to word `w` of group `g`, no code
/// growing beyond its byte.
fn unpack<const BITS: usize>(packed: &[u8], q: &mut [u8; 256], more: impl Fn(usize, usize) -> u64) {
    let groups = 8 / BITS;
    for (run, packed) in packed.as_chunks::<32>().0.iter().enumerate() {
        let packed: [u64; 4] = words(packed);
        for i in 0..groups {
            let group = groups * run + i;
            let code = |w| field(packed[w], BITS * i, (1 << BITS) - 1) + more(group, w);
            put(std::array::from_fn::<_, 4, _>(code), &mut q.as_chunks_mut::<32>().0[group]);
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
