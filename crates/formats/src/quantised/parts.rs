//! The tensors that lie beside a matrix's first, and what is wrong with them.
use crate::error::Cause;
use crate::tensor::{DType, Tensor, Weights};

/// A matrix's tensors as they are found.
pub(super) struct Parts<'a> {
    raw: &'a dyn Weights,
    first: &'a str,
    used: Vec<String>,
}

impl<'a> Parts<'a> {
    pub fn new(raw: &'a dyn Weights, first: &'a str) -> Parts<'a> {
        Parts { raw, first, used: Vec::new() }
    }
    /// What was asked for and there.
    pub fn used(self) -> Vec<String> {
        self.used
    }
    /// Whether the tensor called `name` is of a type.
    pub fn is(&self, name: &str, dtype: DType) -> bool {
        self.raw.describe(name).is_some_and(|(found, _)| found == dtype)
    }
    /// Axes of the tensor called `name`; none at all if it is not there.
    pub fn axes(&self, name: &str) -> usize {
        self.raw.describe(name).map_or(0, |(_, shape)| shape.len())
    }
    /// Whether there is a tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.raw.describe(name).is_some()
    }
    /// The tensor called `name`, if there is one.
    pub fn find(&mut self, name: &str) -> Option<Tensor<'a>> {
        let found = self.raw.get(name)?;
        self.used.push(name.to_owned());
        Some(found)
    }
    /// The tensor called `name`, of one of these types and so many axes.
    pub fn need(&mut self, name: &str, types: &[DType], axes: usize) -> Result<Tensor<'a>, Cause> {
        let first = self.first;
        let found = self
            .find(name)
            .ok_or_else(|| Cause::Part { tensor: first.to_owned(), part: name.to_owned() })?;
        let fits = types.contains(&found.dtype) && found.shape.len() == axes;
        if fits && !found.shape.contains(&0) {
            return Ok(found);
        }
        let names: Vec<&str> = types.iter().map(|dtype| dtype.name()).collect();
        Err(wrong(name, &found, format!("{axes} axes, none of 0, of {}", names.join(" or "))))
    }
    /// Tensors that say how activations were quantised where it was trained: ours are not.
    pub fn of_activations(&mut self, stem: &str) {
        for part in ["input_scale", "input_zero_point", "output_scale"] {
            let _ = self.find(&format!("{stem}.{part}"));
        }
    }
}

/// A tensor that is not as the others want it.
pub(super) fn wrong(name: &str, found: &Tensor<'_>, expected: String) -> Cause {
    let found = format!("{} {:?}", found.dtype.name(), found.shape);
    Cause::PartShape { tensor: name.to_owned(), found, expected }
}

/// Refuses `tensor` unless it has this shape.
pub(super) fn shaped(name: &str, tensor: &Tensor<'_>, shape: &[usize]) -> Result<(), Cause> {
    if *tensor.shape == *shape { Ok(()) } else { Err(wrong(name, tensor, format!("{shape:?}"))) }
}
