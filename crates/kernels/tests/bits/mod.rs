//! What is compared bit by bit.
use rinfer_kernels::act::Block;

/// All of a block of 8-bit activations.
pub fn block(b: &Block) -> impl Iterator<Item = u32> + use<> {
    let sums = [b.minus, b.minus_32[0], b.minus_32[1]].map(|sum| sum as u32);
    let scales = [b.scale.to_bits(), b.fsum.to_bits()];
    b.q.map(|q| q as u32).into_iter().chain(scales).chain(sums)
}
