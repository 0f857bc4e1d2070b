//! IQ2_XXS, IQ2_XS, IQ2_S: eight elements are a point of a lattice with signs.
use super::bits::{part, u16_at, u32_at};
use super::codes::Codes;
use super::grid::{even_signs, points8, signed8};

static XXS: [u64; 256] = points8(include_bytes!("grids/iq2_xxs.bin"));
static XS: [u64; 512] = points8(include_bytes!("grids/iq2_xs.bin"));
static S: [u64; 1024] = points8(include_bytes!("grids/iq2_s.bin"));

/// d, then per 32 elements four points, and a word of four 7-bit signs under a 4-bit scale.
pub(super) fn xxs(bytes: &[u8], out: &mut Codes) {
    each::<66>(bytes, out, |block, q, s| {
        let parts = q.as_chunks_mut::<32>().0.iter_mut().zip(s.as_chunks_mut::<2>().0);
        for (i, (q, s)) in parts.enumerate() {
            let (points, word) = (part::<4>(block, 2 + 8 * i), u32_at(block, 6 + 8 * i));
            *s = [(word >> 28) as u8; 2];
            for (j, q) in q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *q = signed8(XXS[usize::from(points[j])], even_signs(word >> (7 * j)));
            }
        }
    });
}

/// d, 32 times a 9-bit point under 7-bit signs, 16 nibbles of scales.
pub(super) fn xs(bytes: &[u8], out: &mut Codes) {
    each::<74>(bytes, out, |block, q, s| {
        *s = scales(part(block, 66));
        for (i, q) in q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = u16_at(block, 2 + 2 * i);
            *q = signed8(XS[usize::from(word & 511)], even_signs(u32::from(word >> 9)));
        }
    });
}

/// d, the low bytes of 32 points, 32 bytes of signs, the points' high pairs, 16 nibbles of scales.
pub(super) fn s(bytes: &[u8], out: &mut Codes) {
    each::<82>(bytes, out, |block, q, s| {
        *s = scales(part(block, 74));
        let (low, signs) = (part::<32>(block, 2), part::<32>(block, 34));
        let high = part::<8>(block, 66);
        for (i, q) in q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = usize::from(high[i / 4] >> (i % 4 * 2) & 3);
            *q = signed8(S[usize::from(low[i]) | high << 8], signs[i]);
        }
    });
}

/// Reads blocks that begin with d: their codes and scales.
fn each<const BYTES: usize>(
    bytes: &[u8],
    out: &mut Codes,
    read: impl Fn(&[u8], &mut [u8; 256], &mut [u8; 16]),
) {
    let blocks = bytes.as_chunks::<BYTES>().0.iter().zip(out.q.as_chunks_mut::<256>().0);
    let scales = out.d.iter_mut().zip(out.s.as_chunks_mut::<16>().0);
    for ((block, q), (d, s)) in blocks.zip(scales) {
        *d = u16_at(block, 0);
        read(block, q, s);
    }
}

/// Nibbles, low ones first.
fn scales(nibbles: &[u8; 8]) -> [u8; 16] {
    std::array::from_fn(|j| nibbles[j / 2] >> (j % 2 * 4) & 15)
}
