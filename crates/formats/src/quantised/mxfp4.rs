//! MXFP4 experts of gpt-oss: nibbles in one tensor, powers of two in another. OCP Microscaling
//! Formats 1.0.
use super::parts::{Parts, shaped};
use super::{Made, Rows};
use crate::error::Cause;
use crate::tensor::{DType, Weights};
use std::ops::Range;

/// Matrices whose rows are blocks of 32.
#[derive(Debug)]
struct Stack {
    /// To a row.
    blocks: usize,
    nibbles: String,
    scales: String,
}

/// `stem_blocks` `[experts, rows, blocks, 16]`, low nibbles first, and `stem_scales`
/// `[experts, rows, blocks]`.
pub(super) fn stack(stem: &str, parts: &mut Parts<'_>) -> Result<Made, Cause> {
    let (nibbles, scales) = (format!("{stem}_blocks"), format!("{stem}_scales"));
    let q = parts.need(&nibbles, &[DType::U8], 4)?;
    let [experts, rows, blocks] = [q.shape[0], q.shape[1], q.shape[2]];
    shaped(&nibbles, &q, &[experts, rows, blocks, 16])?;
    let s = parts.need(&scales, &[DType::U8], 3)?;
    shaped(&scales, &s, &[experts, rows, blocks])?;
    let shape = vec![experts, rows, blocks.saturating_mul(32)];
    Ok(Made::new(DType::MXFP4, shape, Stack { blocks, nibbles, scales }))
}

impl Rows for Stack {
    fn write(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>) {
        let (Some(q), Some(s)) = (raw.get(&self.nibbles), raw.get(&self.scales)) else { return };
        let blocks = rows.start * self.blocks..rows.end * self.blocks;
        let (q, s) = (&q.bytes.as_chunks::<16>().0[blocks.clone()], &s.bytes[blocks]);
        for (q, s) in q.iter().zip(s) {
            out.push(*s);
            // Neighbours share a byte there; here it is those 16 apart.
            let nibble = |i: usize| q[i / 2] >> (4 * (i % 2)) & 15;
            out.extend((0..16).map(|i| nibble(i) | nibble(i + 16) << 4));
        }
    }
}
