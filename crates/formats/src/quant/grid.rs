//! The points of llama.cpp's lattice formats, from files of packed coordinates, and their signs.

/// `N` points of 8 coordinates, two bits each.
pub(super) const fn points8<const N: usize>(packed: &[u8], values: [i8; 3]) -> [[i8; 8]; N] {
    assert!(packed.len() == 2 * N);
    let mut points = [[0; 8]; N];
    let mut i = 0;
    while i < 8 * N {
        points[i / 8][i % 8] = values[(packed[i / 4] >> (i % 4 * 2) & 3) as usize];
        i += 1;
    }
    points
}

/// `N` points of 4 coordinates, four bits each.
pub(super) const fn points4<const N: usize>(packed: &[u8], values: [i8; 8]) -> [[i8; 4]; N] {
    assert!(packed.len() == 2 * N);
    let mut points = [[0; 4]; N];
    let mut i = 0;
    while i < 4 * N {
        points[i / 4][i % 4] = values[(packed[i / 2] >> (i % 2 * 4) & 7) as usize];
        i += 1;
    }
    points
}

/// Eight signs from seven bits: the eighth makes their number even.
pub(super) fn even_signs(bits: u32) -> u8 {
    let bits = (bits & 127) as u8;
    bits | ((bits.count_ones() & 1) << 7) as u8
}

/// Writes `scale` times a point, negated where `signs` has a bit.
pub(super) fn put<const N: usize>(out: &mut [f32; N], scale: f32, point: &[i8; N], signs: u8) {
    let signs = &SIGNS[usize::from(signs)];
    for ((out, x), sign) in out.iter_mut().zip(point).zip(signs) {
        *out = f32::from_bits((scale * f32::from(*x)).to_bits() ^ sign);
    }
}

/// Each byte's bits as sign bits of floats.
static SIGNS: [[u32; 8]; 256] = {
    let mut signs = [[0; 8]; 256];
    let mut i = 0;
    while i < 8 * 256 {
        signs[i / 8][i % 8] = (((i / 8) >> (i % 8) & 1) as u32) << 31;
        i += 1;
    }
    signs
};
