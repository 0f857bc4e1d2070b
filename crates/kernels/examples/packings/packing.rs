//! The packings, each made of the blocks of a Q4_1 file, and their dot product by definition.
//!
//! All take 20 bytes for 32 weights: two halves (a scale and a minimum) and 16 bytes of codes. A
//! group of 16 rows takes the same bytes in each, so that a matrix is its groups one after another.
use half::f16;
use rinfer_kernels::act::Block;

/// Rows to a group.
pub const ROWS: usize = 16;
/// Bytes to 32 weights of a row.
pub const BYTES: usize = 20;

/// How 16 rows lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Packing {
    /// A row after another, byte `i` of a block holding weights `2i` (low nibble) and `2i + 1`.
    Canonical,
    /// A row after another, byte `i` of a block holding weights `i` and `i + 16`: as in the file.
    Split,
    /// 8 rows interleaved, 4 weights of a row to a 32-bit lane; 160 bytes to a block of 32 inputs.
    Eight,
    /// As `Eight` with 16 rows and 320 bytes: what rinfer has.
    Sixteen,
    /// As `Sixteen`, the scales of all blocks first and then the codes of all.
    SixteenApart,
}

impl Packing {
    /// Packs 16 rows of `blocks` blocks each, as they are in a file.
    pub fn pack(self, file: &[u8], blocks: usize, out: &mut [u8]) {
        match self {
            Packing::Canonical => canonical(file, out),
            Packing::Split => out.copy_from_slice(file),
            Packing::Eight => {
                let half = 8 * blocks * BYTES;
                for (file, out) in file.chunks_exact(half).zip(out.chunks_exact_mut(half)) {
                    let (blocks, _) = out.as_chunks_mut::<{ 8 * BYTES }>();
                    for (b, out) in blocks.iter_mut().enumerate() {
                        let (head, codes) = out.split_at_mut(32);
                        interleave::<8>(file, b, head, codes);
                    }
                }
            }
            Packing::Sixteen => {
                let (blocks, _) = out.as_chunks_mut::<{ ROWS * BYTES }>();
                for (b, out) in blocks.iter_mut().enumerate() {
                    let (head, codes) = out.split_at_mut(64);
                    interleave::<16>(file, b, head, codes);
                }
            }
            Packing::SixteenApart => {
                let (heads, codes) = out.split_at_mut(64 * blocks);
                let each = heads.chunks_exact_mut(64).zip(codes.chunks_exact_mut(256));
                for (b, (head, codes)) in each.enumerate() {
                    interleave::<16>(file, b, head, codes);
                }
            }
        }
    }
}

/// Scales as they are; neighbours share a byte.
fn canonical(file: &[u8], out: &mut [u8]) {
    let blocks = file.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
    for (file, out) in blocks {
        out[..4].copy_from_slice(&file[..4]);
        for i in 0..8 {
            let [a, b] = [file[4 + 2 * i], file[5 + 2 * i]];
            out[4 + i] = a & 15 | b << 4;
            out[12 + i] = a >> 4 | b & 0xf0;
        }
    }
}

/// Block `b` of `N` rows: scales, then minima; then vectors of groups of 4 inputs, `2j` (low
/// nibbles) and `2j + 1` in vector `j`.
fn interleave<const N: usize>(file: &[u8], b: usize, head: &mut [u8], codes: &mut [u8]) {
    let (head, codes) = (head.as_chunks_mut::<2>().0, codes.as_chunks_mut::<4>().0);
    for (r, row) in file.chunks_exact(file.len() / N).enumerate() {
        let block = &row.as_chunks::<BYTES>().0[b];
        head[r] = [block[0], block[1]];
        head[N + r] = [block[2], block[3]];
        let (words, _) = block[4..].as_chunks();
        for (j, two) in words.chunks_exact(2).enumerate() {
            let [even, odd] = [two[0], two[1]].map(u32::from_le_bytes);
            let low = even & 0x0f0f_0f0f | odd << 4 & 0xf0f0_f0f0;
            let high = even >> 4 & 0x0f0f_0f0f | odd & 0xf0f0_f0f0;
            codes[N * j + r] = low.to_le_bytes();
            codes[N * (2 + j) + r] = high.to_le_bytes();
        }
    }
}

/// `Σ (d·q + m)·x` of a row as it is in a file, and the sum of its terms' magnitudes.
pub fn dot(row: &[u8], x: &[Block]) -> (f64, f64) {
    let (mut sum, mut size) = (0.0, 0.0);
    for (block, x) in row.as_chunks::<BYTES>().0.iter().zip(x) {
        let half = |i: usize| f64::from(f16::from_le_bytes([block[i], block[i + 1]]));
        for (k, x_q) in x.q.iter().enumerate() {
            let q = if k < 16 { block[4 + k] & 15 } else { block[4 + k - 16] >> 4 };
            let term = (half(0) * f64::from(q) + half(2)) * f64::from(*x_q) * f64::from(x.scale);
            sum += term;
            size += term.abs();
        }
    }
    (sum, size)
}
