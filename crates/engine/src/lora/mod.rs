//! LoRA adapters as PEFT saves them, merged into a checkpoint's tensors before these are named or
//! packed: `W + scale · B·A`. Hu et al. 2021, arXiv:2106.09685; rsLoRA: Kalajdzievski 2023,
//! arXiv:2312.03732; DoRA: Liu et al. 2024, arXiv:2402.09353.
//!
//! Merged tensors are f32, whatever they were. PEFT names modules as a Hugging Face checkpoint names its
//! tensors; what a GGUF file calls otherwise is added to where it has its canonical name. All that an
//! adapter holds must be used.
mod config;
mod gguf;

use crate::error::{Error, Result};
use crate::weights::OUTER;
use crate::weights::added::{Added, Sum};
use config::Config;
use rinfer_formats::{DType, Safetensors, Tensor, Weights, quant};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// An adapter that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// PEFT's folder, or llama.cpp's file.
    pub path: PathBuf,
    /// Multiplies what it adds; 1 is as it was trained.
    pub scale: f32,
}

/// What adapters add to the tensors of one checkpoint.
#[derive(Debug, Default)]
pub struct Adapters {
    /// By the checkpoint's names.
    own: Additions,
    /// By a folder's names, which the checkpoint has not.
    others: Additions,
    /// What those are added to.
    added: Added,
}

/// By a tensor's name.
#[derive(Debug, Default)]
struct Additions(HashMap<String, Vec<Addition>>);

/// A product of low rank that is added to a matrix.
#[derive(Debug)]
struct Addition {
    /// `[rows, rank]`.
    left: Vec<f32>,
    /// `[rank, cols]`.
    right: Vec<f32>,
    rank: usize,
    scale: f32,
    /// What the rows' lengths become.
    magnitude: Option<Vec<f32>>,
}

/// A module's matrices as the file has them.
#[derive(Default)]
struct Module {
    a: Option<Matrix>,
    b: Option<Matrix>,
    magnitude: Option<Vec<f32>>,
    embedding: bool,
}

struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f32>,
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

impl Adapters {
    /// Reads adapters and holds them against `base`, whose head is the embedding if `tied`.
    ///
    /// # Errors
    /// A file that is missing or broken; a kind of adapter that can't be merged; a module that the base has
    /// not, or of another shape.
    pub fn read(adapters: &[Adapter], base: &dyn Weights, tied: bool) -> Result<Adapters> {
        let mut all = Adapters::default();
        for adapter in adapters {
            all.add(adapter, base, tied)?;
        }
        Ok(all)
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.own.0.is_empty() && self.added.is_empty()
    }
    /// Whether some are added to canonical tensors.
    pub fn of_other_names(&self) -> bool {
        !self.added.is_empty()
    }
    /// `base` with all that go by its names.
    pub fn over<'a>(&'a self, base: &'a dyn Weights) -> Merged<'a> {
        Merged { base, adapters: self }
    }
    /// The canonical tensors of a base with all others.
    pub fn over_canonical<'a>(&'a self, base: Box<dyn Weights + 'a>) -> Sum<'a> {
        self.added.over(base, &self.others)
    }

    fn add(&mut self, adapter: &Adapter, base: &dyn Weights, tied: bool) -> Result<()> {
        if adapter.path.is_file() {
            let found = "a file".into();
            let expected = "PEFT's folder; adapter files go with GGUF files";
            return Err(refuse(&adapter.path, "all of it", found, expected));
        }
        let config = Config::read(&adapter.path)?;
        let path = adapter.path.join("adapter_model.safetensors");
        let refuse =
            |name: &str, found: String, expected: &str| refuse(&path, name, found, expected);
        for (name, module) in modules(&path)? {
            let name = &*name;
            let target = format!("{name}.weight");
            // A base without its head names its tensors without what is around them.
            let inner = OUTER.iter().find_map(|outer| target.strip_prefix(outer));
            let mut names = [Some(target.as_str()), inner].into_iter().flatten();
            let found = names.find_map(|name| Some((name, base.describe(name)?)));
            let (target, (dtype, shape)) = found.ok_or_else(|| {
                refuse(
                    name,
                    format!("the base has no '{target}'"),
                    "the base that it was trained on",
                )
            })?;
            if module.embedding && tied {
                let found = "of an embedding that is the head as well".into();
                return Err(refuse(name, found, "an adapter of other modules"));
            }
            if quant::dequantise(dtype, &[], &mut []).is_err() {
                let found = format!("the base's '{target}' is {}", dtype.name());
                return Err(refuse(name, found, "a base of weights"));
            }
            let by = config.scale(name)?;
            let scale = |rank| adapter.scale * by(rank);
            let wrong = |found: String| refuse(name, found, "matrices A and B of the base's shape");
            let addition = module.addition(Some(&shape), scale, config.turned).map_err(wrong)?;
            self.own.0.entry(target.to_owned()).or_default().push(addition);
        }
        Ok(())
    }
}

