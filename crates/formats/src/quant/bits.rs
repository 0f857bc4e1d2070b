//! Parts of a block.

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

/// Bytes as words, so that all of them are shifted and masked at once: the vectoriser gives up on
/// bytes when it knows the shifts.
pub(super) fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES == 8 * WORDS) };
    std::array::from_fn(|i| u64::from_le_bytes(*part(bytes, 8 * i)))
}
/// The reverse of [`words`].
pub(super) fn put<const BYTES: usize, const WORDS: usize>(
    words: [u64; WORDS],
    out: &mut [u8; BYTES],
) {
    const { assert!(BYTES == 8 * WORDS) };
    for (out, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *out = word.to_le_bytes();
    }
}
/// `byte >> shift & mask` of each byte of a word.
pub(super) fn field(word: u64, shift: usize, mask: u8) -> u64 {
    word >> shift & each(mask)
}
/// A word of eight times `byte`.
pub(super) fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}
/// A word of eight bytes 0 or 1: the bits of `bits`, lowest first.
pub(super) fn spread(bits: u8) -> u64 {
    let one_each = each(bits) & u64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);
    // Carries any bit of a byte to its top.
    field(one_each + each(0x7f), 7, 1)
}
/// The low nibbles of 16 bytes, then the high ones.
pub(super) fn nibbles(packed: &[u8; 16], out: &mut [u8; 32]) {
    let [a, b] = words(packed);
    put([field(a, 0, 15), field(b, 0, 15), field(a, 4, 15), field(b, 4, 15)], out);
}
