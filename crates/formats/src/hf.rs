//! A model's folder as Hugging Face's hub has it: config.json, safetensors in one file or in
//! shards, tokenizer and template files.
use crate::error::{Cause, Error};
use crate::limits;
use crate::safetensors::Safetensors;
use crate::tensor::{Tensor, Weights};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    config: Value,
    shards: Vec<Safetensors>,
    /// Each tensor's shard.
    shard_of: HashMap<String, usize>,
    /// In the order of the shards, then of their bytes.
    names: Vec<String>,
}

impl Folder {
    /// Reads config.json and every shard's header.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Folder, Error> {
        let path = path.as_ref();
        let config = read(path, "config.json")?
            .ok_or_else(|| missing(path, "config.json", "which says what the model is"))?;
        let config = json(&path.join("config.json"), &config)?;
        let mut folder = Folder {
            path: path.to_owned(),
            config,
            shards: Vec::new(),
            shard_of: HashMap::new(),
            names: Vec::new(),
        };
        if path.join(INDEX).exists() {
            folder.add_indexed()?;
        } else if path.join(SINGLE).exists() {
            folder.add(SINGLE)?;
        } else {
            for name in unindexed(path)? {
                folder.add(&name)?;
            }
        }
        Ok(folder)
    }
    /// config.json.
    pub fn config(&self) -> &Value {
        &self.config
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// tokenizer.json, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or is too large.
    pub fn tokenizer(&self) -> Result<Option<Vec<u8>>, Error> {
        read(&self.path, "tokenizer.json")
    }
    /// tokenizer_config.json, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or is too large.
    pub fn tokenizer_config(&self) -> Result<Option<Vec<u8>>, Error> {
        read(&self.path, "tokenizer_config.json")
    }
    /// generation_config.json, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or is too large.
    pub fn generation_config(&self) -> Result<Option<Vec<u8>>, Error> {
        read(&self.path, "generation_config.json")
    }
    /// special_tokens_map.json, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or is too large.
    pub fn special_tokens_map(&self) -> Result<Option<Vec<u8>>, Error> {
        read(&self.path, "special_tokens_map.json")
    }
    /// The chat template in a file of its own: chat_template.jinja, or the field of
    /// chat_template.json. Older models have it in tokenizer_config.json.
    ///
    /// # Errors
    /// If it can't be read, is too large, or no text.
    pub fn chat_template(&self) -> Result<Option<String>, Error> {
        let name = "chat_template.jinja";
        if let Some(text) = read(&self.path, name)? {
            let text = String::from_utf8(text);
            let utf8 = |_| Cause::Utf8 { what: "the chat template".to_owned() };
            return text.map(Some).map_err(|e| Error::at(&self.path.join(name), utf8(e)));
        }
        let name = "chat_template.json";
        let Some(bytes) = read(&self.path, name)? else { return Ok(None) };
        let path = self.path.join(name);
        match json(&path, &bytes)?.get("chat_template") {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            _ => Err(Error::at(&path, Cause::Json("it has no string 'chat_template'".to_owned()))),
        }
    }
    /// Adds the shards that the index names, and checks it against them.
    fn add_indexed(&mut self) -> Result<(), Error> {
        let path = self.path.join(INDEX);
        let bytes = read(&self.path, INDEX)?.ok_or_else(|| missing(&self.path, INDEX, ""))?;
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
            if !self.path.join(shard).exists() {
                return Err(missing(&self.path, shard, "which model.safetensors.index.json names"));
            }
            let number = self.shards.len();
            self.add(shard)?;
            for tensor in tensors {
                if self.shard_of.get(tensor) != Some(&number) {
                    let (tensor, shard) = (tensor.to_owned(), shard.to_owned());
                    return Err(Error::at(&path, Cause::NotInShard { tensor, shard }));
                }
            }
        }
        Ok(())
    }
    fn add(&mut self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        let shard = Safetensors::open(&path)?;
        for tensor in shard.names() {
            if self.shard_of.insert(tensor.to_owned(), self.shards.len()).is_some() {
                let tensor = tensor.to_owned();
                return Err(Error::at(&path, Cause::DuplicateTensor { tensor }));
            }
            self.names.push(tensor.to_owned());
        }
        self.shards.push(shard);
        Ok(())
    }
}

impl Weights for Folder {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.shards[*self.shard_of.get(name)?].get(name)
    }
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.shards.iter().for_each(|shard| shard.release(bytes));
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

/// The folder's files that end so, sorted.
pub(crate) fn list(path: &Path, suffix: &str) -> Result<Vec<String>, Error> {
    let read = || {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            if let Ok(name) = entry?.file_name().into_string()
                && name.ends_with(suffix)
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    };
    read().map_err(|cause: std::io::Error| Error::at(path, cause.into()))
}

/// Whether a name stays in its folder.
fn plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0'])
}

fn missing(path: &Path, name: &str, why: &str) -> Error {
    Error::at(path, Cause::MissingFile { name: name.to_owned(), why: why.to_owned() })
}

/// A side file's content, if there is one.
fn read(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = folder.join(name);
    let read = || {
        let size = match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            found => found?.len(),
        };
        if size > limits::SIDE_FILE {
            return Err(Cause::FileSize { size, limit: limits::SIDE_FILE });
        }
        Ok(Some(std::fs::read(&path)?))
    };
    read().map_err(|cause| Error::at(&path, cause))
}

fn json(path: &Path, bytes: &[u8]) -> Result<Value, Error> {
    let plain = without_pythons_numbers(bytes);
    serde_json::from_slice(&plain).map_err(|e| Error::at(path, Cause::Json(e.to_string())))
}

/// Python writes numbers that JSON has not: nearly the largest f32 stands for infinity, null for what
/// is no number.
fn without_pythons_numbers(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [(&[u8], &[u8]); 2] = [(b"Infinity", b"3.4e38"), (b"NaN", b"null")];
    let mut out = Vec::with_capacity(bytes.len());
    let (mut at, mut in_text) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        let word = WORDS.iter().find(|(word, _)| !in_text && bytes[at..].starts_with(word));
        let taken = match (word, byte) {
            (Some((word, plain)), _) => {
                out.extend_from_slice(plain);
                at += word.len();
                continue;
            }
            (None, b'\\') if in_text => 2,
            _ => 1,
        };
        in_text ^= byte == b'"';
        out.extend_from_slice(&bytes[at..bytes.len().min(at + taken)]);
        at += taken;
    }
    out
}
