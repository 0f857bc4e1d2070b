//! A folder's safetensors as one set of tensors: one file, or shards with or without an index.
use crate::error::{Cause, Error};
use crate::hf::{json, list, missing, read};
use crate::safetensors::Safetensors;
use crate::tensor::{Tensor, Weights};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The open files.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    files: Vec<Safetensors>,
    /// Each tensor's file.
    shard_of: HashMap<String, usize>,
    /// In the order of the files, then of their bytes.
    names: Vec<String>,
}

impl Shards {
    /// Reads the headers of `folder`'s files.
    pub fn open(folder: &Path) -> Result<Shards, Error> {
        let mut shards = Shards::default();
        if folder.join(INDEX).exists() {
            shards.add_indexed(folder)?;
        } else if folder.join(SINGLE).exists() {
            shards.add(folder, SINGLE)?;
        } else {
            for name in unindexed(folder)? {
                shards.add(folder, &name)?;
            }
        }
        Ok(shards)
    }
    /// Of one open file.
    pub fn of(name: &Path, file: Safetensors) -> Result<Shards, Error> {
        let mut shards = Shards::default();
        shards.join(name, file)?;
        Ok(shards)
    }
    /// Adds the shards that the index names, and checks it against them.
    fn add_indexed(&mut self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(INDEX);
        let bytes = read(folder, INDEX)?.ok_or_else(|| missing(folder, INDEX, ""))?;
        let index = json(&path, &bytes)?;
        let wrong = || {
            Error::at(
                &path,
                Cause::Json("it has no map 'weight_map' of tensors to files".to_owned()),
            )
        };
        let map = index.get("weight_map").and_then(Value::as_object).ok_or_else(wrong)?;
        let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tensor, shard) in map {
            shards.entry(shard.as_str().ok_or_else(wrong)?).or_default().push(tensor);
        }
        for (shard, tensors) in shards {
            if !plain(shard) {
                return Err(Error::at(&path, Cause::ShardName { name: shard.to_owned() }));
            }
            if !folder.join(shard).exists() {
                return Err(missing(folder, shard, "which model.safetensors.index.json names"));
            }
            let number = self.files.len();
            self.add(folder, shard)?;
            for tensor in tensors {
                if self.shard_of.get(tensor) != Some(&number) {
                    let (tensor, shard) = (tensor.to_owned(), shard.to_owned());
                    return Err(Error::at(&path, Cause::NotInShard { tensor, shard }));
                }
            }
        }
        Ok(())
    }
    fn add(&mut self, folder: &Path, name: &str) -> Result<(), Error> {
        let path = folder.join(name);
        self.join(&path, Safetensors::open(&path)?)
    }
    fn join(&mut self, path: &Path, shard: Safetensors) -> Result<(), Error> {
        for tensor in shard.names() {
            if self.shard_of.insert(tensor.to_owned(), self.files.len()).is_some() {
                let tensor = tensor.to_owned();
                return Err(Error::at(path, Cause::DuplicateTensor { tensor }));
            }
            self.names.push(tensor.to_owned());
        }
        self.files.push(shard);
        Ok(())
    }
}

impl Weights for Shards {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.files[*self.shard_of.get(name)?].get(name)
    }
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.files.iter().for_each(|file| file.release(bytes));
    }
}

/// Shards without an index, sorted: `NAME-00001-of-00003.safetensors` and so on, all of them.
fn unindexed(path: &Path) -> Result<Vec<String>, Error> {
    let found = list(path, ".safetensors")?;
    let Some((stem, _, count)) = found.iter().find_map(|name| numbered(name)) else {
        return Err(missing(path, SINGLE, "nor numbered shards or an index of them"));
    };
    // The count is checked against the files that are there before it is counted up to.
    let shard = |n: usize| format!("{stem}-{n:05}-of-{count:05}.safetensors");
    let absent = (1..=count).take(found.len() + 1).map(shard).find(|name| !found.contains(name));
    match absent {
        Some(name) => Err(missing(path, &name, "which its other shards count")),
        None => Ok((1..=count).map(shard).collect()),
    }
}

/// A shard's stem, number and count.
fn numbered(name: &str) -> Option<(&str, usize, usize)> {
    let (rest, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    Some((stem, number.parse().ok()?, count.parse().ok().filter(|n| *n > 0)?))
}

/// Whether a name stays in its folder.
pub(crate) fn plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0'])
}
