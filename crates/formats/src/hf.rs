//! A model's folder as Hugging Face's hub has it: config.json, safetensors in one file or in
//! shards, tokenizer and template files.
use crate::error::{Cause, Error};
use crate::limits;
use crate::modules::{Module, Modules};
use crate::quantised::{Made, Quantised};
use crate::safetensors::Safetensors;
use crate::shards::Shards;
use crate::tensor::{DType, Tensor, Weights};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    config: Value,
    shards: Shards,
    quantised: Option<Quantised>,
    modules: Option<Modules>,
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
        let shards = Shards::open(path)?;
        let quantised = Quantised::of(path, &config, &shards)?;
        let modules = Modules::open(path)?;
        Ok(Folder { path: path.to_owned(), config, shards, quantised, modules })
    }
    /// Reads config.json and one file of tensors from memory; errors say that they are in `name`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(name: impl AsRef<Path>, config: &[u8], tensors: Vec<u8>) -> Result<Folder, Error> {
        let path = name.as_ref();
        let config = json(&path.join("config.json"), config)?;
        let shards = Shards::of(path, Safetensors::parse(path, tensors)?)?;
        let quantised = Quantised::of(path, &config, &shards)?;
        Ok(Folder { path: path.to_owned(), config, shards, quantised, modules: None })
    }
    /// config.json.
    pub fn config(&self) -> &Value {
        &self.config
    }
    fn made(&self, name: &str) -> Option<&Made> {
        self.quantised.as_ref()?.get(name)
    }
    /// What sentence-transformers makes of a text, step by step, if the folder says so.
    pub fn modules(&self) -> Option<&[Module]> {
        self.modules.as_ref().map(|modules| &modules.all[..])
    }
    /// An object in a file of its own, such as config_sentence_transformers.json, if there is one.
    ///
    /// # Errors
    /// If it can't be read, is too large, or no JSON.
    pub fn object(&self, name: &str) -> Result<Option<Value>, Error> {
        let bytes = read(&self.path, name)?;
        bytes.map(|bytes| json(&self.path.join(name), &bytes)).transpose()
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
    /// The model card, README.md, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or is too large.
    pub fn readme(&self) -> Result<Option<String>, Error> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(read(&self.path, "README.md")?.map(text))
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
}

/// What a quantised folder stores in several tensors is one of row blocks here.
impl Weights for Folder {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        match self.made(name) {
            Some(made) => Some(made.tensor(&self.shards)),
            None => self.shards.get(name).or_else(|| self.modules.as_ref()?.get(name)),
        }
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        match self.made(name) {
            Some(made) => made.part(&self.shards, i),
            None => self.shards.part(name, i).or_else(|| self.modules.as_ref()?.part(name, i)),
        }
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        match self.made(name) {
            Some(made) => Some((made.dtype(), made.shape().to_vec())),
            None => self.shards.describe(name).or_else(|| self.modules.as_ref()?.describe(name)),
        }
    }
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        self.made(name)?.order()
    }
    fn in_order(&self, name: &str) -> Option<Tensor<'_>> {
        self.made(name)?.in_order(&self.shards)
    }
    fn alike(&self, name: &str) -> usize {
        self.made(name).map_or(1, |made| made.alike())
    }
    fn names(&self) -> Vec<&str> {
        let mut names =
            self.quantised.as_ref().map_or_else(|| self.shards.names(), Quantised::names);
        names.extend(self.modules.iter().flat_map(Modules::names));
        names
    }
    fn release(&self, bytes: &[u8]) {
        self.shards.release(bytes);
        self.modules.iter().for_each(|modules| modules.release(bytes));
    }
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

pub(crate) fn missing(path: &Path, name: &str, why: &str) -> Error {
    Error::at(path, Cause::MissingFile { name: name.to_owned(), why: why.to_owned() })
}

/// A side file's content, if there is one.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
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

pub(crate) fn json(path: &Path, bytes: &[u8]) -> Result<Value, Error> {
    let plain = without_pythons_numbers(bytes);
    let read = serde_json::from_slice(&plain);
    let mut value = read.map_err(|e| Error::at(path, Cause::Json(e.to_string())))?;
    take_wrapped_numbers(&mut value);
    Ok(value)
}

/// Newer transformers wrap these numbers, `{"__float__": "Infinity"}`: they mean the same.
fn take_wrapped_numbers(value: &mut Value) {
    let wrapped = |value: &Value| {
        let only = value.as_object().filter(|object| object.len() == 1)?;
        Some(match only.get("__float__")?.as_str()? {
            "Infinity" => Value::from(3.4e38),
            "-Infinity" => Value::from(-3.4e38),
            "NaN" => Value::Null,
            _ => return None,
        })
    };
    if let Some(number) = wrapped(value) {
        *value = number;
    }
    match value {
        Value::Array(all) => all.iter_mut().for_each(take_wrapped_numbers),
        Value::Object(all) => all.values_mut().for_each(take_wrapped_numbers),
        _ => {}
    }
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
