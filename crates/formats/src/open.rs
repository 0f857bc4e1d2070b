//! Opens whatever path a user gives.
use crate::error::{Cause, Error, Looks};
use crate::gguf::{Gguf, split};
use crate::hf::{Folder, list};
use crate::tensor::Weights;
use std::io::Read;
use std::path::Path;

/// An open checkpoint.
#[derive(Debug)]
pub enum Checkpoint {
    /// One GGUF file.
    Gguf(Gguf),
    /// A folder of safetensors.
    Folder(Folder),
}

/// Opens a GGUF file, a folder with config.json and safetensors, or a folder with one GGUF file or all
/// files of one that is split.
/// What a file is follows from its content, not from its name.
///
/// # Errors
/// What is missing or wrong.
pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
    let path = path.as_ref();
    if !path.is_dir() {
        return Gguf::open(path).map(Checkpoint::Gguf);
    }
    let has = |name: &str| path.join(name).exists();
    let weights = !list(path, ".safetensors")?.is_empty() || has("model.safetensors.index.json");
    if has("config.json") && weights {
        return Folder::open(path).map(Checkpoint::Folder);
    }
    let mut names = list(path, "")?;
    names.retain(|name| is_gguf(&path.join(name)));
    // Sorted, so that the files of a set are neighbours.
    names.dedup_by(|a, b| split::same(a, b));
    match &names[..] {
        [] if has("config.json") || weights => Folder::open(path).map(Checkpoint::Folder),
        [] => Err(Error::at(path, Cause::NoModel)),
        [name] => Gguf::open(path.join(name)).map(Checkpoint::Gguf),
        _ => Err(Error::at(path, Cause::SeveralModels { names })),
    }
}

impl Checkpoint {
    /// The tensors, by the names that the files have.
    pub fn weights(&self) -> &dyn Weights {
        match self {
            Checkpoint::Gguf(gguf) => gguf,
            Checkpoint::Folder(folder) => folder,
        }
    }
    /// The hyper-parameters, in the vocabulary of Hugging Face's config.json.
    ///
    /// # Errors
    /// As [`Gguf::config`].
    pub fn config(&self) -> Result<serde_json::Value, Error> {
        match self {
            Checkpoint::Gguf(gguf) => gguf.config(),
            Checkpoint::Folder(folder) => Ok(folder.config().clone()),
        }
    }
}

/// Whether a regular file begins like a GGUF.
fn is_gguf(path: &Path) -> bool {
    let mut magic = Vec::new();
    path.is_file()
        && std::fs::File::open(path).is_ok_and(|f| f.take(4).read_to_end(&mut magic).is_ok())
        && Looks::at(&magic) == Looks::Gguf
}
