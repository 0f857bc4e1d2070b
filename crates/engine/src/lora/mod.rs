//! LoRA adapters as PEFT saves them, merged into a checkpoint's tensors before these are named or
//! packed: `W + scale · B·A`. Hu et al. 2021, arXiv:2106.09685; rsLoRA: Kalajdzievski 2023,
//! arXiv:2312.03732; DoRA: Liu et al. 2024, arXiv:2402.09353.
//!
//! Merged tensors are f32, whatever they were. PEFT names modules as a Hugging Face checkpoint names its
//! tensors; what a GGUF file calls otherwise is added to where it has its canonical name. All that an
//! adapter holds must be used.
mod addition;
mod canonical;
mod config;
mod gguf;
mod module;
mod opened;

pub use canonical::Canonical;

use crate::error::{Error, Result};
use crate::weights::added::{Added, Deltas};
use crate::weights::{OUTER, floats, wide};
use addition::Addition;
use config::Config;
use module::modules;
use rinfer_formats::{DType, Tensor, Weights, quant};
use std::collections::HashMap;
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
    /// By a folder's names, which the checkpoint has, one after the other.
    own: HashMap<String, Vec<Addition>>,
    /// By a folder's or a file's, and added to canonical tensors, one after the other.
    others: Vec<Other>,
}

/// One adapter, and what it is added to.
#[derive(Debug)]
struct Other {
    additions: Additions,
    added: Added,
}

/// One adapter's, by the names of tensors that it has.
#[derive(Debug, Default)]
struct Additions(HashMap<String, Addition>);

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
        self.own.is_empty() && self.others.is_empty()
    }
    /// What those of other names are added to, by canonical name.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.others.iter().flat_map(|other| other.added.names())
    }
    /// `base` with all that go by its names.
    pub fn over<'a>(&'a self, base: &'a dyn Weights) -> Merged<'a> {
        Merged { base, adapters: self }
    }
    /// The canonical tensors of a base with all others.
    pub fn over_canonical<'a>(&'a self, base: Box<dyn Weights + 'a>) -> Box<dyn Weights + 'a> {
        self.others
            .iter()
            .fold(base, |base, other| Box::new(other.added.over(base, &other.additions)))
    }

    fn add(&mut self, adapter: &Adapter, base: &dyn Weights, tied: bool) -> Result<()> {
        if adapter.path.is_file() {
            return Err(no_folder(&adapter.path));
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
            self.own.entry(target.to_owned()).or_default().push(addition);
        }
        Ok(())
    }
}

impl Additions {
    /// Reads PEFT's adapter by its own names.
    fn named(adapter: &Adapter, tied: bool) -> Result<Additions> {
        let config = Config::read(&adapter.path)?;
        let path = adapter.path.join("adapter_model.safetensors");
        let mut all = HashMap::new();
        for (name, module) in modules(&path)? {
            let refuse = |found: String, expected: &str| refuse(&path, &name, found, expected);
            if module.embedding && tied {
                let found = "of an embedding that is the head as well".into();
                return Err(refuse(found, "an adapter of other modules"));
            }
            let by = config.scale(&name)?;
            let scale = |rank| adapter.scale * by(rank);
            let wrong = |found: String| refuse(found, "matrices A and B of one rank");
            let addition = module.addition(None, scale, config.turned).map_err(wrong)?;
            all.insert(format!("{name}.weight"), addition);
        }
        Ok(Additions(all))
    }
}

/// The products, as tensors.
impl Weights for Additions {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let (_, shape) = self.describe(name)?;
        Some(floats(&self.0.get(name)?.product(), shape))
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let addition = self.0.get(name)?;
        Some((DType::F32, vec![addition.rows(), addition.cols()]))
    }
    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

impl Deltas for Additions {
    fn lengths(&self, name: &str) -> Option<&[f32]> {
        self.0.get(name)?.magnitude.as_deref()
    }
}

/// That an adapter is llama.cpp's file, over what was no GGUF file.
fn no_folder(path: &Path) -> Error {
    let expected = "PEFT's folder; adapter files go with GGUF files";
    refuse(path, "all of it", "a file".into(), expected)
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
        let mut values = wide(&tensor)?;
        base.release(&tensor.bytes);
        let cols = tensor.cols();
        self.own.get(name).into_iter().flatten().for_each(|one| one.to(cols, &mut values));
        Some(floats(&values, tensor.shape))
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
        self.own.contains_key(name)
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
