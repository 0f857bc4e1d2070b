//! IQ1_S, IQ1_M: eight elements are a point of a ternary lattice, moved by an eighth.
use super::bits::{each, part, u16_at};
use super::codes::Codes;
use super::grid::points8;

static POINTS: [u64; 2048] = points8(include_bytes!("grids/iq1_s.bin"));

/// d, the low bytes of 32 points, then per 32 elements a word: four times three high bits, a 3-bit
/// scale, the direction.
pub(super) fn s(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<50>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let scales = out.d.iter_mut().zip(out.s.as_chunks_mut::<16>().0);
    for ((block, q), (d, s)) in blocks.zip(scales) {
        *d = u16_at(block, 0);
        let parts = q.as_chunks_mut::<32>().0.iter_mut().zip(s.as_chunks_mut::<2>().0);
        for (i, (q, s)) in parts.enumerate() {
            let (low, word) = (part::<4>(block, 2 + 4 * i), u16_at(block, 34 + 2 * i));
            *s = [(word >> 12 & 7) as u8; 2];
            for (j, q) in q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let high = usize::from(word >> (3 * j) & 7);
                *q = codes(usize::from(low[j]) | high << 8, word & 0x8000 != 0);
            }
        }
    }
}

/// The low bytes of 32 points, per point a nibble of three high bits and the direction, then four
/// words of four 3-bit scales, each with a nibble of d.
pub(super) fn m(bytes: &[u8], out: &mut Codes) {
    let blocks = bytes.as_chunks::<56>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let scales = out.d.iter_mut().zip(out.s.as_chunks_mut::<16>().0);
    for ((block, q), (d, s)) in blocks.zip(scales) {
        let words: [u16; 4] = std::array::from_fn(|i| u16_at(block, 48 + 2 * i));
        *d = (0..4).fold(0, |bits, i| bits | words[i] >> 12 << (4 * i));
        *s = std::array::from_fn(|j| (words[j / 4] >> (j % 4 * 3) & 7) as u8);
        let (low, high) = (part::<32>(block, 0), part::<16>(block, 32));
        for (i, q) in q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = high[i / 2] >> (i % 2 * 4);
            *q = codes(usize::from(low[i]) | usize::from(high & 7) << 8, high & 8 != 0);
        }
    }
}

/// Codes of a point, above which is the direction.
fn codes(point: usize, down: bool) -> [u8; 8] {
    (POINTS[point] | if down { each(4) } else { 0 }).to_le_bytes()
}
