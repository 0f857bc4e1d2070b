//! Opens whatever path a user gives.
use crate::bundle::Bundle;
use crate::error::{Cause, Error, Looks};
use crate::executable;
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
    /// A bundle.
    Bundle(Bundle),
}

/// Opens a bundle or the program that has one, a GGUF file, a folder with config.json and
/// safetensors, or a folder with one GGUF file or all files of one that is split.
/// What a file is follows from its content, not from its name.
///
/// # Errors
/// What is missing or wrong.
pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
    let path = path.as_ref();
    if !path.is_dir() {
        return match beginning(path) {
            Looks::Bundle => Bundle::open(path).map(Checkpoint::Bundle),
            Looks::Program => executable::bundle(path).map(Checkpoint::Bundle),
            _ => Gguf::open(path).map(Checkpoint::Gguf),
        };
    }
    let has = |name: &str| path.join(name).exists();
    let weights = !list(path, ".safetensors")?.is_empty() || has("model.safetensors.index.json");
    if has("config.json") && weights {
        return Folder::open(path).map(Checkpoint::Folder);
    }
    let mut names = list(path, "")?;
    names.retain(|name| beginning(&path.join(name)) == Looks::Gguf);
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
            Checkpoint::Bundle(bundle) => bundle,
        }
    }
}

/// What a regular file's first bytes look like; those of others are not looked at.
fn beginning(path: &Path) -> Looks {
    let mut bytes = Vec::new();
    let read = |file: std::fs::File| file.take(8).read_to_end(&mut bytes);
    let read = path.is_file() && std::fs::File::open(path).and_then(read).is_ok();
    if read { Looks::at(&bytes) } else { Looks::Unknown }
}
