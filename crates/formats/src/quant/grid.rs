//! The points of llama.cpp's lattice formats, from files of packed coordinates, and their signs.
use super::bits::spread;

/// `N` points of 8 coordinates, two bits each, to a byte each.
pub(super) const fn points8<const N: usize>(packed: &[u8]) -> [u64; N] {
    assert!(packed.len() == 2 * N);
    let mut points = [0; N];
    let mut i = 0;
    while i < 8 * N {
        points[i / 8] |= ((packed[i / 4] >> (i % 4 * 2) & 3) as u64) << (i % 8 * 8);
        i += 1;
    }
    points
}

/// `N` points of 4 coordinates, four bits each, to a byte each.
pub(super) const fn points4<const N: usize>(packed: &[u8]) -> [u32; N] {
    assert!(packed.len() == 2 * N);
    let mut points = [0; N];
    let mut i = 0;
    while i < 4 * N {
        points[i / 4] |= ((packed[i / 2] >> (i % 2 * 4) & 7) as u32) << (i % 4 * 8);
        i += 1;
    }
    points
}

/// Eight signs from seven bits: the eighth makes their number even.
pub(super) fn even_signs(bits: u32) -> u8 {
    let bits = (bits & 127) as u8;
    bits | ((bits.count_ones() & 1) << 7) as u8
}

/// Codes of two bits, above which are their signs.
pub(super) fn signed8(point: u64, signs: u8) -> [u8; 8] {
    (point | spread(signs) << 2).to_le_bytes()
}

/// Codes of three bits, above which are the lower four signs.
pub(super) fn signed4(point: u32, signs: u8) -> [u8; 4] {
    (point | (spread(signs) as u32) << 3).to_le_bytes()
}
