//! What a checkpoint says about generation: its sampling defaults, and the tokens that end a turn.
use crate::error::{Error, Result};
use crate::sample::Sampling;
use rinfer_formats::Checkpoint;
use rinfer_formats::gguf::{Gguf, Value as Number};
use rinfer_formats::hf::Folder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A checkpoint's own defaults.
#[derive(Debug, Clone, Default)]
pub struct Generation {
    /// The library's defaults, but for what the checkpoint sets.
    pub sampling: Sampling,
    /// Ids that some file calls an end, in no order and perhaps more than once.
    pub end: Vec<u32>,
}

impl Generation {
    /// Of an open checkpoint.
    ///
    /// # Errors
    /// A value that has another type or range than it must.
    pub fn of(files: &Checkpoint) -> Result<Generation> {
        match files {
            Checkpoint::Gguf(gguf) => of_gguf(gguf),
            Checkpoint::Folder(folder) => of_folder(folder),
            // What it keeps is resolved.
            Checkpoint::Bundle(_) => Ok(Generation::default()),
        }
    }
    /// The same, if its values are within their ranges; `file` is who says them.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn checked(self, file: &str) -> Result<Generation> {
        match self.sampling.check(usize::MAX) {
            Ok(()) => Ok(self),
            Err(e) => Err(field(file, e.field, &e.found, &e.allowed)),
        }
    }
}

/// The sampling defaults that checkpoints set, as a bundle keeps them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as of `Sampling`")]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    pub temperature: f32,
    pub top_k: usize,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub repeat_last_n: usize,
}

impl Defaults {
    /// Of a checkpoint's.
    pub fn of(s: &Sampling) -> Defaults {
        Defaults {
            temperature: s.temperature,
            top_k: s.top_k,
            top_p: s.top_p,
            min_p: s.min_p,
            repeat_penalty: s.repeat_penalty,
            repeat_last_n: s.repeat_last_n,
        }
    }
    /// The checkpoint's again.
    pub fn sampling(&self) -> Sampling {
        let Defaults { temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n } = *self;
        let sampling = Sampling { temperature, top_k, top_p, min_p, ..Sampling::default() };
        Sampling { repeat_penalty, repeat_last_n, ..sampling }
    }
}

fn of_gguf(gguf: &Gguf) -> Result<Generation> {
    let (meta, mut g) = (gguf.metadata(), Generation::default());
    let file = gguf.path().display().to_string();
    for kind in ["eos", "eot", "eom"] {
        g.end.extend(meta.u32(&format!("tokenizer.ggml.{kind}_token_id"))?);
    }
    g.end.extend(meta.u32s("tokenizer.ggml.eos_token_ids")?.unwrap_or_default());
    let float = |key: &str| meta.f32(&format!("general.sampling.{key}"));
    let s = &mut g.sampling;
    set(&mut s.temperature, float("temp")?);
    set(&mut s.top_p, float("top_p")?);
    set(&mut s.min_p, float("min_p")?);
    set(&mut s.repeat_penalty, float("penalty_repeat")?);
    let count = |key: &str| {
        let key = format!("general.sampling.{key}");
        match meta.get(&key) {
            None => Ok(None),
            Some(Number::Signed(n)) => Ok(Some(usize::try_from(n).unwrap_or(0))),
            Some(Number::Unsigned(n)) => Ok(Some(usize::try_from(n).unwrap_or(usize::MAX))),
            Some(other) => Err(field(&file, &key, &format!("{other:?}"), "an integer")),
        }
    };
    set(&mut s.top_k, count("top_k")?);
    set(&mut s.repeat_last_n, count("penalty_last_n")?);
    g.checked(&file)
}

fn of_folder(folder: &Folder) -> Result<Generation> {
    let mut g = Generation::default();
    let file = |name: &str| folder.path().join(name).display().to_string();
    for at in ["eos_token_id", "text_config.eos_token_id"] {
        let found = at.split('.').try_fold(folder.config(), |v, key| v.get(key));
        g.end.extend(ids(found, &file("config.json"), at)?);
    }
    let name = file("generation_config.json");
    let Some(bytes) = folder.generation_config()? else { return g.checked(&name) };
    let json: Value = serde_json::from_slice(&bytes)
        .map_err(|e| field(&name, "the text", &e.to_string(), "JSON"))?;
    g.end.extend(ids(json.get("eos_token_id"), &name, "eos_token_id")?);
    let float = |key: &str| match json.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => {
            v.as_f64().map(|n| Some(n as f32)).ok_or_else(|| wrong(&name, key, v, "a number"))
        }
    };
    let s = &mut g.sampling;
    set(&mut s.temperature, float("temperature")?);
    set(&mut s.top_p, float("top_p")?);
    set(&mut s.min_p, float("min_p")?);
    set(&mut s.repeat_penalty, float("repetition_penalty")?);
    set(&mut s.top_k, float("top_k")?.map(|n| n as usize));
    g.checked(&name)
}

/// One id, a list of them, or nothing.
fn ids(found: Option<&Value>, file: &str, key: &str) -> Result<Vec<u32>> {
    let one = |v: &Value| v.as_u64().and_then(|n| n.try_into().ok());
    let all = match found {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(all)) => all.iter().map(one).collect(),
        Some(v) => one(v).map(|id| vec![id]),
    };
    let null = Value::Null;
    all.ok_or_else(|| wrong(file, key, found.unwrap_or(&null), "a token id or a list of them"))
}

fn set<T>(to: &mut T, found: Option<T>) {
    if let Some(found) = found {
        *to = found;
    }
}

fn wrong(file: &str, key: &str, found: &Value, expected: &str) -> Error {
    field(file, key, &found.to_string(), expected)
}

fn field(file: &str, field: &str, found: &str, expected: &str) -> Error {
    Error::Field {
        file: file.into(),
        field: field.into(),
        found: found.into(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rinfer_testkit::gguf_builder::Builder;

    fn read(builder: Builder) -> Result<Generation> {
        let gguf = Gguf::parse("a.gguf", builder.build()).expect("a GGUF");
        Generation::of(&Checkpoint::Gguf(gguf))
    }

    #[test]
    fn of_gguf() {
        let named = Builder::of("x")
            .u32("tokenizer.ggml.eos_token_id", 7)
            .u32("tokenizer.ggml.eot_token_id", 8)
            .u32("tokenizer.ggml.eom_token_id", 9)
            .f32("general.sampling.temp", 0.25)
            .key("general.sampling.top_k", 5, &(-1i32).to_le_bytes())
            .u32("general.sampling.penalty_last_n", 12);
        let g = read(named).unwrap();
        assert_eq!(g.end, [7, 8, 9]);
        let s = g.sampling;
        assert_eq!((s.temperature, s.top_k, s.repeat_last_n, s.top_p), (0.25, 0, 12, 0.95));
        assert_eq!(read(Builder::of("x")).unwrap().sampling, Sampling::default());
        let error = read(Builder::of("x").f32("general.sampling.min_p", 2.0)).unwrap_err();
        let says = "a.gguf: min_p is 2: expected a number from 0 to 1";
        assert_eq!(error.to_string(), says);
        assert!(read(Builder::of("x").f32("general.sampling.top_k", 2.0)).is_err());
    }
}
