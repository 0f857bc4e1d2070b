//! A product of low rank that is added to a matrix.

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
        let (cols, mut values) = (self.cols(), vec![0.0; self.rows() * self.cols()]);
        let mut sum = vec![0.0; cols];
        for (row, values) in values.chunks_mut(cols.max(1)).enumerate() {
            self.add(row, values, &mut sum);
        }
        values
    }
    /// Adds it to a matrix, whose rows get their lengths then.
    pub fn to(&self, cols: usize, values: &mut [f32]) {
        let mut sum = vec![0.0; cols];
        for (row, values) in values.chunks_mut(cols.max(1)).enumerate() {
            self.add(row, values, &mut sum);
            let Some(magnitude) = &self.magnitude else { continue };
            let length = values.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
            let factor = (f64::from(magnitude[row]) / length) as f32;
            values.iter_mut().for_each(|value| *value *= factor);
        }
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
