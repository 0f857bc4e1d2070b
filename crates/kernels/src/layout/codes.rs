//! Codes of a panel, 32 inputs at a time: 16 rows interleaved, 4 inputs of a row to a 32-bit lane.
//!
//! The 32 inputs are 8 groups of 4. Byte `4·r + i` of a 64-byte vector belongs to input `i` of a
//! group's row `r`, and holds, by the bits to a code:
//!
//! | bits | vectors | what a byte holds |
//! |---|---|---|
//! | 8 | 8 | vector `g`: group `g` |
//! | 4 | 4 | vector `j`: groups `2j` (low nibble) and `2j + 1` |
//! | 5 | 5 | a vector of high bits, bit `g` being group `g`'s; then as 4 |
//! | 6 | 6 | twice: a vector of high bit pairs, bits `2i` and up being the `i`th of four groups'; then their two as in 4 |
//! | 2 | 2 | as the two of high bit pairs in 6 |
//! | 3 | 3 | a vector of high bits as in 5; then as 2 |
//!
//! So a product uses them in the order in which they lie.
use super::PANEL;

/// Bytes to a vector.
const VECTOR: usize = 4 * PANEL;

/// Writes 32 inputs of 16 rows. `out` is `64·bits` bytes.
pub(super) fn put(bits: usize, rows: &[&[u8; 32]; PANEL], out: &mut [u8]) {
    let (vectors, _) = out.as_chunks_mut::<VECTOR>();
    match bits {
        8 => fill::<8>(vectors, rows, words),
        4 => fill::<4>(vectors, rows, nibbles),
        5 => fill::<5>(vectors, rows, |q| {
            let [a, b, c, d] = nibbles(q);
            [plane(q, 4), a, b, c, d]
        }),
        3 => fill::<3>(vectors, rows, |q| {
            let [a, b] = pairs(q, 0);
            [plane(q, 2), a, b]
        }),
        6 => fill::<6>(vectors, rows, |q| {
            let ([a, b, c, d], [e, f]) = (nibbles(q), pairs(q, 4));
            [e, a, b, f, c, d]
        }),
        _ => fill::<2>(vectors, rows, |q| pairs(q, 0)),
    }
}

/// Lane `r` of vector `j` becomes word `j` of row `r`.
#[inline(always)]
fn fill<const N: usize>(
    vectors: &mut [[u8; VECTOR]],
    rows: &[&[u8; 32]; PANEL],
    words: impl Fn(&[u8; 32]) -> [u32; N],
) {
    let vectors: &mut [[u8; VECTOR]; N] = vectors.try_into().expect("a vector a word");
    for (r, row) in rows.iter().enumerate() {
        for (vector, word) in vectors.iter_mut().zip(words(row)) {
            vector.as_chunks_mut::<4>().0[r] = word.to_le_bytes();
        }
    }
}

/// A word a group.
fn words(q: &[u8; 32]) -> [u32; 8] {
    let (groups, _) = q.as_chunks();
    std::array::from_fn(|g| u32::from_le_bytes(groups[g]))
}

/// Groups `2j` and `2j + 1`, by `j`.
#[inline(always)]
fn twos(q: &[u8; 32]) -> [u64; 4] {
    let (groups, _) = q.as_chunks();
    std::array::from_fn(|j| u64::from_le_bytes(groups[j]))
}

/// The low nibbles of two groups in one word.
fn nibbles(q: &[u8; 32]) -> [u32; 4] {
    twos(q).map(|two| {
        let low = two & 0x0f0f_0f0f_0f0f_0f0f;
        (low | low >> 28) as u32
    })
}

/// Bit `from` of the codes of all groups in one word.
fn plane(q: &[u8; 32], from: u32) -> u32 {
    let bit = |two: u64| two >> from & 0x0101_0101_0101_0101;
    let [a, b, c, d] = twos(q).map(bit);
    let all = a | b << 2 | c << 4 | d << 6;
    (all | all >> 31) as u32
}

