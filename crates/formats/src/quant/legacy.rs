//! Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: blocks of 32 with an f16 scale, and a minimum where the name ends
//! in 1.
use super::bits::{field, nibbles, part, put, spread, u16_at, words};
use super::codes::Codes;

/// d, 16 bytes of nibbles.
pub(super) fn q4_0(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<18>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), d) in blocks.zip(&mut out.d) {
        *d = u16_at(block, 0);
        nibbles(part(block, 2), q);
    }
}

/// d, m, 16 bytes of nibbles.
pub(super) fn q4_1(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<20>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), (d, m)) in blocks.zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        nibbles(part(block, 4), q);
    }
}

/// d, the 32 fifth bits, 16 bytes of nibbles.
pub(super) fn q5_0(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<22>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), d) in blocks.zip(&mut out.d) {
        *d = u16_at(block, 0);
        five_bits(part(block, 6), part(block, 2), q);
    }
}

/// d, m, the 32 fifth bits, 16 bytes of nibbles.
pub(super) fn q5_1(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<24>().0.iter().zip(out.q.as_chunks_mut().0);
    for ((block, q), (d, m)) in blocks.zip(out.d.iter_mut().zip(&mut out.m)) {
        (*d, *m) = (u16_at(block, 0), u16_at(block, 2));
        five_bits(part(block, 8), part(block, 4), q);
    }
}

/// d, 32 signed bytes.
pub(super) fn q8_0(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<34>().0.iter().zip(out.q.as_chunks_mut::<32>().0);
    for ((block, q), d) in blocks.zip(&mut out.d) {
        *d = u16_at(block, 0);
        for (q, byte) in q.iter_mut().zip(part::<32>(block, 2)) {
            // Adds 128.
            *q = byte ^ 0x80;
        }
    }
}

/// Nibbles as in [`nibbles`], each with its fifth bit.
fn five_bits(packed: &[u8; 16], fifth: &[u8; 4], q: &mut [u8; 32]) {
    let [a, b] = words(packed);
    let low = [field(a, 0, 15), field(b, 0, 15), field(a, 4, 15), field(b, 4, 15)];
    put(std::array::from_fn::<_, 4, _>(|i| low[i] | spread(fifth[i]) << 4), q);
}
