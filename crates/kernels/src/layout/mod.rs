//! Packed weights: how a matrix lies in memory for the kernels, the same bytes on every tier.
//!
//! Rows (outputs) are grouped in panels of 16, the last one padded with zero rows. Within a panel
//! the 16 rows are interleaved so that a SIMD lane is a row. A panel is its blocks one after
//! another, each the scales ([`scales`]) and then the codes, 4 inputs to a 32-bit lane ([`codes`]); a float
//! panel has elements only ([`float`]). Two or four blocks go together, all scales first, where one's
//! scales are no multiple of 64 bytes. So a product reads memory in one run from front to back,
//! which the CPU fetches ahead by itself, at twice the rate of two runs side by side. A weight
//! takes as many bits as in the format that it comes from.
mod codes;
mod float;
mod pack;
mod scales;
pub mod tables;

pub use pack::{RowCodes, Source};

use crate::room::Fixed;
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
    /// As `W8`; f32 activations.
    W8X,
    /// As `W8` with an f32 scale per 32: what holds IQ4_NL, IQ4_XS and MXFP4 without loss.
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
    pub const COUNT: usize = 23;
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
        Layout::W4,
        Layout::W4Z,
        Layout::W4B,
        Layout::W4H,
        Layout::W4N,
        Layout::W4P,
        Layout::W4M,
        Layout::W5,
        Layout::W5M,
        Layout::W2K,
        Layout::W4K,
        Layout::W5K,
        Layout::W6K,
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
            Layout::W4N | Layout::W4P => 4,
            Layout::W2K => 2,
        }
    }
    /// Bytes of scales that a panel has to a block.
    pub(crate) const fn head(self) -> usize {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => 0,
            Layout::W8 | Layout::W8X | Layout::W4 | Layout::W5 => 32,
            Layout::W4Z | Layout::W4B => 48,
            Layout::W8F | Layout::W8Z | Layout::W8E | Layout::W4M | Layout::W5M => 64,
            Layout::W4N | Layout::W4P => 64,
            Layout::W8FZ => 96,
            Layout::W4H => 160,
            Layout::W8H => 192,
            Layout::W4K | Layout::W5K => 256,
            Layout::W2K => 320,
            Layout::W6K => 288,
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
    /// Whether each half of a block has a scale and a zero of its own.
    pub(crate) const fn halved(self) -> bool {
        matches!(self, Layout::W4H | Layout::W8H)
    }
    /// What codes stand for, where that is in a table.
    pub(crate) const fn table(self) -> Option<&'static [f32; 16]> {
        match self {
            Layout::W4N => Some(&tables::NF4),
            Layout::W4P => Some(&tables::FP4),
            _ => None,
        }
    }
    /// What a code is biased by, where that is the same for all.
    pub(crate) const fn offset(self) -> i32 {
        match self {
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
            Layout::W2K | Layout::W6K | Layout::W4H | Layout::W8H => 16,
            _ => 32,
        }
    }
    /// Inputs to a block: a row's length must be a multiple of it.
    pub const fn block(self) -> usize {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => 1,
            Layout::W2K | Layout::W4K | Layout::W5K | Layout::W6K => 256,
            _ => 32,
        }
    }
}

/// A packed matrix `[rows, cols]`.
#[derive(Clone)]
pub struct Packed {
    layout: Layout,
    rows: usize,
    cols: usize,
    data: Fixed,
    order: Option<Arc<[u32]>>,
}

