//! Shapes over slices, checked once: f32 matrices, and a matmul's operands.
mod lent;

use crate::act::ActRows;
use crate::layout::Panels;
pub(crate) use lent::{Lent, apart};
pub use lent::{Seen, Shared, Slot};

/// A view of f32 rows, `[rows, cols]`, contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: &'a [f32],
    cols: usize,
}

impl<'a> Rows<'a> {
    /// # Panics
    /// If `data` is not a whole number of rows.
    pub fn new(data: &'a [f32], cols: usize) -> Rows<'a> {
        assert!(cols > 0 && data.len().is_multiple_of(cols), "rows of {cols} over {}", data.len());
        Rows { data, cols }
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.cols
    }
    /// Elements to a row.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// Row `i`.
    pub fn row(&self, i: usize) -> &'a [f32] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }
    /// All elements, row after row.
    pub fn data(&self) -> &'a [f32] {
        self.data
    }
}

/// Bytes that a core fetches together, two lines of its cache.
const LINES: usize = 128;
/// Elements that are left over where a matrix begins with such lines.
const SPARE: usize = LINES / size_of::<f32>() - 1;

/// An owned f32 matrix `[rows, cols]` whose row count moves below a fixed capacity, so that a
/// forward pass allocates nothing.
///
/// It begins where lines of the cache do: where rows are whole lines, so are the parts that threads
/// write side by side, and no vector is in two.
#[derive(Debug, Default)]
pub struct Mat {
    data: Vec<f32>,
    /// The first element.
    first: usize,
    rows: usize,
    cols: usize,
}

impl Mat {
    /// Zeroed, with room for `capacity` rows; `rows` starts at `capacity`.
    pub fn new(capacity: usize, cols: usize) -> Mat {
        let data = match capacity * cols {
            0 => Vec::new(),
            len => vec![0.0; len + SPARE],
        };
        let first = data.as_ptr().align_offset(LINES).min(data.len().min(SPARE));
        Mat { data, first, rows: capacity, cols }
    }
    /// Sets the number of rows in use. Contents are unspecified but initialised.
    ///
    /// # Panics
    /// Beyond the capacity.
    pub fn resize(&mut self, rows: usize) {
        assert!(rows * self.cols <= self.room(), "{rows} rows of {} do not fit", self.cols);
        self.rows = rows;
    }
    /// Number of rows in use.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Elements to a row.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// Bytes that its elements may take.
    pub fn bytes(&self) -> usize {
        self.room() * size_of::<f32>()
    }
    fn room(&self) -> usize {
        self.data.len().saturating_sub(SPARE)
    }
    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data()[i * self.cols..(i + 1) * self.cols]
    }
    /// Row `i`, to write.
    pub fn row_mut(&mut self, i: usize) -> &mut [f32] {
        let cols = self.cols;
        &mut self.data_mut()[i * cols..(i + 1) * cols]
    }
    /// The rows in use.
    pub fn view(&self) -> Rows<'_> {
        Rows { data: self.data(), cols: self.cols }
    }
    /// The elements in use, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data[self.first..][..self.rows * self.cols]
    }
    /// The elements in use, to write.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.first..][..self.rows * self.cols]
    }
    /// Lends `rows` rows to the operations of a chain.
    ///
    /// # Panics
    /// Beyond the capacity.
    pub fn lend(&mut self, rows: usize) -> Slot<'_> {
        self.resize(rows);
        self.slot()
    }
    /// Lends the rows in use.
    pub fn slot(&mut self) -> Slot<'_> {
        Slot::of(self.shared())
    }
    /// A shared handle to write disjoint parts from several threads.
    pub(crate) fn shared(&mut self) -> Shared<'_> {
        let Mat { rows, cols, .. } = *self;
        let data = self.data[self.first..].as_mut_ptr();
        // SAFETY: all of it is there, and this borrow's.
        unsafe { Shared::over(data, rows, cols) }
    }
}

/// One matmul's operands, shared by the tasks that compute its panels.
pub struct MatmulTask<'a> {
    /// `[n, k]`.
    pub weights: Panels<'a>,
    /// `[m, k]`; the 8-bit form is ready where the layout reads it.
    pub input: ActRows<'a>,
    /// `n` long.
    pub bias: Option<&'a [f32]>,
    /// Whether the product is added to what `out` holds, or replaces it.
    pub store: Store,
    /// The output that lies in column 0 of `out`.
    pub first: usize,
    /// `[m, n]`, or some of its columns.
    pub out: Shared<'a>,
}

/// What becomes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// `out = y`
    Set,
    /// `out = out + y`, one addition an element, after the bias.
    Add,
}
