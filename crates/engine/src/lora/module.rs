//! An adapter's file: matrices by the module that they are beside.
use super::addition::Addition;
use super::refuse;
use crate::error::Result;
use rinfer_formats::{Safetensors, Tensor, Weights, quant};
use std::collections::BTreeMap;
use std::path::Path;

/// A module's matrices as the file has them.
#[derive(Default)]
pub(super) struct Module {
    a: Option<Matrix>,
    b: Option<Matrix>,
    magnitude: Option<Vec<f32>>,
    /// Whether it is an embedding.
    pub embedding: bool,
}

pub(super) struct Matrix {
    pub rows: usize,
    pub cols: usize,
    pub values: Vec<f32>,
}

/// What a tensor's name in the file ends with, and which of a module's it is.
const PARTS: [(&str, Part); 5] = [
    (".lora_A.weight", Part::A),
    (".lora_B.weight", Part::B),
    (".lora_embedding_A", Part::EmbeddingA),
    (".lora_embedding_B", Part::EmbeddingB),
    (".lora_magnitude_vector", Part::Magnitude),
];

#[derive(Clone, Copy)]
enum Part {
    A,
    B,
    EmbeddingA,
    EmbeddingB,
    Magnitude,
}

/// The modules that a file has matrices of.
pub(super) fn modules(path: &Path) -> Result<BTreeMap<String, Module>> {
    let file = Safetensors::open(path)?;
    let mut modules: BTreeMap<String, Module> = BTreeMap::new();
    for name in file.names() {
        let stem = name.strip_prefix("base_model.model.").unwrap_or(name);
        let part = PARTS.iter().find_map(|(end, part)| Some((stem.strip_suffix(end)?, *part)));
        let (stem, part) = part.ok_or_else(|| {
            refuse(
                path,
                name,
                "not of LoRA or DoRA".into(),
                "an adapter without biases and modules_to_save",
            )
        })?;
        let matrix = file.get(name).and_then(|tensor| matrix(&tensor));
        let matrix =
            matrix.ok_or_else(|| refuse(path, name, "no matrix of floats".into(), "one"))?;
        let module = modules.entry(stem.to_owned()).or_default();
        module.embedding |= matches!(part, Part::EmbeddingA | Part::EmbeddingB);
        match part {
            Part::A | Part::EmbeddingA => module.a = Some(matrix),
            Part::B | Part::EmbeddingB => module.b = Some(matrix),
            Part::Magnitude => module.magnitude = Some(matrix.values),
        }
    }
    Ok(modules)
}

impl Module {
    /// What it adds to a matrix, of a shape if that is known, which is `[in, out]` where `turned`.
    pub fn addition(
        self,
        shape: Option<&[usize]>,
        scale: impl Fn(usize) -> f32,
        turned: bool,
    ) -> std::result::Result<Addition, String> {
        let (Some(a), Some(b)) = (self.a, self.b) else {
            return Err("only one of A and B is there".into());
        };
        let rank = a.rows;
        let turned = turned || self.embedding;
        let (rows, cols) = if turned { (a.cols, b.rows) } else { (b.rows, a.cols) };
        if b.cols != rank || shape.is_some_and(|shape| shape != [rows, cols]) {
            let (a, b) = ([a.rows, a.cols], [b.rows, b.cols]);
            let shape = shape.map(|shape| format!(", and the base's weight {shape:?}"));
            return Err(format!("A is {a:?} and B {b:?}{}", shape.unwrap_or_default()));
        }
        let (left, right) = if turned { (a.turned(), b.turned()) } else { (b.values, a.values) };
        let magnitude = self.magnitude;
        if magnitude.as_ref().is_some_and(|m| turned || m.len() != rows) {
            return Err("a magnitude vector of another length, or of a turned matrix".into());
        }
        Ok(Addition { left, right, rank, scale: scale(rank), magnitude })
    }
}

impl Matrix {
    pub fn turned(&self) -> Vec<f32> {
        let at = |c: usize| (0..self.rows).map(move |r| self.values[r * self.cols + c]);
        (0..self.cols).flat_map(at).collect()
    }
}

/// A tensor of floats with one axis or two.
pub(super) fn matrix(tensor: &Tensor<'_>) -> Option<Matrix> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).ok()?;
    (tensor.shape.len() <= 2).then(|| Matrix { rows: tensor.rows(), cols: tensor.cols(), values })
}
