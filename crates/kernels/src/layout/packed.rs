//! A packed matrix: its bytes, and what they stand for.
use super::{Layout, PANEL, codes, float, panel_bytes, scales};
use crate::room::Fixed;
use std::sync::Arc;

/// A packed matrix `[rows, cols]`.
#[derive(Clone)]
pub struct Packed {
    pub(super) layout: Layout,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) data: Fixed,
    pub(super) order: Option<Arc<[u32]>>,
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
pub(super) fn value(layout: Layout, q: u8, zero: i32) -> f32 {
    if let Some(table) = layout.table() {
        return table[usize::from(q)];
    }
    if let Some(values) = layout.values() {
        return (i32::from(values.biased[usize::from(q)]) - zero) as f32;
    }
    if layout != Layout::W8E {
        return (i32::from(q) - zero) as f32;
    }
    let (exponent, mantissa) = (i32::from(q >> 3 & 15), i32::from(q & 7));
    let (whole, exponent) = if exponent == 0 { (mantissa, 1) } else { (8 + mantissa, exponent) };
    let size = whole as f32 * 2f32.powi(exponent - 10);
    if q & 0x80 == 0 { size } else { -size }
}
