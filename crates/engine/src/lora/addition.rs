//! A product of low rank that is added to a matrix.
use std::num::NonZero;
use std::thread::available_parallelism;

#[derive(Debug)]
pub(super) struct Addition {
    /// `[rows, rank]`.
    pub left: Vec<f32>,
    /// `[rank, cols]`.
    pub right: Vec<f32>,
    pub rank: usize,
    pub scale: f32,
    /// What the rows' lengths become.
    pub magnitude: Option<Vec<f32>>,
}

impl Addition {
    pub fn rows(&self) -> usize {
        self.left.len() / self.rank.max(1)
    }
    pub fn cols(&self) -> usize {
        self.right.len() / self.rank.max(1)
    }
    /// The product.
    pub fn product(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.rows() * self.cols()];
        each_row(self.cols(), &mut values, |row, values, sum| self.add(row, values, sum));
        values
    }
    /// Adds it to a matrix, whose rows get their lengths then.
    pub fn to(&self, cols: usize, values: &mut [f32]) {
        each_row(cols, values, |row, values, sum| {
            self.add(row, values, sum);
            let Some(magnitude) = &self.magnitude else { return };
            let length = values.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
            let factor = (f64::from(magnitude[row]) / length) as f32;
            values.iter_mut().for_each(|value| *value *= factor);
        });
    }
    /// Adds a row of it; `sum` is for that.
    fn add(&self, row: usize, values: &mut [f32], sum: &mut [f32]) {
        sum.fill(0.0);
        for (k, right) in self.right.chunks_exact(sum.len()).enumerate() {
            let left = self.left[row * self.rank + k];
            sum.iter_mut().zip(right).for_each(|(sum, right)| *sum += left * right);
        }
        values.iter_mut().zip(sum).for_each(|(value, sum)| *value += self.scale * *sum);
    }
}

/// Rows of a matrix side by side, each by its number and with room for a sum.
fn each_row(cols: usize, values: &mut [f32], of: impl Fn(usize, &mut [f32], &mut [f32]) + Sync) {
    let (cols, threads) = (cols.max(1), available_parallelism().map_or(1, NonZero::get));
    let some = (values.len() / cols).div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (i, part) in values.chunks_mut(some * cols).enumerate() {
            let of = &of;
            scope.spawn(move || {
                let mut sum = vec![0.0; cols];
                for (row, values) in part.chunks_mut(cols).enumerate() {
                    of(i * some + row, values, &mut sum);
                }
            });
        }
    });
}
