//! Packed weights: how a matrix lies in memory for the kernels, the same bytes on every tier.
//!
//! Rows (outputs) are grouped in panels of 16, the last one padded with zero rows. Within a panel
//! the 16 rows are interleaved so that a SIMD lane is a row, 4 inputs to a 32-bit lane for the
//! integer layouts: byte `64·g + 4·r + i` of a group is input `4g + i` of row `r`. Each file
//! defines one layout: its bytes, `pack`, `unpack`, and so the meaning of the numbers.
use crate::mat::Aligned;
use std::sync::Arc;

/// Rows to a panel.
pub const PANEL: usize = 16;

/// A packed layout. Codes are stored biased to unsigned where the format is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Layout {
    /// f32; f32 activations.
    F32,
    /// IEEE half; f32 activations.
    F16,
    /// bfloat16; f32 activations.
    Bf16,
    /// `d·(q - 128)`: 8 bits, an f16 scale per 32 (Q8_0).
    W8,
    /// As `W8` with an f32 scale per 32: what holds IQ4_NL, IQ4_XS and MXFP4 without loss.
    W8F,
    /// `d·(q - 8)`: 4 bits, an f16 scale per 32 (Q4_0).
    W4,
    /// `d·q + m`: 4 bits, f16 scale and minimum per 32 (Q4_1).
    W4M,
    /// `d·(q - 16)`: 5 bits (Q5_0).
    W5,
    /// `d·q + m`: 5 bits (Q5_1).
    W5M,
    /// `d·s·q - m·t`: 2 bits, 4-bit s and t per 16, f16 d and m per 256 (Q2_K).
    W2K,
    /// `d·s·q - m·t`: 4 bits, 6-bit s and t per 32, f16 d and m per 256 (Q4_K).
    W4K,
    /// As `W4K` with 5 bits (Q5_K).
    W5K,
    /// `d·s·(q - 32)`: 6 bits, signed 8-bit s per 16, f16 d per 256 (Q6_K, and Q3_K widened).
    W6K,
}

/// What a layout multiplies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// f32 activations.
    F32,
    /// 8-bit activations.
    Q8,
}

impl Layout {
    /// Number of layouts.
    pub const COUNT: usize = 13;
    /// Every layout, in the order of its number.
    pub const ALL: [Layout; Layout::COUNT] = [
        Layout::F32,
        Layout::F16,
        Layout::Bf16,
        Layout::W8,
        Layout::W8F,
        Layout::W4,
        Layout::W4M,
        Layout::W5,
        Layout::W5M,
        Layout::W2K,
        Layout::W4K,
        Layout::W5K,
        Layout::W6K,
    ];
    /// What it multiplies with.
    pub fn reads(self) -> Reads {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => Reads::F32,
            _ => Reads::Q8,
        }
    }
    /// Inputs to a block: a row's length must be a multiple of it.
    pub fn block(self) -> usize {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => 1,
            Layout::W8 | Layout::W8F | Layout::W4 | Layout::W4M | Layout::W5 | Layout::W5M => 32,
            Layout::W2K | Layout::W4K | Layout::W5K | Layout::W6K => 256,
        }
    }
}

/// One row before packing: codes and scales as a checkpoint's format yields them. Which fields a
/// layout reads, and how many elements each has, follows from the formula at [`Layout`]; the others
/// stay empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowCodes {
    /// One unsigned code an input (bias included).
    pub q: Vec<u8>,
    /// f16 bits: `d` per block.
    pub d: Vec<u16>,
    /// f16 bits: `m` per block.
    pub m: Vec<u16>,
    /// `s` per sub-block (W6K: an `i8`'s bits).
    pub s: Vec<u8>,
    /// `t` per sub-block.
    pub t: Vec<u8>,
    /// W8F's scales per 32.
    pub scale: Vec<f32>,
    /// F32's elements.
    pub f32: Vec<f32>,
    /// F16's and BF16's elements, as bits.
    pub half: Vec<u16>,
}

/// A packed matrix `[rows, cols]`.
#[derive(Clone)]
pub struct Packed {
    layout: Layout,
    rows: usize,
    cols: usize,
    data: Arc<Aligned>,
}

impl Packed {
    /// Packs `rows` rows of `cols` inputs; `row(i, &mut codes)` yields row `i`. Panels are packed
    /// side by side on the team.
    ///
    /// # Panics
    /// If `cols` is no multiple of the layout's block, or a row's codes have the wrong lengths.
    pub fn pack(
        team: &crate::Team,
        layout: Layout,
        rows: usize,
        cols: usize,
        row: impl Fn(usize, &mut RowCodes) + Sync,
    ) -> Packed {
        let _ = (team, layout, rows, cols, row);
        todo!()
    }
    /// Over bytes that a bundle holds.
    ///
    /// # Errors
    /// The length that `[rows, cols]` needs, if `data` has another.
    pub fn from_bytes(
        layout: Layout,
        rows: usize,
        cols: usize,
        data: Arc<Aligned>,
    ) -> Result<Packed, usize> {
        let need = Packed::size(layout, rows, cols);
        if data.bytes().len() != need {
            return Err(need);
        }
        Ok(Packed { layout, rows, cols, data })
    }
    /// Bytes that `[rows, cols]` takes.
    pub fn size(layout: Layout, rows: usize, cols: usize) -> usize {
        let _ = (layout, rows, cols);
        todo!()
    }
    /// How it lies in memory.
    pub fn layout(&self) -> Layout {
        self.layout
    }
    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// The packed bytes.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }
    /// Row `i` as f32, by the formula at [`Layout`], products and differences rounded one by one.
    pub fn row(&self, i: usize, out: &mut [f32]) {
        let _ = (i, out);
        todo!()
    }
}
