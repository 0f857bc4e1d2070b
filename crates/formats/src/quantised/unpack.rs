//! Codes and zeros out of 32-bit words.
use crate::tensor::Tensor;
use std::ops::Range;

/// How codes lie in their tensor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packing {
    /// `[words, rows]`: an output's inputs in a stream of bits, lowest first.
    Down,
    /// `[cols, words]`: eight outputs to a word, in [`AWQ`]'s order.
    Across,
    /// `[rows, words]`: an output's inputs in words, lowest first.
    Along,
    /// `[rows, cols]`: signed bytes.
    Bytes,
}

/// What is taken from codes.
#[derive(Debug)]
pub(super) enum Zeros {
    /// Half of their range.
    Middle,
    /// `[groups, words]`, a stream of bits; short of what they are by a number.
    Down(String, u32),
    /// `[groups, words]`, in [`AWQ`]'s order.
    Across(String),
    /// `[words, groups]`.
    Along(String),
    /// `[rows, groups]`, signed bytes.
    Bytes(String),
}

/// Four bits from `4·AWQ[i]` on are output `i` of eight.
const AWQ: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// The `i`th word.
fn word(t: &Tensor<'_>, i: usize) -> u32 {
    u32::from_le_bytes(t.bytes.as_chunks().0[i])
}

impl Packing {
    /// The codes of `rows` of `cols` inputs, of `all` rows, row by row.
    pub fn codes(
        self,
        q: &Tensor<'_>,
        bits: usize,
        all: usize,
        cols: usize,
        rows: Range<usize>,
    ) -> Vec<u8> {
        let mut out = vec![0; rows.len() * cols];
        match self {
            Packing::Down if bits == 3 => down_by_three(q, all, rows, cols, &mut out),
            Packing::Down => {
                for (from, first) in (0..cols).step_by(32 / bits).zip((0..).step_by(all)) {
                    let until = cols.min(from + 32 / bits);
                    for (r, row) in rows.clone().zip(out.chunks_mut(cols)) {
                        split(word(q, first + r), bits, &mut row[from..until]);
                    }
                }
            }
            Packing::Across => {
                for (i, first) in (0..cols).zip((0..).step_by(all.div_ceil(8))) {
                    for (r, row) in rows.clone().zip(out.chunks_mut(cols)) {
                        row[i] = (word(q, first + r / 8) >> (4 * AWQ[r % 8])) as u8 & 15;
                    }
                }
            }
            Packing::Along => {
                let (each, words) = (32 / bits, cols.div_ceil(32 / bits));
                for (r, row) in rows.zip(out.chunks_mut(cols)) {
                    for (codes, at) in row.chunks_mut(each).zip(r * words..) {
                        split(word(q, at), bits, codes);
                    }
                }
            }
            Packing::Bytes => {
                let bytes = &q.bytes[rows.start * cols..rows.end * cols];
                out.iter_mut().zip(bytes).for_each(|(code, byte)| *code = byte ^ 0x80);
            }
        }
        out
    }
}

/// The codes of a word, lowest first.
fn split(mut word: u32, bits: usize, codes: &mut [u8]) {
    if let (4, Some(codes)) = (bits, codes.as_mut_array::<8>()) {
        // Nibbles move apart, half of them at a time.
        let x = u64::from(word);
        let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
        let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
        *codes = ((x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f).to_le_bytes();
        return;
    }
    for code in codes {
        *code = (word & ((1 << bits) - 1)) as u8;
        word >>= bits;
    }
}

/// Codes of 3 bits, some of which cross from a word to the next: 32 in three words.
fn down_by_three(q: &Tensor<'_>, all: usize, rows: Range<usize>, cols: usize, out: &mut [u8]) {
    let words = q.shape.first().copied().unwrap_or(0);
    for from in (0..cols).step_by(32) {
        let until = cols.min(from + 32);
        let there = from / 32 * 3..words.min(from / 32 * 3 + 3);
        for (r, row) in rows.clone().zip(out.chunks_mut(cols)) {
            let word = |w: usize| u128::from(word(q, w * all + r));
            let mut stream = there.clone().rev().fold(0, |stream, w| stream << 32 | word(w));
            for code in &mut row[from..until] {
                *code = stream as u8 & 7;
                stream >>= 3;
            }
        }
    }
}

impl Zeros {
    /// The tensor that they are in.
    pub fn name(&self) -> Option<&str> {
        match self {
            Zeros::Middle => None,
            Zeros::Down(name, _)
            | Zeros::Across(name)
            | Zeros::Along(name)
            | Zeros::Bytes(name) => Some(name),
        }
    }
    /// The zero of row `r` in one of `groups` groups, for codes of `bits`; `z` is their tensor.
    pub fn zero(
        &self,
        z: Option<&Tensor<'_>>,
        bits: usize,
        r: usize,
        (group, groups): (usize, usize),
    ) -> i32 {
        let (mask, each, middle) = ((1u32 << bits) - 1, 32 / bits, 1 << (bits - 1));
        let Some(z) = z else { return middle };
        let width = z.shape.last().copied().unwrap_or(0);
        let zero = match self {
            Zeros::Middle => return middle,
            Zeros::Down(_, short) => {
                let (at, bit) = (r * bits / 32, r * bits % 32);
                let word = |w| if w < width { u64::from(word(z, group * width + w)) } else { 0 };
                let two = word(at) | word(at + 1) << 32;
                ((two >> bit) as u32 & mask) + short
            }
            Zeros::Across(_) => word(z, group * width + r / 8) >> (4 * AWQ[r % 8]) & mask,
            Zeros::Along(_) => word(z, r / each * groups + group) >> (bits * (r % each)) & mask,
            Zeros::Bytes(_) => return i32::from(z.bytes[r * groups + group] as i8) + middle,
        };
        zero as i32
    }
}
