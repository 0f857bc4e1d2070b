//! TQ1_0, TQ2_0, Q1_0, Q2_0: one or two bits an element under an f16 scale; an element is its code less 1.
use super::bits::{field, part, put, spread, u16_at, words};
use super::codes::Codes;

/// 240 elements at five a byte in base 3, 16 at four a byte, d.
///
/// A byte is its digits' fraction of 1, times 256: multiplying by 3 moves a digit out at the top.
pub(super) fn tq1(bytes: &[u8], out: &mut Codes) {
    fn digits(packed: &[u8], q: &mut [u8]) {
        let mut power = 1u8;
        for q in q.chunks_exact_mut(packed.len()) {
            for (q, byte) in q.iter_mut().zip(packed) {
                *q = ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as u8;
            }
            power = power.wrapping_mul(3);
        }
    }
    each::<54, 256, 8>(bytes, 52, out, |block, q| {
        digits(&block[..32], &mut q[..160]);
        digits(&block[32..48], &mut q[160..240]);
        digits(&block[48..52], &mut q[240..]);
    });
}

/// 64 bytes of four codes, d.
pub(super) fn tq2(bytes: &[u8], out: &mut Codes) {
    each::<66, 256, 8>(bytes, 64, out, |block, q| {
        for (run, q) in q.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let packed: [u64; 4] = words(part::<32>(block, 32 * run));
            for (i, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                put(packed.map(|word| field(word, 2 * i, 3)), q);
            }
        }
    });
}

/// d, 128 bits; 0 or 2.
pub(super) fn q1(bytes: &[u8], out: &mut Codes) {
    each::<18, 128, 4>(bytes, 0, out, |block, q| {
        for (byte, q) in part::<16>(block, 2).iter().zip(q.as_chunks_mut::<8>().0) {
            *q = (spread(*byte) << 1).to_le_bytes();
        }
    });
}

/// d, 64 pairs of bits.
pub(super) fn q2(bytes: &[u8], out: &mut Codes) {
    each::<18, 64, 2>(bytes, 0, out, |block, q| {
        for (byte, q) in part::<16>(block, 2).iter().zip(q.as_chunks_mut::<4>().0) {
            *q = std::array::from_fn(|i| byte >> (2 * i) & 3);
        }
    });
}

/// Reads blocks of `N` elements, whose d is at `at`, and is that of `DS` times 32.
fn each<const BYTES: usize, const N: usize, const DS: usize>(
    bytes: &[u8],
    at: usize,
    out: &mut Codes,
    read: impl Fn(&[u8], &mut [u8; N]),
) {
    const { assert!(N == 32 * DS) };
    let blocks = bytes.as_chunks::<BYTES>().0.iter().zip(out.q.as_chunks_mut::<N>().0);
    for ((block, q), d) in blocks.zip(out.d.as_chunks_mut::<DS>().0) {
        *d = [u16_at(block, at); DS];
        read(block, q);
    }
}
