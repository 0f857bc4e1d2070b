//! Packed weights: how a matrix lies in memory for the kernels, the same bytes on every tier.
//!
//! Rows (outputs) are grouped in panels of 16, the last one padded with zero rows. Within a panel
//! the 16 rows are interleaved so that a SIMD lane is a row. A panel is its blocks one after
//! another, each the scales ([`scales`]) and then the codes, 4 inputs to a 32-bit lane ([`codes`]); a float
//! panel has elements only ([`float`]). Two or four blocks go together, all scales first, where one's
//! scales are no multiple of 64 bytes. So a product reads memory in one run from front to back,
//! which the CPU fetches ahead by itself, at twice the rate of two runs side by side. A weight
//! takes as many bits as in the format that it comes from, or little more; only points of lattices lie as
//! their coordinates.
mod codes;
mod float;
mod pack;
mod packed;
mod scales;
pub mod tables;
mod wide;

pub use pack::{RowCodes, Source};
pub use packed::{Packed, Panels};

use tables::Values;
pub(crate) use wide::Wide;

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
    /// As `W8`; f32 activations.
    W8X,
    /// As `W8` with an f32 scale per 32.
    W8F,
    /// `d·(q - z)`: 8 bits, f16 scale and zero per 32 (GPTQ).
    W8Z,
    /// `scale·(q - z)`: 8 bits, f32 scale and zero per 32.
    W8FZ,
    /// `scale·(q - z)`: 8 bits, f32 scale and zero per 16, each half of a block.
    W8H,
    /// `scale·e(q)`: 8-bit floats E4M3, an f32 scale per 32; f32 activations. Its not-a-number counts as
    /// 480: the scale says it.
    W8E,
    /// `d·(q - 1)`: 2 bits, an f16 scale per 32: what holds TQ1_0, TQ2_0, Q1_0 and Q2_0 without loss.
    W2,
    /// `d·(q - 8)`: 4 bits, an f16 scale per 32 (Q4_0).
    W4,
    /// `d·(q - z)`: 4 bits, f16 scale and 8-bit zero per 32 (GPTQ, AWQ).
    W4Z,
    /// As `W4Z` with a bfloat16 scale.
    W4B,
    /// As `W8H` with 4 bits.
    W4H,
    /// `scale·t(q)`: 4 bits of bitsandbytes' table NF4, an f32 scale per 32; f32 activations.
    W4N,
    /// As `W4N` of its table FP4.
    W4P,
    /// `d·t(q)`: 4 bits of the table [IQ4](tables::IQ4), an f16 scale per 32 (IQ4_NL).
    W4L,
    /// `d·t(q)`: 4 bits of the table [E2M1](tables::E2M1), a bfloat16 scale per 32 (MXFP4).
    W4E,
    /// The same with an f16 scale per 16, each half of a block (NVFP4).
    W4V,
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
    /// `d·s·(q - 32)`: 6 bits, signed 8-bit s per 16, f16 d per 256 (Q6_K).
    W6K,
    /// `d·s·t(q)`: as `W6K` with 3 bits, of the table [Q3](tables::Q3) (Q3_K).
    W3K,
    /// `d·(2s + 1)/8·t(q)`: 3 bits of the table [IQ1](tables::IQ1), 4-bit s per 16, f16 d per 256.
    W3I1,
    /// The same of the table [IQ2](tables::IQ2).
    W3I2,
    /// `d·(2s + 1)/4·t(q)`: as these with 4 bits, of the table [IQ3_XXS](tables::IQ3_XXS).
    W4I3,
    /// `d·(2s + 1)·t(q)`: the same of the table [IQ3_S](tables::IQ3_S).
    W4I3S,
    /// `d·s·t(q)`: 4 bits of the table [IQ4](tables::IQ4), signed 8-bit s per 32, f16 d per 256 (IQ4_XS).
    W4I4,
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
    pub const COUNT: usize = 33;
    /// Every layout, in the order of its number.
    pub const ALL: [Layout; Layout::COUNT] = [
        Layout::F32,
        Layout::F16,
        Layout::Bf16,
        Layout::W8,
        Layout::W8X,
        Layout::W8F,
        Layout::W8Z,
        Layout::W8FZ,
        Layout::W8H,
        Layout::W8E,
        Layout::W2,
        Layout::W4,
        Layout::W4Z,
        Layout::W4B,
        Layout::W4H,
        Layout::W4N,
        Layout::W4P,
        Layout::W4L,
        Layout::W4E,
        Layout::W4V,
        Layout::W4M,
        Layout::W5,
        Layout::W5M,
        Layout::W2K,
        Layout::W4K,
        Layout::W5K,
        Layout::W6K,
        Layout::W3K,
        Layout::W3I1,
        Layout::W3I2,
        Layout::W4I3,
        Layout::W4I3S,
        Layout::W4I4,
    ];
    /// The layout that a bundle calls so: bundles outlive this program's versions, so a name means
    /// the same bytes for ever.
    pub fn named(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name)
    }
    /// What a bundle calls it.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
    /// What it multiplies with.
    pub fn reads(self) -> Reads {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => Reads::F32,
            Layout::W8X | Layout::W8E | Layout::W4N | Layout::W4P => Reads::F32,
            _ => Reads::Q8,
        }
    }
    /// Whether it holds elements as they are, without scales.
    const fn floats(self) -> bool {
        matches!(self, Layout::F32 | Layout::F16 | Layout::Bf16)
    }
    /// Bits to an element's code, scales not counted.
    pub(crate) const fn bits(self) -> usize {
        match self {
            Layout::F32 => 32,
            Layout::F16 | Layout::Bf16 => 16,
            Layout::W8 | Layout::W8X | Layout::W8F | Layout::W8E => 8,
            Layout::W8Z | Layout::W8FZ | Layout::W8H => 8,
            Layout::W6K => 6,
            Layout::W5 | Layout::W5M | Layout::W5K => 5,
            Layout::W4 | Layout::W4Z | Layout::W4B | Layout::W4H | Layout::W4M | Layout::W4K => 4,
            Layout::W4N | Layout::W4P | Layout::W4L | Layout::W4E | Layout::W4V => 4,
            Layout::W4I3 | Layout::W4I3S | Layout::W4I4 => 4,
            Layout::W3K | Layout::W3I1 | Layout::W3I2 => 3,
            Layout::W2 | Layout::W2K => 2,
        }
    }
    /// Bytes of scales that a panel has to a block.
    pub(crate) const fn head(self) -> usize {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => 0,
            Layout::W8 | Layout::W8X | Layout::W2 | Layout::W4 | Layout::W5 => 32,
            Layout::W4L | Layout::W4E => 32,
            Layout::W4Z | Layout::W4B => 48,
            Layout::W8F | Layout::W8Z | Layout::W8E | Layout::W4M | Layout::W5M => 64,
            Layout::W4N | Layout::W4P | Layout::W4V => 64,
            Layout::W8FZ => 96,
            Layout::W4H => 160,
            Layout::W3I1 | Layout::W3I2 | Layout::W4I3 | Layout::W4I3S | Layout::W4I4 => 160,
            Layout::W8H => 192,
            Layout::W4K | Layout::W5K => 256,
            Layout::W2K => 320,
            Layout::W6K | Layout::W3K => 288,
        }
    }
    /// Bytes of codes that a panel has to a block.
    const fn codes(self) -> usize {
        self.block() * PANEL / 8 * self.bits()
    }
    /// Blocks that lie together, so that codes begin on a boundary of 64 bytes.
    pub(crate) const fn together(self) -> usize {
        match self.head() % 64 {
            0 => 1,
            32 => 2,
            _ => 4,
        }
    }
    /// Where block `b`'s scales and codes lie in a panel.
    pub(crate) const fn place(self, b: usize) -> (usize, usize) {
        let (n, i) = (self.together(), b % self.together());
        let at = (b - i) * (self.head() + self.codes());
        (at + i * self.head(), at + n * self.head() + i * self.codes())
    }
    /// Whether each block has a zero of its own.
    pub(crate) const fn zeroed(self) -> bool {
        matches!(self, Layout::W4Z | Layout::W4B | Layout::W8Z | Layout::W8FZ)
    }
    /// Whether each half of a block has a scale of its own.
    pub(crate) const fn halved(self) -> bool {
        matches!(self, Layout::W4H | Layout::W8H | Layout::W4V)
    }
    /// What an odd number is multiplied by to be a scale, where scales are such numbers.
    pub(crate) const fn odd(self) -> Option<f32> {
        match self {
            Layout::W3I1 | Layout::W3I2 => Some(0.125),
            Layout::W4I3 => Some(0.25),
            Layout::W4I3S => Some(1.0),
            _ => None,
        }
    }
    /// The integers that codes stand for, where these are in a table.
    pub(crate) const fn values(self) -> Option<&'static Values> {
        match self {
            Layout::W4E | Layout::W4V => Some(&tables::E2M1),
            Layout::W3K => Some(&tables::Q3),
            Layout::W3I1 => Some(&tables::IQ1),
            Layout::W3I2 => Some(&tables::IQ2),
            Layout::W4I3 => Some(&tables::IQ3_XXS),
            Layout::W4I3S => Some(&tables::IQ3_S),
            Layout::W4L | Layout::W4I4 => Some(&tables::IQ4),
            _ => None,
        }
    }
    /// The floats that codes stand for, where these are in a table.
    pub(crate) const fn table(self) -> Option<&'static [f32; 16]> {
        match self {
            Layout::W4N => Some(&tables::NF4),
            Layout::W4P => Some(&tables::FP4),
            _ => None,
        }
    }
    /// What a code, or its value, is biased by, where that is the same for all.
    pub(crate) const fn offset(self) -> i32 {
        if let Some(values) = self.values() {
            return 1 << (values.bits - 1);
        }
        match self {
            Layout::W2 => 1,
            Layout::W8 | Layout::W8X | Layout::W8F => 128,
            Layout::W4 => 8,
            Layout::W5 => 16,
            Layout::W6K => 32,
            _ => 0,
        }
    }
    /// Inputs that share a scale; 1 for floats.
    const fn sub(self) -> usize {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => 1,
            Layout::W2K | Layout::W6K | Layout::W3K | Layout::W4H | Layout::W8H | Layout::W4V => 16,
            Layout::W3I1 | Layout::W3I2 | Layout::W4I3 | Layout::W4I3S => 16,
            _ => 32,
        }
    }
    /// Inputs to a block: a row's length must be a multiple of it.
    pub const fn block(self) -> usize {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => 1,
            Layout::W2K | Layout::W4K | Layout::W5K | Layout::W6K | Layout::W3K => 256,
            Layout::W3I1 | Layout::W3I2 | Layout::W4I3 | Layout::W4I3S | Layout::W4I4 => 256,
            _ => 32,
        }
    }
}

/// Bytes of a panel.
#[inline]
pub(crate) const fn panel_bytes(layout: Layout, cols: usize) -> usize {
    if layout.floats() {
        return padded(cols.saturating_mul(PANEL / 8 * layout.bits()));
    }
    let (blocks, n) = (cols / layout.block(), layout.together());
    let heads = blocks.div_ceil(n).saturating_mul(n * layout.head());
    heads.saturating_add(blocks.saturating_mul(layout.codes()))
}

const fn padded(bytes: usize) -> usize {
    match bytes.checked_next_multiple_of(64) {
        Some(padded) => padded,
        None => usize::MAX,
    }
}
