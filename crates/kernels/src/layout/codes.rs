//! Codes of a panel, 32 inputs at a time: 16 rows interleaved, 4 inputs of a row to a 32-bit lane.
//!
//! The 32 inputs are 8 groups of 4. Byte `4·r + i` of a 64-byte vector belongs to input `i` of a
//! group's row `r`, and holds, by the bits to a code:
//!
//! | bits | vectors | what a byte holds |
//! |---|---|---|
//! | 8 | 8 | vector `g`: group `g` |
//! | 4 | 4 | vector `j`: groups `2j` (low nibble) and `2j + 1` |
//! | 5 | 5 | as 4, then one vector of high bits: bit `g` is group `g`'s |
//! | 6 | 6 | as 4, then two of high bit pairs: vector `h`, bits `2i` and up: group `4h + i` |
//! | 2 | 2 | as the two of 6 |
use super::PANEL;

/// Bytes to a vector.
const VECTOR: usize = 4 * PANEL;

/// One row's 32 codes as 8 words, in order.
pub(super) type Words = [u32; 8];

/// 32 codes as words.
pub(super) fn words(codes: &[u8; 32]) -> Words {
    let (quads, _) = codes.as_chunks::<4>();
    std::array::from_fn(|g| u32::from_le_bytes(quads[g]))
}

/// Writes 32 inputs of 16 rows. `out` is `64·bits` bytes.
pub(super) fn put(bits: usize, rows: &[Words; PANEL], out: &mut [u8]) {
    let (vectors, _) = out.as_chunks_mut::<VECTOR>();
    match bits {
        8 => (0..8).for_each(|g| fill(&mut vectors[g], rows, |w| w[g])),
        4 => put_nibbles(vectors, rows),
        5 => {
            put_nibbles(vectors, rows);
            fill(&mut vectors[4], rows, |w| plane(w, 0x1010_1010, |g| 4 - g));
        }
        6 => {
            put_nibbles(vectors, rows);
            put_pairs(&mut vectors[4..], rows, 4);
        }
        _ => put_pairs(vectors, rows, 0),
    }
}

fn put_nibbles(vectors: &mut [[u8; VECTOR]], rows: &[Words; PANEL]) {
    for j in 0..4 {
        fill(&mut vectors[j], rows, |w| {
            (w[2 * j] & 0x0f0f_0f0f) | (w[2 * j + 1] & 0x0f0f_0f0f) << 4
        });
    }
}

/// Bits `from` and `from + 1` of each code.
fn put_pairs(vectors: &mut [[u8; VECTOR]], rows: &[Words; PANEL], from: i32) {
    for (h, vector) in vectors.iter_mut().enumerate() {
        fill(vector, rows, |w| {
            let half: &[u32; 4] = if h == 0 { &w[..4] } else { &w[4..] }.try_into().expect("four");
            plane(half, 0x0303_0303 << from, |i| from - 2 * i)
        });
    }
}

/// The masked bits of each word, moved right by `right` (left where it is negative), in one word.
#[inline(always)]
fn plane<const N: usize>(words: &[u32; N], mask: u32, right: impl Fn(i32) -> i32) -> u32 {
    words.iter().enumerate().fold(0, |all, (g, &word)| {
        let by = right(g as i32);
        all | if by > 0 { (word & mask) >> by } else { (word & mask) << -by }
    })
}

#[inline(always)]
fn fill(vector: &mut [u8; VECTOR], rows: &[Words; PANEL], word: impl Fn(&Words) -> u32) {
    let (lanes, _) = vector.as_chunks_mut::<4>();
    for (lane, row) in lanes.iter_mut().zip(rows) {
        *lane = word(row).to_le_bytes();
    }
}

/// Row `r`'s 32 codes: the inverse of [`put`].
pub(super) fn get(bits: usize, block: &[u8], r: usize) -> [u8; 32] {
    std::array::from_fn(|k| {
        let (g, lane) = (k / 4, 4 * r + k % 4);
        let byte = |vector: usize| block[VECTOR * vector + lane];
        let nibble = || byte(g / 2) >> (4 * (g % 2)) & 15;
        let pair = |from: usize| byte(from + g / 4) >> (2 * (g % 4)) & 3;
        match bits {
            8 => byte(g),
            4 => nibble(),
            5 => nibble() | (byte(4) >> g & 1) << 4,
            6 => nibble() | pair(4) << 4,
            _ => pair(0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        for bits in [2, 4, 5, 6, 8] {
            let code = |r: usize, k: usize| ((r * 89 + k * 57 + r * k) % (1 << bits)) as u8;
            let rows: [[u8; 32]; PANEL] =
                std::array::from_fn(|r| std::array::from_fn(|k| code(r, k)));
            let mut block = vec![0; 64 * bits];
            put(bits, &rows.each_ref().map(words), &mut block);
            for (r, row) in rows.iter().enumerate() {
                assert_eq!(get(bits, &block, r), *row, "{bits} bits, row {r}");
            }
        }
    }
}
