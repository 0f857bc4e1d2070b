//! What is lent: to the operations of a chain, and to the tasks of their phases.
use super::Mat;
use std::marker::PhantomData;
use std::ops::Range;

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

/// A matrix lent to the operations of a [chain](crate::ops::Chain), each of which reads or writes it in
/// its turn. It stays with the thread that chains them: two chains at once never have the same.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    all: Shared<'a>,
    here: PhantomData<*const ()>,
}

impl<'a> Slot<'a> {
    /// What is lent to this thread's chain.
    pub(crate) fn of(all: Shared<'a>) -> Slot<'a> {
        Slot { all, here: PhantomData }
    }
    /// The columns `at`.
    ///
    /// # Panics
    /// Outside the matrix.
    pub fn some_columns(&self, at: Range<usize>) -> Slot<'a> {
        Slot { all: self.all.columns(at.start, at.len()), ..*self }
    }
    /// Some of its rows.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) fn some(&self, rows: Range<usize>) -> Slot<'a> {
        Slot { all: self.all.rows_from(rows.start, rows.len()), ..*self }
    }
}

impl<'a> std::ops::Deref for Slot<'a> {
    type Target = Shared<'a>;
    fn deref(&self) -> &Shared<'a> {
        &self.all
    }
}

/// A matrix, or some of its columns, that operations read while it is lent to those that wrote it
/// before.
#[derive(Clone, Copy)]
pub struct Seen<'a>(Shared<'a>);

impl<'a> From<Slot<'a>> for Seen<'a> {
    fn from(slot: Slot<'a>) -> Seen<'a> {
        slot.seen()
    }
}

impl<'a> From<&'a Mat> for Seen<'a> {
    /// One that nobody writes.
    fn from(mat: &'a Mat) -> Seen<'a> {
        let Mat { rows, cols, .. } = *mat;
        let data = mat.data().as_ptr().cast_mut();
        Seen(Shared { data, rows, cols, stride: cols, lent: PhantomData })
    }
}

impl<'a> Seen<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.rows
    }
    /// Elements to a row.
    pub fn cols(&self) -> usize {
        self.0.cols
    }
    /// The columns `at`.
    ///
    /// # Panics
    /// Outside the matrix.
    pub fn columns(&self, at: Range<usize>) -> Seen<'a> {
        Seen(self.0.columns(at.start, at.len()))
    }
    /// Row `i`.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) unsafe fn row(&self, i: usize) -> &'a [f32] {
        let row = self.0.at(i, 0, self.0.cols);
        // SAFETY: in bounds; only read, by the caller's promise.
        unsafe { std::slice::from_raw_parts(row, self.0.cols) }
    }
    /// The addresses from the first element to the last.
    fn span(&self) -> Range<*mut f32> {
        let Shared { data, rows, cols, stride, .. } = self.0;
        let len = if rows == 0 { 0 } else { (rows - 1) * stride + cols };
        data..data.wrapping_add(len)
    }
    /// `len` elements from element `from` of row `i` on, those of the rows after it among them.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    ///
    /// # Panics
    /// Outside the matrix.
    pub(crate) unsafe fn stretch(&self, i: usize, from: usize, len: usize) -> &'a [f32] {
        let Shared { data, rows, cols, stride, .. } = self.0;
        let first = i * stride + from;
        assert!(stride == cols && first <= rows * cols && len <= rows * cols - first);
        // SAFETY: in bounds by the assertion; only read, by the caller's promise.
        unsafe { std::slice::from_raw_parts(data.add(first), len) }
    }
}

/// Checks that what an operation writes is neither what it reads nor written by it twice.
///
/// # Panics
/// If some of it is.
pub(crate) fn apart<const W: usize, const R: usize>(writes: [Shared<'_>; W], reads: [Seen<'_>; R]) {
    for (i, to) in writes.iter().enumerate() {
        let to = to.seen().span();
        let mut others = writes[..i].iter().map(Shared::seen).chain(reads).map(|x| x.span());
        let free = others.all(|x| x.end <= to.start || to.end <= x.start);
        assert!(free, "an operation writes what it reads");
    }
}

/// A slice lent in disjoint parts.
pub(crate) struct Lent<'a, T> {
    data: *mut T,
    pub(crate) len: usize,
    lent: PhantomData<&'a mut [T]>,
}
// SAFETY: it is a borrow of plain numbers; writing through it is unsafe and demands disjointness.
unsafe impl<T: Send> Sync for Lent<'_, T> {}

impl<T> Clone for Lent<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Lent<'_, T> {}

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
    /// Elements `from..from + len`, to read.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    ///
    /// # Panics
    /// Outside the slice.
    pub(crate) unsafe fn seen(&self, from: usize, len: usize) -> &'a [T] {
        let part = self.at(from, len);
        // SAFETY: in bounds; only read, by the caller's promise.
        unsafe { std::slice::from_raw_parts(part, len) }
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
