//! Parts of a block.
use half::f16;

/// The `N` bytes of a block from `at` on.
pub(super) fn part<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..].first_chunk().expect("parts lie within their block")
}
/// A little-endian 16-bit number, or a half's bits.
pub(super) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*part(block, at))
}
/// A little-endian 32-bit number.
pub(super) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*part(block, at))
}
/// A half.
pub(super) fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(block, at)).to_f32()
}
/// The low nibbles of 16 bytes, then the high ones.
pub(super) fn nibbles(packed: &[u8; 16], out: &mut [u8; 32]) {
    for (i, byte) in packed.iter().enumerate() {
        out[i] = byte & 15;
        out[i + 16] = byte >> 4;
    }
}
