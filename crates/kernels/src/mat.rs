//! Shapes over slices, checked once: f32 matrices, and a matmul's operands.
use crate::act::ActRows;
use crate::layout::Panels;
use std::marker::PhantomData;

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

/// Some columns of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    rows: Rows<'a>,
    from: usize,
    len: usize,
}

impl<'a> Columns<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }
    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.len
    }
    /// Row `i` of them.
    pub fn row(&self, i: usize) -> &'a [f32] {
        &self.rows.row(i)[self.from..self.from + self.len]
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
    /// Columns `at`.
    ///
    /// # Panics
    /// Outside the matrix.
    pub fn columns(&self, at: std::ops::Range<usize>) -> Columns<'_> {
        assert!(at.start <= at.end && at.end <= self.cols, "columns {at:?} of {}", self.cols);
        Columns { rows: self.view(), from: at.start, len: at.len() }
    }
    /// All columns.
    pub fn all(&self) -> Columns<'_> {
        self.columns(0..self.cols)
    }
    /// The elements in use, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data[self.first..][..self.rows * self.cols]
    }
    /// The elements in use, to write.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.first..][..self.rows * self.cols]
    }
    /// A shared handle to write disjoint parts from several threads.
    pub(crate) fn shared(&mut self) -> Shared<'_> {
        let Mat { rows, cols, .. } = *self;
        let data = self.data[self.first..].as_mut_ptr();
        Shared { data, rows, cols, stride: cols, lent: PhantomData }
    }
}

/// A matrix lent to the tasks of one phase, each of which writes elements that no other touches.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    data: *mut f32,
    rows: usize,
    cols: usize,
    /// From a row to the next.
    stride: usize,
    lent: PhantomData<&'a mut [f32]>,
}
// SAFETY: it is a borrow of f32s; writing through it is unsafe and demands disjointness.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    /// `[rows, cols]` from `data` on.
    ///
    /// # Safety
    /// They are there and lent to whoever holds this.
    pub(crate) unsafe fn over(data: *mut f32, rows: usize, cols: usize) -> Shared<'a> {
        Shared { data, rows, cols, stride: cols, lent: PhantomData }
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Elements to a row.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// The `rows` rows from `from` on.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) fn rows_from(&self, from: usize, rows: usize) -> Shared<'a> {
        assert!(from <= self.rows && rows <= self.rows - from);
        // SAFETY: in bounds by the assertion.
        Shared { data: unsafe { self.data.add(from * self.stride) }, rows, ..*self }
    }
    /// The `cols` columns from `from` on.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) fn columns(&self, from: usize, cols: usize) -> Shared<'a> {
        assert!(from <= self.cols && cols <= self.cols - from);
        // SAFETY: in bounds by the assertion.
        Shared { data: unsafe { self.data.add(from) }, cols, ..*self }
    }
    /// Where elements `from..from + len` of row `i` are.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) fn at(&self, i: usize, from: usize, len: usize) -> *mut f32 {
        assert!(i < self.rows && from <= self.cols && len <= self.cols - from);
        // SAFETY: in bounds by the assertion.
        unsafe { self.data.add(i * self.stride + from) }
    }
    /// Elements `from..from + len` of row `i`, to write.
    ///
    /// # Safety
    /// No other live reference overlaps them.
    ///
    /// # Panics
    /// Outside the matrix.
    pub unsafe fn part(&self, i: usize, from: usize, len: usize) -> &'a mut [f32] {
        let part = self.at(i, from, len);
        // SAFETY: in bounds, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(part, len) }
    }
    /// The same elements, for a later phase to read.
    pub(crate) fn seen(&self) -> Seen<'a> {
        Seen(*self)
    }
}

/// A matrix that the tasks of a phase read while it is lent to those of earlier ones.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a>(Shared<'a>);

impl<'a> Seen<'a> {
    /// One that nobody writes.
    pub(crate) fn of(mat: &'a Mat) -> Seen<'a> {
        let Mat { rows, cols, .. } = *mat;
        let data = mat.data().as_ptr().cast_mut();
        Seen(Shared { data, rows, cols, stride: cols, lent: PhantomData })
    }
    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.0.rows
    }
    /// Elements to a row.
    pub(crate) fn cols(&self) -> usize {
        self.0.cols
    }
    /// `len` elements from element `from` of row `i` on, those of the rows after it among them.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) unsafe fn from(&self, i: usize, from: usize, len: usize) -> &'a [f32] {
        let Shared { data, rows, cols, stride, .. } = self.0;
        let first = i * stride + from;
        assert!(stride == cols && first <= rows * cols && len <= rows * cols - first);
        // SAFETY: in bounds by the assertion; only read, by the caller's promise.
        unsafe { std::slice::from_raw_parts(data.add(first), len) }
    }
}

/// A slice lent in disjoint parts.
pub(crate) struct Lent<'a, T> {
    data: *mut T,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}
// SAFETY: it is a borrow of plain numbers; writing through it is unsafe and demands disjointness.
unsafe impl<T: Send> Sync for Lent<'_, T> {}

impl<'a, T> Lent<'a, T> {
    /// All of `data`.
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        Lent { data: data.as_mut_ptr(), len: data.len(), lent: PhantomData }
    }
    /// Elements `from..from + len`, lent on.
    ///
    /// # Panics
    /// Outside the slice.
    pub(crate) fn within(&self, from: usize, len: usize) -> Lent<'a, T> {
        Lent { data: self.at(from, len), len, lent: PhantomData }
    }
    /// Where elements `from..from + len` are.
    ///
    /// # Panics
    /// Outside the slice.
    pub(crate) fn at(&self, from: usize, len: usize) -> *mut T {
        assert!(from <= self.len && len <= self.len - from);
        // SAFETY: in bounds by the assertion.
        unsafe { self.data.add(from) }
    }
    /// Elements `from..from + len`, to write.
    ///
    /// # Safety
    /// No other live reference overlaps them.
    ///
    /// # Panics
    /// Outside the slice.
    pub(crate) unsafe fn part(&self, from: usize, len: usize) -> &'a mut [T] {
        let part = self.at(from, len);
        // SAFETY: in bounds, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(part, len) }
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
