//! IQ2_XXS, IQ2_XS, IQ2_S: eight elements are a point of a lattice with signs.
use super::bits::{half_at, part, u16_at, u32_at};
use super::grid::{even_signs, points8, put};

const VALUES: [i8; 3] = [8, 25, 43];
static XXS: [[i8; 8]; 256] = points8(include_bytes!("grids/iq2_xxs.bin"), VALUES);
static XS: [[i8; 8]; 512] = points8(include_bytes!("grids/iq2_xs.bin"), VALUES);
static S: [[i8; 8]; 1024] = points8(include_bytes!("grids/iq2_s.bin"), VALUES);

/// d, then per 32 elements four points, and a word of four 7-bit signs under a 4-bit scale.
pub(super) fn xxs(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<66>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let d = half_at(block, 0);
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (points, word) = (part::<4>(block, 2 + 8 * i), u32_at(block, 6 + 8 * i));
            let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
            for (j, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                put(out, scale, &XXS[usize::from(points[j])], even_signs(word >> (7 * j)));
            }
        }
    }
}

/// d, 32 times a 9-bit point under 7-bit signs, 16 nibbles of scales.
pub(super) fn xs(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<74>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (d, scales) = (half_at(block, 0), part(block, 66));
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = u16_at(block, 2 + 2 * i);
            let signs = even_signs(u32::from(word >> 9));
            put(out, scale(d, scales, i), &XS[usize::from(word & 511)], signs);
        }
    }
}

/// d, the low bytes of 32 points, 32 bytes of signs, the points' high pairs, 16 nibbles of scales.
pub(super) fn s(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<82>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (d, high, scales) = (half_at(block, 0), part::<8>(block, 66), part(block, 74));
        let (low, signs) = (part::<32>(block, 2), part::<32>(block, 34));
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = usize::from(high[i / 4] >> (i % 4 * 2) & 3);
            put(out, scale(d, scales, i), &S[usize::from(low[i]) | high << 8], signs[i]);
        }
    }
}

/// The scale of the `i`th eight, from nibbles that serve 16 elements each.
fn scale(d: f32, nibbles: &[u8; 8], i: usize) -> f32 {
    d * (0.5 + f32::from(nibbles[i / 4] >> (i / 2 % 2 * 4) & 15)) * 0.25
}
