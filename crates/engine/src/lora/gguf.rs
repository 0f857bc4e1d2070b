//! What is added to a GGUF file's tensors: llama.cpp's adapters have its names, PEFT's those of the folder that
//! it was made of.
use super::addition::Addition;
use super::module::{Matrix, matrix};
use super::{Adapter, Adapters, Additions, Other, refuse};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::families::Family;
use crate::spec::{Head, ModelSpec};
use crate::weights::added::Added;
use crate::weights::moved::Moved;
use rinfer_formats::{Gguf, Weights};
use std::path::Path;
use std::sync::Arc;

impl Adapters {
    /// Reads adapters and holds them against a GGUF file of a `family`'s `spec`, which `config` makes.
    ///
    /// # Errors
    /// As [`Adapters::read`]; PEFT's adapters over a file that does not say what its folder was.
    pub fn of_gguf(
        adapters: &[Adapter],
        base: &Gguf,
        (family, spec): (&Family, &ModelSpec),
        config: &Config,
    ) -> Result<Adapters> {
        let (mut all, mut moved) = (Adapters::default(), None);
        for adapter in adapters {
            if adapter.path.is_file() {
                for (name, addition) in read(&adapter.path, adapter.scale, base)? {
                    all.own.entry(name).or_default().push(addition);
                }
                continue;
            }
            let path = adapter.path.display();
            let refuse = |why: String| Error::Option {
                option: "adapter",
                found: path.to_string(),
                problem: format!(
                    "does not go with a GGUF file of the family {}: {why}",
                    family.name
                ),
            };
            let moved = match &moved {
                Some(moved) => moved,
                None => moved
                    .insert(Arc::new(from_folder(base, (family, spec), config).map_err(refuse)?)),
            };
            let additions =
                Additions::named(adapter, matches!(spec.head, Head::Lm { tied: true, .. }))?;
            let file = adapter.path.join("adapter_model.safetensors");
            let wrong = |(name, why): (String, String)| {
                super::refuse(&file, &name, why, "the base that it was trained on, or its folder")
            };
            let added = Added::of(&additions, family, spec, moved).map_err(wrong)?;
            all.others.push(Other { additions, added });
        }
        Ok(all)
    }
}

/// Where a GGUF file has a folder's rows; or why nobody knows.
fn from_folder(
    base: &Gguf,
    (family, spec): (&Family, &ModelSpec),
    config: &Config,
) -> std::result::Result<Moved, String> {
    if family.folds() {
        return Err(
            "its converter multiplies matrices by numbers of config.json that the file does not \
                    keep; give the base's folder, or the adapter as a GGUF file"
                .into(),
        );
    }
    let config = config.clone().in_folders_order();
    let folder = config.with_tensors(base).and_then(|config| (family.spec)(&config));
    let moved =
        folder.map_err(|e| e.to_string()).and_then(|folder| Moved::between(family, &folder, spec));
    moved.map_err(|why| format!("{why}; give the base's folder"))
}

/// What the file at `path` adds to `base`, by the base's names, times `scale`.
///
/// # Errors
/// A file that is broken, or no such adapter; a tensor that the base has not, or of another shape.
pub(super) fn read(path: &Path, scale: f32, base: &Gguf) -> Result<Vec<(String, Addition)>> {
    let file = Gguf::open(path)?;
    let alpha = alpha(&file, base)?;
    let mut all = Vec::new();
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
        let found = base.describe(target);
        let (_, shape) = found.ok_or_else(|| {
            refuse(format!("the base has no '{target}'"), "the base that it was trained on")
        })?;
        let both = format!("A is {:?} and B {:?}", [a.rows, a.cols], [b.rows, b.cols]);
        let rank = b.cols.max(1);
        let by = scale * if alpha == 0.0 { 1.0 } else { alpha / rank as f32 };
        let addition = addition(a, b, by, target == "token_embd.weight");
        let fits = addition.filter(|one| shape == [one.rows(), one.cols()]);
        let expected = "matrices A and B of the base's shape";
        let one = fits.ok_or_else(|| refuse(format!("{both}, the base's {shape:?}"), expected))?;
        all.push((target.to_owned(), one));
    }
    Ok(all)
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