impl Packed {
    /// Over bytes that a bundle holds.
    ///
    /// # Errors
    /// The length that `[rows, cols]` needs, if `data` has another.
    pub fn from_bytes(
        layout: Layout,
        rows: usize,
        cols: usize,
        data: Fixed,
    ) -> Result<Packed, usize> {
        let need = Packed::size(layout, rows, cols);
        if data.bytes().len() != need {
            return Err(need);
        }
        Ok(Packed { layout, rows, cols, data, order: None })
    }
    /// Bytes that `[rows, cols]` takes; `usize::MAX` if that overflows.
    pub fn size(layout: Layout, rows: usize, cols: usize) -> usize {
        rows.div_ceil(PANEL).saturating_mul(panel_bytes(layout, cols))
    }
    /// The same, whose column `k` multiplies its input's element `order[k]`.
    ///
    /// # Panics
    /// If `order` is of another length, or names no input.
    pub fn in_order(self, order: Arc<[u32]>) -> Packed {
        let fits = order.len() == self.cols && order.iter().all(|k| (*k as usize) < self.cols);
        assert!(fits, "an order of {} inputs", self.cols);
        Packed { order: Some(order), ..self }
    }
    /// Which input each column multiplies, where that is not the one in its place.
    pub fn order(&self) -> Option<&[u32]> {
        self.order.as_deref()
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
    /// Panels of 16 outputs.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL)
    }
    /// The packed bytes.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }
    /// What a product reads of it.
    pub fn view(&self) -> Panels<'_> {
        Panels { layout: self.layout, rows: self.rows, cols: self.cols, data: self.bytes() }
    }
    /// Panel `p`.
    fn panel(&self, p: usize) -> &[u8] {
        self.view().panel(p)
    }
    /// Row `i` as f32, by the formula at [`Layout`], products and differences rounded one by one.
    ///
    /// # Panics
    /// If there is no row `i`, or `out` is not `cols` long.
    pub fn row(&self, i: usize, out: &mut [f32]) {
        assert!(i < self.rows && out.len() == self.cols, "row {i} of {}", self.rows);
        let (layout, r) = (self.layout, i % PANEL);
        let panel = self.panel(i / PANEL);
        if layout.floats() {
            return float::get(layout, panel, r, out);
        }
        let vectors = 64 * layout.bits();
        for (k, out) in out.chunks_exact_mut(32).enumerate() {
            let (block, within) = (32 * k / layout.block(), 32 * k % layout.block());
            let (head, codes) = layout.place(block);
            let head = scales::Head::new(layout, &panel[head..], r);
            let q =
                codes::get(layout.bits(), &panel[codes + within / 32 * vectors..][..vectors], r);
            let subs = out.chunks_exact_mut(layout.sub()).zip(q.chunks_exact(layout.sub()));
            for (j, (out, q)) in subs.enumerate() {
                let (scale, min) = head.affine(within / layout.sub() + j);
                let zero = head.zero(j);
                for (out, &q) in out.iter_mut().zip(q) {
                    *out = scale * value(layout, q, zero) - min;
                }
            }
        }
    }
}

/// A packed matrix `[rows, cols]`, wherever it lies.
#[derive(Clone, Copy)]
pub struct Panels<'a> {
    layout: Layout,
    rows: usize,
    cols: usize,
    data: &'a [u8],
}

impl<'a> Panels<'a> {
    /// # Panics
    /// If `data` is shorter than `[rows, cols]` in `layout`.
    pub(crate) fn new(layout: Layout, rows: usize, cols: usize, data: &'a [u8]) -> Panels<'a> {
        assert!(data.len() >= Packed::size(layout, rows, cols), "{rows} by {cols} of {layout:?}");
        Panels { layout, rows, cols, data }
    }
    /// How it lies in memory.
    pub(crate) fn layout(self) -> Layout {
        self.layout
    }
    /// Outputs.
    pub(crate) fn rows(self) -> usize {
        self.rows
    }
    /// Panel `p`.
    #[inline]
    pub(crate) fn panel(self, p: usize) -> &'a [u8] {
        let bytes = panel_bytes(self.layout, self.cols);
        &self.data[p * bytes..][..bytes]
    }
}

/// What a code stands for, before scales.
fn value(layout: Layout, q: u8, zero: i32) -> f32 {
    if let Some(table) = layout.table() {
        return table[usize::from(q)];
    }
    if layout != Layout::W8E {
        return (i32::from(q) - zero) as f32;
    }
    let (exponent, mantissa) = (i32::from(q >> 3 & 15), i32::from(q & 7));
    let (whole, exponent) = if exponent == 0 { (mantissa, 1) } else { (8 + mantissa, exponent) };
    let size = whole as f32 * 2f32.powi(exponent - 10);
    if q & 0x80 == 0 { size } else { -size }
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
