//! IQ3_XXS, IQ3_S: four elements are a point of a lattice with signs.
use super::bits::{half_at, part, u32_at};
use super::grid::{even_signs, points4, put};

static XXS: [[i8; 4]; 256] =
    points4(include_bytes!("grids/iq3_xxs.bin"), [4, 12, 20, 28, 36, 44, 52, 62]);
static S: [[i8; 4]; 512] = points4(include_bytes!("grids/iq3_s.bin"), [1, 3, 5, 7, 9, 11, 13, 15]);

/// d, 64 points, then per 32 elements a word of four 7-bit signs under a 4-bit scale.
pub(super) fn xxs(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<98>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let d = half_at(block, 0);
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (points, word) = (part::<8>(block, 2 + 8 * i), u32_at(block, 66 + 4 * i));
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            for (j, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let signs = even_signs(word >> (j / 2 * 7)) >> (j % 2 * 4);
                put(out, scale, &XXS[usize::from(points[j])], signs);
            }
        }
    }
}

/// d, the low bytes of 64 points, their ninth bits, 32 bytes of signs, 8 nibbles of scales.
pub(super) fn s(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<110>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (d, scales) = (half_at(block, 0), part::<4>(block, 106));
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scale = d * f32::from(1 + 2 * (scales[i / 2] >> (i % 2 * 4) & 15));
            let (points, signs) = (part::<8>(block, 2 + 8 * i), part::<4>(block, 74 + 4 * i));
            for (j, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let high = usize::from(block[66 + i] >> j & 1);
                let point = &S[usize::from(points[j]) | high << 8];
                put(out, scale, point, signs[j / 2] >> (j % 2 * 4));
            }
        }
    }
}