/// Bits `from` and `from + 1` of the codes of four groups in one word.
fn pairs(q: &[u8; 32], from: u32) -> [u32; 2] {
    let pair = |two: u64| two >> from & 0x0303_0303_0303_0303;
    let [a, b, c, d] = twos(q).map(pair);
    [a | b << 4, c | d << 4].map(|all| (all | all >> 30) as u32)
}

/// Row `r`'s 32 codes: the inverse of [`put`].
pub(super) fn get(bits: usize, block: &[u8], r: usize) -> [u8; 32] {
    std::array::from_fn(|k| {
        let (g, lane) = (k / 4, 4 * r + k % 4);
        let byte = |vector: usize| block[VECTOR * vector + lane];
        let nibble = |vector: usize| byte(vector) >> (4 * (g % 2)) & 15;
        let pair = |vector: usize| byte(vector) >> (2 * (g % 4)) & 3;
        match bits {
            8 => byte(g),
            4 => nibble(g / 2),
            5 => nibble(1 + g / 2) | (byte(0) >> g & 1) << 4,
            6 => nibble(3 * (g / 4) + 1 + g / 2 % 2) | pair(3 * (g / 4)) << 4,
            3 => pair(1 + g / 4) | (byte(0) >> g & 1) << 2,
            _ => pair(g / 4),
        }
    })
}

/// By input, all rows' codes of `BITS` bits: as [`get`] has them.
#[inline(always)]
pub(super) fn all<const BITS: usize>(block: &[u8]) -> [[u32; PANEL]; 32] {
    let mut out = [[0; PANEL]; 32];
    for (g, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let part = |vector: usize, from: usize, bits: usize| -> [u32; PANEL] {
            let words = block[VECTOR * vector..][..VECTOR].as_chunks::<4>().0;
            // Of all four inputs at once.
            let mask = 0x0101_0101 * ((1 << bits) - 1);
            std::array::from_fn(|r| u32::from_le_bytes(words[r]) >> from & mask)
        };
        let nibble = |vector: usize| part(vector, 4 * (g % 2), 4);
        let pair = |vector: usize| part(vector, 2 * (g % 4), 2);
        let with = |low: [u32; PANEL], high: [u32; PANEL], at: u32| -> [u32; PANEL] {
            std::array::from_fn(|r| low[r] | high[r] << at)
        };
        let words = match BITS {
            8 => part(g, 0, 8),
            4 => nibble(g / 2),
            5 => with(nibble(1 + g / 2), part(0, g, 1), 4),
            6 => with(nibble(3 * (g / 4) + 1 + g / 2 % 2), pair(3 * (g / 4)), 4),
            3 => with(pair(1 + g / 4), part(0, g, 1), 2),
            _ => pair(g / 4),
        };
        for (i, out) in out.iter_mut().enumerate() {
            *out = std::array::from_fn(|r| words[r] >> (8 * i) & 255);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        let all = |bits: usize, block: &[u8]| match bits {
            2 => all::<2>(block),
            3 => all::<3>(block),
            4 => all::<4>(block),
            5 => all::<5>(block),
            6 => all::<6>(block),
            _ => all::<8>(block),
        };
        for bits in [2, 3, 4, 5, 6, 8] {
            let code = |r: usize, k: usize| ((r * 89 + k * 57 + r * k) % (1 << bits)) as u8;
            let rows: [[u8; 32]; PANEL] =
                std::array::from_fn(|r| std::array::from_fn(|k| code(r, k)));
            let mut block = vec![0; 64 * bits];
            put(bits, &rows.each_ref(), &mut block);
            for (r, row) in rows.iter().enumerate() {
                assert_eq!(get(bits, &block, r), *row, "{bits} bits, row {r}");
                let all = all(bits, &block).map(|lanes| lanes[r] as u8);
                assert_eq!(all, *row, "{bits} bits, row {r}");
            }
        }
    }
}
