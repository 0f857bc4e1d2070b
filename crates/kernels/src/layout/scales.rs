//! Scales of a panel, one head per block: vectors of 16 rows.
//!
//! | layout | head of a block |
//! |---|---|
//! | W8, W8X, W2, W4, W4L, W5 | `d` f16 |
//! | W4E | `d` bfloat16 |
//! | W4V | `d` f16 of each half |
//! | W8F, W8E, W4N, W4P | scale f32 |
//! | W8FZ | scale f32, `z` f16 |
//! | W8H | scale f32 of each half, `z` f16 of each |
//! | W4H | scale f32 of each half, a byte vector of `z` of each |
//! | W8Z | `d` f16, `z` f16 |
//! | W4Z | `d` f16, a byte vector of `z` |
//! | W4B | `d` bfloat16, a byte vector of `z` |
//! | W4M, W5M | `d` f16, `m` f16 |
//! | W4K, W5K | `d` f16, `m` f16, 8 byte vectors `s_j \| (t_j >> 4) << 6`, 4 of the low nibbles of `t_2i` and `t_2i+1` |
//! | W2K | `d` f16, `m` f16, 16 byte vectors `s_j \| t_j << 4` |
//! | W6K, W3K | `d` f16, 16 vectors of `s_j` |
//! | W3I1, W3I2, W4I3, W4I3S | `d` f16, 8 byte vectors `s_2j \| s_2j+1 << 4` |
//! | W4I4 | `d` f16, 8 vectors of `s_j` |
use super::{Layout, PANEL, RowCodes};
use half::f16;

/// Writes the scales of block `b` of 16 rows.
pub(super) fn put(layout: Layout, rows: &[RowCodes; PANEL], b: usize, head: &mut [u8]) {
    let zero = |z: u16| f16::from_f32(f32::from(z)).to_le_bytes();
    if layout == Layout::W4V {
        for h in 0..2 {
            lanes(&mut head[32 * h..], rows, |row| row.d[2 * b + h].to_le_bytes());
        }
        return;
    }
    if layout.halved() {
        for (h, at) in [2 * b, 2 * b + 1].into_iter().enumerate() {
            lanes(&mut head[64 * h..], rows, |row| row.scale[at].to_le_bytes());
            match layout {
                Layout::W8H => lanes(&mut head[128 + 32 * h..], rows, |row| zero(row.z[at])),
                _ => lanes(&mut head[128 + 16 * h..], rows, |row| [row.z[at] as u8]),
            }
        }
        return;
    }
    if rows[0].d.is_empty() {
        lanes(head, rows, |row| row.scale[b].to_le_bytes());
        if layout == Layout::W8FZ {
            lanes(&mut head[64..], rows, |row| zero(row.z[b]));
        }
        return;
    }
    lanes(head, rows, |row| row.d[b].to_le_bytes());
    if !rows[0].m.is_empty() {
        lanes(&mut head[32..], rows, |row| row.m[b].to_le_bytes());
    }
    match layout {
        Layout::W4Z | Layout::W4B => bytes::<1>(&mut head[32..], rows, |row| [row.z[b] as u8]),
        Layout::W8Z => lanes(&mut head[32..], rows, |row| zero(row.z[b])),
        Layout::W4K | Layout::W5K => bytes::<12>(&mut head[64..], rows, |row| {
            let (s, t) = (&row.s.as_chunks::<8>().0[b], &row.t.as_chunks::<8>().0[b]);
            std::array::from_fn(|j| match j.checked_sub(8) {
                None => s[j] & 63 | t[j] >> 4 << 6,
                Some(i) => t[2 * i] & 15 | t[2 * i + 1] << 4,
            })
        }),
        Layout::W2K => bytes::<16>(&mut head[64..], rows, |row| {
            let (s, t) = (&row.s.as_chunks::<16>().0[b], &row.t.as_chunks::<16>().0[b]);
            std::array::from_fn(|j| s[j] & 15 | t[j] << 4)
        }),
        Layout::W6K | Layout::W3K => {
            bytes::<16>(&mut head[32..], rows, |row| row.s.as_chunks().0[b]);
        }
        Layout::W4I4 => bytes::<8>(&mut head[32..], rows, |row| row.s.as_chunks().0[b]),
        _ if layout.odd().is_some() => bytes::<8>(&mut head[32..], rows, |row| {
            let s = &row.s.as_chunks::<16>().0[b];
            std::array::from_fn(|j| s[2 * j] & 15 | s[2 * j + 1] << 4)
        }),
        _ => {}
    }
}

/// A vector whose lanes are rows.
fn lanes<const N: usize>(
    head: &mut [u8],
    rows: &[RowCodes; PANEL],
    lane: impl Fn(&RowCodes) -> [u8; N],
) {
    for (out, row) in head.as_chunks_mut().0.iter_mut().zip(rows) {
        *out = lane(row);
    }
}

/// `N` vectors of a byte a row.
fn bytes<const N: usize>(
    head: &mut [u8],
    rows: &[RowCodes; PANEL],
    column: impl Fn(&RowCodes) -> [u8; N],
) {
    let (vectors, _) = head.as_chunks_mut::<PANEL>();
    let vectors: &mut [[u8; PANEL]; N] = vectors.try_into().expect("a vector a byte");
    for (r, row) in rows.iter().enumerate() {
        for (vector, byte) in vectors.iter_mut().zip(column(row)) {
            vector[r] = byte;
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
            Layout::W8F | Layout::W8FZ | Layout::W8E | Layout::W4N | Layout::W4P => {
                (self.single(0), 0.0)
            }
            Layout::W4H | Layout::W8H => (self.single(64 * j), 0.0),
            Layout::W4B | Layout::W4E => (f32::from_bits(u32::from(self.bits(0)) << 16), 0.0),
            Layout::W4V => (self.half(32 * j), 0.0),
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
            Layout::W6K | Layout::W3K | Layout::W4I4 => {
                (self.half(0) * f32::from(byte(32, j) as i8), 0.0)
            }
            layout => match layout.odd() {
                Some(unit) => {
                    let s = byte(32, j / 2) >> (4 * (j % 2)) & 15;
                    (self.half(0) * f32::from(2 * s + 1) * unit, 0.0)
                }
                None => (self.half(0), 0.0),
            },
        }
    }

    /// What codes of sub-block `j` are biased by.
    pub(super) fn zero(&self, j: usize) -> i32 {
        match self.layout {
            Layout::W4Z | Layout::W4B => i32::from(self.head[32 + self.r]),
            Layout::W4H => i32::from(self.head[128 + 16 * j + self.r]),
            Layout::W8Z => self.half(32) as i32,
            Layout::W8FZ => self.half(64) as i32,
            Layout::W8H => self.half(128 + 32 * j) as i32,
            layout => layout.offset(),
        }
    }

    fn single(&self, at: usize) -> f32 {
        let bytes = self.head[at + 4 * self.r..].first_chunk().expect("within the head");
        f32::from_le_bytes(*bytes)
    }
    fn half(&self, at: usize) -> f32 {
        f16::from_bits(self.bits(at)).to_f32()
    }
    fn bits(&self, at: usize) -> u16 {
        let bytes = self.head[at + 2 * self.r..].first_chunk().expect("within the head");
        u16::from_le_bytes(*bytes)
    }
}
