//! Cosines and sines of a batch's positions.
use crate::rope::{Rope, RopeLayout};
use rinfer_kernels::Mat;
use rinfer_kernels::ops::{self, AttendRow};

/// One rotary table, computed for the rows of the batch at hand.
pub(crate) struct Angles {
    frequencies: Vec<f32>,
    attention: f32,
    layout: ops::RopeLayout,
    /// `[rows, dim]`: `dim/2` cosines, then `dim/2` sines.
    table: Mat,
}

impl Angles {
    /// For batches of up to `batch` rows.
    pub fn new(rope: &Rope, batch: usize) -> Angles {
        Angles {
            frequencies: rope.frequencies(),
            attention: rope.attention(),
            layout: match rope.layout {
                RopeLayout::Halves => ops::RopeLayout::Halves,
                RopeLayout::Pairs => ops::RopeLayout::Pairs,
            },
            table: Mat::new(batch, rope.dim),
        }
    }
    /// Computes the rows' angles: the product in f32, as transformers has it, cosine and sine
    /// rounded once.
    pub fn fill(&mut self, rows: &[AttendRow]) {
        self.table.resize(rows.len());
        let half = self.frequencies.len();
        for (i, row) in rows.iter().enumerate() {
            let (cos, sin) = self.table.row_mut(i).split_at_mut(half);
            for (j, frequency) in self.frequencies.iter().enumerate() {
                let (s, c) = libm::sincos(f64::from(row.pos as f32 * frequency));
                (cos[j], sin[j]) = (c as f32 * self.attention, s as f32 * self.attention);
            }
        }
    }
    /// What [`ops::rotate`] takes.
    pub fn view(&self) -> (ops::RopeLayout, &Mat) {
        (self.layout, &self.table)
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + 4 * self.frequencies.len()
    }
}
