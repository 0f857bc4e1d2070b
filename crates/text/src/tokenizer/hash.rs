//! A short multiply-and-fold hash: start-up is hundreds of thousands of look-ups, and std's
//! SipHash would be half of it.

const K: u64 = 0x9E37_79B9_7F4A_7C15;

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

/// A 64-bit hash of a byte string.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut h = bytes.len() as u64 ^ 0x243F_6A88_85A3_08D3;
    let (words, rest) = bytes.as_chunks::<8>();
    for w in words {
        h = fold(h ^ u64::from_le_bytes(*w), K);
    }
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    fold(h ^ u64::from_le_bytes(tail), K)
}
