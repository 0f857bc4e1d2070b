//! IQ3_XXS, IQ3_S: four elements are a point of a lattice with signs.
use super::bits::{part, u16_at, u32_at};
use super::codes::Codes;
use super::grid::{even_signs, points4, signed4};

static XXS: [u32; 256] = points4(include_bytes!("grids/iq3_xxs.bin"));
static S: [u32; 512] = points4(include_bytes!("grids/iq3_s.bin"));

/// d, 64 points, then per 32 elements a word of four 7-bit signs under a 4-bit scale.
pub(super) fn xxs(bytes: &[u8], out: &mut Codes) {
    each::<98>(bytes, out, |block, i, q| {
        let (points, word) = (part::<8>(block, 2 + 8 * i), u32_at(block, 66 + 4 * i));
        for (j, q) in q.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let signs = even_signs(word >> (j / 2 * 7)) >> (j % 2 * 4);
            *q = signed4(XXS[usize::from(points[j])], signs);
        }
        (word >> 28) as u8
    });
}

/// d, the low bytes of 64 points, their ninth bits, 32 bytes of signs, 8 nibbles of scales.
pub(super) fn s(bytes: &[u8], out: &mut Codes) {
    each::<110>(bytes, out, |block, i, q| {
        let (points, signs) = (part::<8>(block, 2 + 8 * i), part::<4>(block, 74 + 4 * i));
        for (j, q) in q.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let high = usize::from(block[66 + i] >> j & 1);
            *q = signed4(S[usize::from(points[j]) | high << 8], signs[j / 2] >> (j % 2 * 4));
        }
        block[106 + i / 2] >> (i % 2 * 4) & 15
    });
}

/// Reads blocks that begin with d, 32 elements at a time: their codes, and the scale.
fn each<const BYTES: usize>(
    bytes: &[u8],
    out: &mut Codes,
    read: impl Fn(&[u8], usize, &mut [u8; 32]) -> u8,
) {
    let blocks = bytes.as_chunks::<BYTES>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let scales = out.d.iter_mut().zip(out.s.as_chunks_mut::<16>().0);
    for ((block, q), (d, s)) in blocks.zip(scales) {
        *d = u16_at(block, 0);
        let parts = q.as_chunks_mut::<32>().0.iter_mut().zip(s.as_chunks_mut::<2>().0);
        parts.enumerate().for_each(|(i, (q, s))| *s = [read(block, i, q); 2]);
    }
}
