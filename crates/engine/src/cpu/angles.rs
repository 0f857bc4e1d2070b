//! Cosines and sines of a batch's positions.
use crate::rope::{Rope, RopeLayout};
use rinfer_kernels::Mat;
use rinfer_kernels::ops::{self, AttendRow};

/// One rotary table, computed for the rows of the batch at hand.
pub(crate) struct Angles {
    usual: Frequencies,
    /// Those of long sequences, and beyond which length.
    beyond: Option<(usize, Frequencies)>,
    layout: ops::RopeLayout,
    /// `[rows, dim]`: `dim/2` cosines, then `dim/2` sines.
    table: Mat,
}

struct Frequencies {
    /// One a pair.
    radians: Vec<f32>,
    /// Multiplies cosines and sines.
    attention: f32,
}

impl Angles {
    /// For batches of up to `batch` rows.
    pub fn new(rope: &Rope, batch: usize) -> Angles {
        Angles {
            usual: Frequencies::of(rope),
            beyond: rope.beyond().map(|(length, rope)| (length, Frequencies::of(&rope))),
            layout: match rope.layout {
                RopeLayout::Halves => ops::RopeLayout::Halves,
                RopeLayout::Pairs => ops::RopeLayout::Pairs,
            },
            table: Mat::new(batch, rope.dim),
        }
    }
    /// Computes the rows' angles: the product in f32, as transformers has it, cosine and sine
    /// rounded once. `prompts` are the lengths of the prompts that the rows' sequences began with,
    /// by slot.
    pub fn fill(&mut self, rows: &[AttendRow], prompts: &[usize]) {
        self.table.resize(rows.len());
        for (i, row) in rows.iter().enumerate() {
            let length = prompts[row.table].max(row.pos + 1);
            let beyond = self.beyond.as_ref().filter(|(original, _)| length > *original);
            let Frequencies { radians, attention } = beyond.map_or(&self.usual, |(_, f)| f);
            let (cos, sin) = self.table.row_mut(i).split_at_mut(radians.len());
            for (j, frequency) in radians.iter().enumerate() {
                let (s, c) = libm::sincos(f64::from(row.pos as f32 * frequency));
                (cos[j], sin[j]) = (c as f32 * attention, s as f32 * attention);
            }
        }
    }
    /// What [`ops::rotate`] takes.
    pub fn view(&self) -> (ops::RopeLayout, &Mat) {
        (self.layout, &self.table)
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let beyond = self.beyond.as_ref().map_or(0, |(_, f)| f.radians.len());
        self.table.bytes() + 4 * (self.usual.radians.len() + beyond)
    }
}

impl Frequencies {
    fn of(rope: &Rope) -> Frequencies {
        Frequencies { radians: rope.frequencies(), attention: rope.attention() }
    }
}
