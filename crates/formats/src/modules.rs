//! What sentence-transformers puts after a model: modules.json names the modules in order, each has a folder
//! with its config and, some, with tensors.
use crate::error::{Cause, Error};
use crate::hf::{json, missing, read};
use crate::shards::{Shards, plain};
use crate::tensor::{Tensor, Weights};
use serde_json::Value;
use std::path::Path;

const LIST: &str = "modules.json";
/// More modules than any model has.
const MOST: usize = 64;

/// A step of what a folder makes of a text.
#[derive(Debug)]
pub struct Module {
    /// Its class, without what it is within: `Transformer`, `Pooling`, `Dense`, `Normalize`.
    pub kind: String,
    /// Its folder, in the model's.
    pub path: String,
    /// Its config.json; nothing if it has none.
    pub config: Value,
}

/// All of a folder's modules. Tensor `NAME` of module `i` is `modules.i.NAME`.
#[derive(Debug)]
pub(crate) struct Modules {
    pub all: Vec<Module>,
    /// By module, of those that have some.
    shards: Vec<Option<Shards>>,
    names: Vec<String>,
}

impl Modules {
    /// Of a folder, if it has any.
    pub fn open(folder: &Path) -> Result<Option<Modules>, Error> {
        let Some(bytes) = read(folder, LIST)? else { return Ok(None) };
        let path = folder.join(LIST);
        let wrong = |what: &str| Error::at(&path, Cause::Json(what.to_owned()));
        let list = json(&path, &bytes)?;
        let list = list.as_array().filter(|list| list.len() <= MOST);
        let list = list.ok_or_else(|| wrong("it is no list of at most 64 modules"))?;
        let mut modules = Modules { all: Vec::new(), shards: Vec::new(), names: Vec::new() };
        for entry in list {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let (Some(class), Some(at)) = (text("type"), text("path")) else {
                return Err(wrong("a module has no strings 'type' and 'path'"));
            };
            let kind = class.rsplit('.').next().unwrap_or(class).to_owned();
            // The model itself may lie in a folder of its own, which is not looked into.
            if !at.is_empty() && !plain(at) {
                return Err(Error::at(&path, Cause::ShardName { name: at.to_owned() }));
            }
            modules.add(folder, kind, at)?;
        }
        Ok(Some(modules))
    }
    fn add(&mut self, folder: &Path, kind: String, at: &str) -> Result<(), Error> {
        let own = folder.join(at);
        let config = match read(&own, "config.json")?.filter(|_| !at.is_empty()) {
            Some(bytes) => json(&own.join("config.json"), &bytes)?,
            None => Value::Null,
        };
        let shards = match kind == "Dense" {
            true if !own.join("model.safetensors").exists() => {
                let why =
                    "which modules.json names: save the model with sentence-transformers anew";
                return Err(missing(&own, "model.safetensors", why));
            }
            true => Some(Shards::open(&own)?),
            false => None,
        };
        let i = self.all.len();
        let names = shards.iter().flat_map(Weights::names);
        self.names.extend(names.map(|name| format!("modules.{i}.{name}")));
        self.shards.push(shards);
        self.all.push(Module { kind, path: at.to_owned(), config });
        Ok(())
    }
}

impl Weights for Modules {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let (module, name) = name.strip_prefix("modules.")?.split_once('.')?;
        self.shards.get(module.parse::<usize>().ok()?)?.as_ref()?.get(name)
    }
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.shards.iter().flatten().for_each(|shards| shards.release(bytes));
    }
}
