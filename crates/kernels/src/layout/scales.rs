//! Scales of a panel, one head per block: vectors of 16 rows.
//!
//! | layout | head of a block |
//! |---|---|
//! | W8, W4, W5 | `d` f16 |
//! | W8F | scale f32 |
//! | W4M, W5M | `d` f16, `m` f16 |
//! | W4K, W5K | `d` f16, `m` f16, 8 byte vectors `s_j \| (t_j >> 4) << 6`, 4 of the low nibbles of `t_2i` and `t_2i+1` |
//! | W2K | `d` f16, `m` f16, 16 byte vectors `s_j \| t_j << 4` |
//! | W6K | `d` f16, 16 vectors of `s_j` |
use super::{Layout, PANEL, RowCodes};
use half::f16;

/// Writes the scales of block `b` of 16 rows.
pub(super) fn put(layout: Layout, rows: &[RowCodes; PANEL], b: usize, head: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        if layout == Layout::W8F {
            head[4 * r..][..4].copy_from_slice(&row.scale[b].to_le_bytes());
            continue;
        }
        head[2 * r..][..2].copy_from_slice(&row.d[b].to_le_bytes());
        if !row.m.is_empty() {
            head[32 + 2 * r..][..2].copy_from_slice(&row.m[b].to_le_bytes());
        }
        match layout {
            Layout::W4K | Layout::W5K => {
                let (s, t) = (&row.s[8 * b..][..8], &row.t[8 * b..][..8]);
                for j in 0..8 {
                    head[64 + PANEL * j + r] = s[j] & 63 | t[j] >> 4 << 6;
                }
                for i in 0..4 {
                    head[192 + PANEL * i + r] = t[2 * i] & 15 | t[2 * i + 1] << 4;
                }
            }
            Layout::W2K => {
                for j in 0..16 {
                    head[64 + PANEL * j + r] = row.s[16 * b + j] & 15 | row.t[16 * b + j] << 4;
                }
            }
            Layout::W6K => {
                for j in 0..16 {
                    head[32 + PANEL * j + r] = row.s[16 * b + j];
                }
            }
            _ => {}
        }
    }
}

/// A block's scales for one row, as [`put`] wrote them.
pub(super) struct Head<'a> {
    layout: Layout,
    head: &'a [u8],
    r: usize,
}

impl<'a> Head<'a> {
    pub(super) fn new(layout: Layout, head: &'a [u8], r: usize) -> Head<'a> {
        Head { layout, head, r }
    }

    /// Scale and minimum of the block's sub-block `j`: an element is `scale·(q - offset) - min`.
    pub(super) fn affine(&self, j: usize) -> (f32, f32) {
        let byte = |at: usize, vector: usize| self.head[at + PANEL * vector + self.r];
        match self.layout {
            Layout::W8F => {
                let bytes = self.head[4 * self.r..].first_chunk().expect("within the head");
                (f32::from_le_bytes(*bytes), 0.0)
            }
            Layout::W4M | Layout::W5M => (self.half(0), -self.half(32)),
            Layout::W4K | Layout::W5K => {
                let low = byte(192, j / 2) >> (4 * (j % 2)) & 15;
                let (s, t) = (byte(64, j) & 63, byte(64, j) >> 6 << 4 | low);
                (self.half(0) * f32::from(s), self.half(32) * f32::from(t))
            }
            Layout::W2K => {
                let (s, t) = (byte(64, j) & 15, byte(64, j) >> 4);
                (self.half(0) * f32::from(s), self.half(32) * f32::from(t))
            }
            Layout::W6K => (self.half(0) * f32::from(byte(32, j) as i8), 0.0),
            _ => (self.half(0), 0.0),
        }
    }

    fn half(&self, at: usize) -> f32 {
        let bytes = self.head[at + 2 * self.r..].first_chunk().expect("within the head");
        f16::from_le_bytes(*bytes).to_f32()
    }
}
