//! The K formats: blocks of 256 with f16 scales, sub-blocks of 16 or 32 with small integer ones.
//!
//! A run of 32 bytes holds its first 32 codes in its lowest bits, the next 32 above them, and so on.
use super::bits::{each, field, part, put, u16_at, words};
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
        let runs = part::<64>(block, 16).as_chunks::<32>().0.iter();
        for (packed, q) in runs.zip(q.as_chunks_mut::<128>().0) {
            let packed: [u64; 4] = words(packed);
            for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                put(packed.map(|w| field(w, 2 * i, 3)), q);
            }
        }
    }
}

/// 32 bytes of third bits, 64 bytes of low bits, 12 bytes of 6-bit scales, d. The value is
/// `d·(scale - 32)·(code - 4)`, which `W6K` holds with codes moved up by 28.
pub(super) fn q3(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<110>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    for (((block, q), s), d) in blocks.zip(out.s.as_chunks_mut().0).zip(&mut out.d) {
        *d = u16_at(block, 108);
        q3_scales(part(block, 96), s);
        let high: [u64; 4] = words(part::<32>(block, 0));
        let runs = part::<64>(block, 32).as_chunks::<32>().0.iter();
        let runs = runs.zip(q.as_chunks_mut::<128>().0);
        for (run, (packed, q)) in runs.enumerate() {
            let packed: [u64; 4] = words(packed);
            for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let third = |w| field(high[w], 4 * run + i, 1) << 2;
                let code = |w| (field(packed[w], 2 * i, 3) | third(w)) + each(28);
                put(std::array::from_fn::<_, 4, _>(code), q);
            }
        }
    }
}

/// d, m, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
pub(super) fn q4(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<144>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let subs = out.s.as_chunks_mut().0.iter_mut().zip(out.t.as_chunks_mut().0);
    for (((block, q), (s, t)), (d, m)) in blocks.zip(subs).zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        scales_and_minima(part(block, 4), s, t);
        let runs = part::<128>(block, 16).as_chunks::<32>().0.iter();
        for (packed, q) in runs.zip(q.as_chunks_mut::<64>().0) {
            let packed: [u64; 4] = words(packed);
            for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                put(packed.map(|w| field(w, 4 * i, 15)), q);
            }
        }
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
        let runs = part::<128>(block, 48).as_chunks::<32>().0.iter();
        for (run, (packed, q)) in runs.zip(q.as_chunks_mut::<64>().0).enumerate() {
            let packed: [u64; 4] = words(packed);
            for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let fifth = |w| field(high[w], 2 * run + i, 1) << 4;
                let code = |w| field(packed[w], 4 * i, 15) | fifth(w);
                put(std::array::from_fn::<_, 4, _>(code), q);
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
