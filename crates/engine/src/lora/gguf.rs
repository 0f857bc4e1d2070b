//! An adapter as llama.cpp has it: a GGUF file whose tensors are called by those of a model's file.
use super::addition::Addition;
use super::module::{Matrix, matrix};
use super::{Additions, refuse};
use crate::error::{Error, Result};
use rinfer_formats::{Gguf, Weights};
use std::collections::HashMap;
use std::path::Path;

/// What the file at `path` adds to files of `base`'s kind, times `scale`.
///
/// # Errors
/// A file that is broken, or no such adapter.
pub(super) fn read(path: &Path, scale: f32, base: &Gguf) -> Result<Additions> {
    let file = Gguf::open(path)?;
    let alpha = alpha(&file, base)?;
    let mut all = HashMap::new();
    for name in file.names() {
        let refuse = |found: String, expected: &str| refuse(path, name, found, expected);
        let Some(target) = name.strip_suffix(".lora_a") else {
            match name.strip_suffix(".lora_b").map(|target| format!("{target}.lora_a")) {
                Some(other) if file.describe(&other).is_some() => continue,
                Some(_) => return Err(refuse("B without its A".into(), "both")),
                None => return Err(refuse("neither A nor B".into(), "an adapter of LoRA alone")),
            }
        };
        let part = |name: &str| file.get(name).and_then(|tensor| matrix(&tensor));
        let pair = part(name).zip(part(&format!("{target}.lora_b")));
        let (a, b) = pair.ok_or_else(|| refuse("no two matrices of floats".into(), "A and B"))?;
        let both = format!("A is {:?} and B {:?}", [a.rows, a.cols], [b.rows, b.cols]);
        let rank = b.cols.max(1);
        let by = scale * if alpha == 0.0 { 1.0 } else { alpha / rank as f32 };
        let addition = addition(a, b, by, target == "token_embd.weight");
        let one = addition.ok_or_else(|| refuse(both, "matrices A and B of one rank"))?;
        all.insert(target.to_owned(), one);
    }
    Ok(Additions(all))
}

/// The alpha of an adapter of LoRA for models of the base's kind; 0 if it has none.
fn alpha(file: &Gguf, base: &Gguf) -> Result<f32> {
    let meta = file.metadata();
    let wrong = |field: &str, found: Option<String>, expected: String| Error::Field {
        file: file.path().display().to_string(),
        field: field.into(),
        found: found.unwrap_or_else(|| "not there".into()),
        expected,
    };
    let own = base.architecture()?;
    for (key, expected) in
        [("general.type", "adapter"), ("adapter.type", "lora"), ("general.architecture", own)]
    {
        let found = meta.str(key)?;
        if found != Some(expected) {
            let found = found.map(|found| format!("'{found}'"));
            return Err(wrong(key, found, format!("'{expected}'")));
        }
    }
    const KNOWN: [&str; 2] = ["adapter.type", "adapter.lora.alpha"];
    let other = meta.keys().find(|key| key.starts_with("adapter.") && !KNOWN.contains(key));
    if let Some(key) = other {
        return Err(wrong(key, Some("there".into()), "an adapter without it".into()));
    }
    Ok(meta.f32("adapter.lora.alpha")?.unwrap_or(0.0))
}

/// `B·A`; of an embedding, whose A is a row a token, `A·Bᵀ`.
fn addition(a: Matrix, b: Matrix, scale: f32, embedding: bool) -> Option<Addition> {
    let rank = b.cols;
    let fits = if embedding { a.cols == rank } else { a.rows == rank };
    let (left, right) = match embedding {
        true => (a.values, b.turned()),
        false => (b.values, a.values),
    };
    fits.then_some(Addition { left, right, rank, scale, magnitude: None })
}