impl Additions {
    /// Reads PEFT's adapter by its own names.
    fn named(&mut self, adapter: &Adapter, tied: bool) -> Result<()> {
        let config = Config::read(&adapter.path)?;
        let path = adapter.path.join("adapter_model.safetensors");
        for (name, module) in modules(&path)? {
            let refuse = |found: String, expected: &str| refuse(&path, &name, found, expected);
            if module.embedding && tied {
                let found = "of an embedding that is the head as well".into();
                return Err(refuse(found, "an adapter of other modules"));
            }
            if module.magnitude.is_some() {
                let found = "a magnitude vector of DoRA".into();
                return Err(refuse(found, "LoRA alone over a GGUF file: give the base's folder"));
            }
            let by = config.scale(&name)?;
            let scale = |rank| adapter.scale * by(rank);
            let wrong = |found: String| refuse(found, "matrices A and B of one rank");
            let addition = module.addition(None, scale, config.turned).map_err(wrong)?;
            self.0.entry(format!("{name}.weight")).or_default().push(addition);
        }
        Ok(())
    }
    /// Adds all of those of the tensor called `name` to `values`.
    fn to(&self, name: &str, cols: usize, values: &mut [f32]) {
        let mut sum = vec![0.0; cols];
        for addition in self.0.get(name).into_iter().flatten() {
            for (row, values) in values.chunks_mut(cols.max(1)).enumerate() {
                addition.to(row, values, &mut sum);
            }
        }
    }
}

/// What is added, as tensors.
impl Weights for Additions {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let (dtype, shape) = self.describe(name)?;
        let mut values = vec![0.0; shape.iter().product()];
        self.to(name, shape[1], &mut values);
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Some(Tensor { dtype, shape: shape.into(), bytes: bytes.into() })
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let first = self.0.get(name)?.first()?;
        Some((DType::F32, vec![first.rows(), first.cols()]))
    }
    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// What is wrong with a tensor, or a module's, of the file at `path`.
fn refuse(path: &Path, name: &str, found: String, expected: &str) -> Error {
    Error::Field {
        file: path.display().to_string(),
        field: format!("tensor '{name}'"),
        found,
        expected: expected.into(),
    }
}

/// The modules that a file has matrices of.
fn modules(path: &Path) -> Result<BTreeMap<String, Module>> {
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
    fn addition(
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
    fn turned(&self) -> Vec<f32> {
        let at = |c: usize| (0..self.rows).map(move |r| self.values[r * self.cols + c]);
        (0..self.cols).flat_map(at).collect()
    }
}

/// A tensor of floats with one axis or two.
fn matrix(tensor: &Tensor<'_>) -> Option<Matrix> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).ok()?;
    (tensor.shape.len() <= 2).then(|| Matrix { rows: tensor.rows(), cols: tensor.cols(), values })
}

/// A checkpoint with adapters.
pub struct Merged<'a> {
    base: &'a dyn Weights,
    adapters: &'a Adapters,
}

impl Adapters {
    /// As `base`'s, merged.
    pub fn get<'a>(&self, base: &'a dyn Weights, name: &str) -> Option<Tensor<'a>> {
        let tensor = base.get(name)?;
        if !self.has(name) {
            return Some(tensor);
        }
        let mut values = vec![0.0; tensor.shape.iter().product()];
        quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).ok()?;
        base.release(&tensor.bytes);
        self.own.to(name, tensor.cols(), &mut values);
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Some(Tensor { dtype: DType::F32, shape: tensor.shape, bytes: bytes.into() })
    }
    /// As `base`'s, merged.
    pub fn part<'a>(&self, base: &'a dyn Weights, name: &str, i: usize) -> Option<Tensor<'a>> {
        if self.has(name) { self.get(base, name)?.part(i) } else { base.part(name, i) }
    }
    /// As `base`'s; what is merged is f32.
    pub fn describe(&self, base: &dyn Weights, name: &str) -> Option<(DType, Vec<usize>)> {
        let (dtype, shape) = base.describe(name)?;
        Some((if self.has(name) { DType::F32 } else { dtype }, shape))
    }
    /// Whether something is added to the base's tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.own.0.contains_key(name)
    }
}

impl Weights for Merged<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.adapters.get(self.base, name)
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.adapters.describe(self.base, name)
    }
    fn names(&self) -> Vec<&str> {
        self.base.names()
    }
}

impl Addition {
    fn rows(&self) -> usize {
        self.left.len() / self.rank.max(1)
    }
    fn cols(&self) -> usize {
        self.right.len() / self.rank.max(1)
    }
    /// Adds to a row of the matrix; `sum` is for the product's.
    fn to(&self, row: usize, values: &mut [f32], sum: &mut [f32]) {
        sum.fill(0.0);
        for (k, right) in self.right.chunks_exact(sum.len()).enumerate() {
            let left = self.left[row * self.rank + k];
            sum.iter_mut().zip(right).for_each(|(sum, right)| *sum += left * right);
        }
        values.iter_mut().zip(sum).for_each(|(value, sum)| *value += self.scale * *sum);
        let Some(magnitude) = &self.magnitude else { return };
        let length = values.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        let factor = (f64::from(magnitude[row]) / length) as f32;
        values.iter_mut().for_each(|value| *value *= factor);
    }
}
