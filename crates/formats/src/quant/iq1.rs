//! IQ1_S, IQ1_M: eight elements are a point of a ternary lattice, moved by an eighth.
use super::bits::{half_at, part, u16_at};
use super::grid::points8;
use half::f16;

static POINTS: [[i8; 8]; 2048] = points8(include_bytes!("grids/iq1_s.bin"), [-1, 0, 1]);

/// d, the low bytes of 32 points, then per 32 elements a word: four times three high bits, a 3-bit
/// scale, the direction.
pub(super) fn s(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<50>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let d = half_at(block, 0);
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (low, word) = (part::<4>(block, 2 + 4 * i), u16_at(block, 34 + 2 * i));
            let scale = d * f32::from(2 * (word >> 12 & 7) + 1);
            let down = word & 0x8000 != 0;
            for (j, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let high = usize::from(word >> (3 * j) & 7);
                put(out, scale, usize::from(low[j]) | high << 8, down);
            }
        }
    }
}

/// The low bytes of 32 points, per point a nibble of three high bits and the direction, then four
/// words of four 3-bit scales, each with a nibble of d.
pub(super) fn m(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<56>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let words: [u16; 4] = std::array::from_fn(|i| u16_at(block, 48 + 2 * i));
        let bits = (0..4).fold(0, |bits, i| bits | words[i] >> 12 << (4 * i));
        let d = f16::from_bits(bits).to_f32();
        let (low, high) = (part::<32>(block, 0), part::<16>(block, 32));
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // A scale serves 16 elements, a word 64.
            let scale = d * f32::from(2 * (words[i / 8] >> (i / 2 % 4 * 3) & 7) + 1);
            let high = high[i / 2] >> (i % 2 * 4);
            let point = usize::from(low[i]) | usize::from(high & 7) << 8;
            put(out, scale, point, high & 8 != 0);
        }
    }
}

fn put(out: &mut [f32; 8], scale: f32, point: usize, down: bool) {
    let delta = if down { -0.125 } else { 0.125 };
    for (out, x) in out.iter_mut().zip(&POINTS[point]) {
        *out = scale * (f32::from(*x) + delta);
    }
}
