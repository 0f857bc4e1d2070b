//! A bundle's tensors, which have canonical names already.
use super::floats;
use crate::cpu::lie::Lie;
use crate::cpu::stored::stored;
use rinfer_formats::{DType, Prepared, Tensor, Weights};
use rinfer_kernels::Packed;
use std::ops::Range;
use std::sync::Arc;

/// Tensors that have canonical names already. What is packed is unpacked for whoever asks for its
/// numbers.
pub struct Ready<'a>(pub &'a dyn Weights);

impl Ready<'_> {
    /// The packed matrices called `name`, or those of a range of theirs, as f32.
    fn unpacked(&self, name: &str, some: Option<Range<usize>>) -> Option<Tensor<'_>> {
        let shape = self.0.prepared(name)?.shape;
        let all = stored(self.0, name).ok()??;
        let across = Lie::named(name, self.0.prepared(name)?.layout)?.across;
        let (matrices, shape) = match some {
            Some(some) => (all.get(some)?, shape.get(1..)?),
            None => (&all[..], shape),
        };
        let of = |matrix: &Packed| {
            let mut values = vec![0.0; matrix.rows() * matrix.cols()];
            let rows = values.chunks_mut(matrix.cols().max(1)).enumerate();
            rows.for_each(|(i, row)| matrix.row(i, row));
            self.0.release(matrix.bytes());
            if across { turned(&values, matrix.cols()) } else { values }
        };
        Some(floats(&matrices.iter().map(of).collect::<Vec<_>>().concat(), shape))
    }
}

/// Rows of `cols` elements as columns.
fn turned(values: &[f32], cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|c| values.iter().copied().skip(c).step_by(cols)).collect()
}

impl Weights for Ready<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.0.get(name).or_else(|| self.unpacked(name, None))
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        match self.0.prepared(name) {
            Some(_) => self.unpacked(name, Some(i..i + 1)),
            None => self.0.part(name, i),
        }
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.0.describe(name)
    }
    fn prepared(&self, name: &str) -> Option<Prepared<'_>> {
        self.0.prepared(name)
    }
    fn stored_order(&self, name: &str) -> Option<Arc<[u32]>> {
        self.0.stored_order(name)
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
    fn release(&self, bytes: &[u8]) {
        self.0.release(bytes);
    }
}
