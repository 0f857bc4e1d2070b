//! A checkpoint as a GGUF file: what any GGUF file becomes with other types, and what a Hugging Face
//! folder becomes if GGUF can say all that the model is.
//!
//! A file that is made of a folder is opened before it gets its name: it must be the same model and the
//! same tokenizer, or it is not written.
mod keys;
mod rows;
mod vocab;

use crate::backend::{LoadError, Quant};
use crate::config::{Config, Source};
use crate::cpu::types::facts;
use crate::error::{Error, Result};
use crate::families::Family;
use crate::load::Opened;
use crate::spec::{ModelSpec, Op, Reach, Rope, RopeLayout};
use crate::weights::{added, needs};
use rinfer_formats::gguf::recipe::Facts;
use rinfer_formats::gguf::write::{Item, Planned, write};
use rinfer_formats::{Checkpoint as Files, DType, Folder, Gguf, Weights};
use rinfer_kernels::Team;
use rows::Rows;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Writes `opened` to `path`, which has all of it or is left as it was; its length. Matrices are
/// converted as `quant` says, on so many `threads`.
///
/// # Errors
/// What GGUF can't say, by name; a conversion of what is quantised already; a file that can't be
/// written.
pub fn save(opened: &Opened, quant: Quant, threads: usize, path: &Path) -> Result<u64> {
    let team = Team::new(threads);
    let plan = match &opened.files {
        Files::Gguf(_) if opened.is_adapted() => {
            let problem = "adapters of a GGUF file are not written yet; pack it as .rinf instead";
            return Err(Error::Export { file: opened.name.clone(), problem: problem.into() });
        }
        Files::Gguf(gguf) => Plan::of_gguf(gguf, opened, quant)?,
        Files::Folder(folder) => Plan::of_folder(folder, opened, quant)?,
        Files::Bundle(_) => {
            let problem = "its weights are packed already: give what the bundle was made of".into();
            return Err(Error::Export { file: opened.name.clone(), problem });
        }
    };
    let temporary = path.with_added_extension(format!("{}.part", std::process::id()));
    let written = plan.write(&team, &temporary).and_then(|()| {
        if let Files::Folder(folder) = &opened.files {
            same_model(opened, folder, &temporary)?;
        }
        let length = std::fs::metadata(&temporary).map_err(|cause| at(path, cause))?.len();
        std::fs::rename(&temporary, path).map_err(|cause| at(path, cause))?;
        Ok(length)
    });
    if written.is_err() {
        // What is left of it is no model, and there may be nothing left.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// A file that is to be written.
struct Plan<'a> {
    metadata: Vec<(String, Item)>,
    tensors: Vec<Planned>,
    weights: Box<dyn Weights + 'a>,
    /// Heads whose rows are stored in pairs, by tensor.
    paired: HashMap<String, usize>,
    /// Tensors that are no weights of the checkpoint.
    made: HashMap<String, Vec<u8>>,
    name: &'a str,
}

impl<'a> Plan<'a> {
    /// The same tensors and keys, but for types.
    fn of_gguf(gguf: &'a Gguf, opened: &'a Opened, quant: Quant) -> Result<Plan<'a>> {
        let tensors: Vec<(&str, Vec<usize>, DType)> = gguf
            .names()
            .into_iter()
            .filter_map(|name| gguf.describe(name).map(|(dtype, shape)| (name, shape, dtype)))
            .collect();
        let types = types(&tensors, quant, &facts(&opened.spec))?;
        let meta = gguf.metadata();
        let own = |key: &str| key != "general.file_type" && key != "general.quantization_version";
        let mut metadata: Vec<(String, Item)> = meta
            .keys()
            .filter(|key| quant == Quant::Native || own(key))
            // What was in several files is in one.
            .filter(|key| !key.starts_with("split."))
            .filter_map(|key| Some((key.to_owned(), meta.item(key)?)))
            .collect();
        if quant != Quant::Native {
            metadata.extend(kind(quant, &tensors));
        }
        let planned = |(name, shape, dtype): (&str, Vec<usize>, DType)| Planned {
            name: name.to_owned(),
            dtype: types.get(name).copied().unwrap_or(dtype),
            shape,
        };
        Ok(Plan {
            metadata,
            tensors: tensors.into_iter().map(planned).collect(),
            weights: Box::new(Borrowed(gguf)),
            paired: HashMap::new(),
            made: HashMap::new(),
            name: &opened.name,
        })
    }

    /// Canonical tensors, which are GGUF's, and what the spec says in GGUF's keys.
    fn of_folder(folder: &'a Folder, opened: &'a Opened, quant: Quant) -> Result<Plan<'a>> {
        let refuse = |problem: String| Error::Export { file: opened.name.clone(), problem };
        let (checkpoint, spec) = (opened.weights()?, &opened.spec);
        let family = opened.family;
        let architecture = architecture(family, folder).ok_or_else(|| {
            let family = family.name;
            refuse(format!("the family {family} is not written yet; pack it as .rinf instead"))
        })?;
        // llama.cpp knows windows by the architecture, and not of all that have them.
        if windows(spec) {
            return Err(refuse("windows are not written yet; pack it as .rinf instead".into()));
        }
        let mut metadata = vec![
            ("general.architecture".to_owned(), Item::str(architecture)),
            ("general.type".to_owned(), Item::str("model")),
            ("general.name".to_owned(), Item::str(&called(&opened.name))),
        ];
        let stated = folder.config().get("intermediate_size").and_then(serde_json::Value::as_u64);
        let (keys, made) = keys::of(architecture, spec, stated.map(|width| width as usize));
        metadata.extend(keys);
        let tensors = canonical(spec, &*checkpoint);
        let named: Vec<(&str, Vec<usize>, DType)> = tensors
            .iter()
            .map(|t| (t.name.as_str(), t.shape.clone(), stored(&t.name, &t.shape, t.dtype)))
            .collect();
        let types = types(&named, quant, &facts(spec))?;
        metadata.extend(kind(quant, &named));
        metadata.extend(vocab::of(folder, opened, spec.vocab)?);
        let mut planned: Vec<Planned> = made
            .iter()
            .map(|(name, values)| Planned {
                name: name.clone(),
                dtype: DType::F32,
                shape: vec![values.len()],
            })
            .collect();
        planned.extend(named.iter().map(|(name, shape, dtype)| Planned {
            name: (*name).to_owned(),
            dtype: types.get(name).copied().unwrap_or(*dtype),
            shape: shape.clone(),
        }));
        if let Some(odd) = planned.iter().find(|t| t.dtype.format().ggml.is_none()) {
            let (name, found) = (&odd.name, odd.dtype.name());
            return Err(refuse(format!("'{name}' is {found}, a type that GGUF has not: take f32")));
        }
        let bytes = |values: Vec<f32>| values.into_iter().flat_map(f32::to_le_bytes).collect();
        Ok(Plan {
            metadata,
            tensors: planned,
            paired: paired(opened, folder)?,
            weights: checkpoint,
            made: made.into_iter().map(|(name, values)| (name, bytes(values))).collect(),
            name: &opened.name,
        })
    }

    fn write(&self, team: &Team, path: &Path) -> Result<()> {
        let file = File::create(path).map_err(|cause| at(path, cause))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        write(&mut out, &self.metadata, &self.tensors, |planned, put| {
            if let Some(bytes) = self.made.get(&planned.name) {
                return put(bytes).map_err(|cause| at(path, cause));
            }
            let rows =
                Rows { weights: &*self.weights, planned, pairs: self.paired.get(&planned.name) };
            rows.write(team, put).map_err(|e| match e {
                rows::Error::Load(cause) => Error::Load { file: self.name.to_owned(), cause },
                rows::Error::Io(cause) => at(path, cause),
            })
        })?;
        let file = out.into_inner().map_err(|e| at(path, e.into_error()))?;
        file.sync_all().map_err(|cause| at(path, cause))
    }
}

/// A reader that someone else holds.
struct Borrowed<'a>(&'a dyn Weights);
impl Weights for Borrowed<'_> {
    fn get(&self, name: &str) -> Option<rinfer_formats::Tensor<'_>> {
        self.0.get(name)
    }
    fn part(&self, name: &str, i: usize) -> Option<rinfer_formats::Tensor<'_>> {
        self.0.part(name, i)
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.0.describe(name)
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
    fn release(&self, bytes: &[u8]) {
        self.0.release(bytes);
    }
}

fn at(path: &Path, cause: std::io::Error) -> Error {
    Error::Write { file: path.display().to_string(), cause }
}

/// What a model needs, as the checkpoint has it.
fn canonical(spec: &ModelSpec, checkpoint: &dyn Weights) -> Vec<Planned> {
    let planned = |need: crate::weights::Need| {
        let (dtype, _) = checkpoint.describe(&need.name)?;
        Some(Planned { name: need.name, dtype, shape: need.shape })
    };
    needs(spec).into_iter().filter_map(planned).collect()
}

/// What people call the model: its folder.
fn called(path: &str) -> String {
    let path = Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// GGUF's name for the family's models, if they can be written.
fn architecture(family: &Family, folder: &Folder) -> Option<&'static str> {
    let kind = folder.config().get("text_config").unwrap_or(folder.config()).get("model_type");
    rinfer_formats::gguf::architecture_of(kind?.as_str()?).filter(|_| family.is_written())
}

/// Whether an attention sees a part of what came before.
fn windows(spec: &ModelSpec) -> bool {
    let parts = spec.layers.iter().flatten().flat_map(|branch| &branch.parts);
    parts.into_iter().any(|part| matches!(&part.op, Op::Attention(a) if a.reach != Reach::All))
}

/// What `quant` converts tensors to.
fn types<'t>(
    tensors: &[(&'t str, Vec<usize>, DType)],
    quant: Quant,
    facts: &Facts,
) -> Result<HashMap<&'t str, DType>> {
    let matrices = || tensors.iter().filter(|t| t.1.len() > 1 && !t.0.contains("_norm"));
    let all = |to: DType| Ok(matrices().map(|t| (t.0, to)).collect());
    match quant {
        Quant::Native => Ok(HashMap::new()),
        Quant::F32 => all(DType::F32),
        Quant::F16 => all(DType::F16),
        Quant::Bf16 => all(DType::Bf16),
        Quant::Gguf(recipe) => Ok(recipe.types(tensors.iter().map(|t| (t.0, &*t.1)), facts)),
        Quant::Int8 | Quant::Int8Int8 | Quant::Int4 => Err(Error::Option {
            option: "quant",
            found: "int8, int8int8 or int4".into(),
            problem: "GGUF files have no such precision: take q8_0 or q4_0".into(),
        }),
    }
}

/// The keys that say how tensors are stored.
fn kind(quant: Quant, tensors: &[(&str, Vec<usize>, DType)]) -> Vec<(String, Item)> {
    let matrix = tensors.iter().find(|t| t.1.len() > 1).map(|t| t.2);
    let number = match (quant, matrix) {
        (Quant::Gguf(recipe), _) => recipe.file_type,
        (Quant::F16, _) | (Quant::Native, Some(DType::F16)) => 1,
        (Quant::Bf16, _) | (Quant::Native, Some(DType::Bf16)) => 32,
        _ => 0,
    };
    vec![
        ("general.file_type".to_owned(), Item::u32(number)),
        ("general.quantization_version".to_owned(), Item::u32(2)),
    ]
}

/// How llama.cpp's converter stores a tensor: what is no matrix, and what is small, as f32.
fn stored(name: &str, shape: &[usize], dtype: DType) -> DType {
    const WIDE: [&str; 4] = [".ffn_gate_inp", ".ssm_conv1d", ".shortconv.conv", "_norm.weight"];
    let wide = shape.len() < 2 || !name.ends_with(".weight");
    if wide || WIDE.iter().any(|part| name.contains(part)) { DType::F32 } else { dtype }
}

/// Tensors whose rows GGUF stores pair by pair, where the folder has halves, and their heads.
fn paired(opened: &Opened, folder: &Folder) -> Result<HashMap<String, usize>> {
    let config = Config::new(folder.config().clone(), Source::Gguf);
    let theirs =
        (opened.family.spec)(&config).map_err(|cause| opened.at(LoadError::Config(cause)))?;
    Ok(added::paired(&opened.spec, &theirs))
}

/// Holds a written file against what it was made of.
fn same_model(opened: &Opened, folder: &Folder, path: &Path) -> Result<()> {
    let refuse = |problem: String| Error::Export { file: opened.name.clone(), problem };
    let written = Opened::open(path)
        .map_err(|e| refuse(format!("read back, {e}; pack it as .rinf instead")))?;
    let (ours, theirs) = (plain(&opened.spec), plain(&written.spec));
    if ours != theirs {
        let (ours, theirs) = (format!("{ours:#?}"), format!("{theirs:#?}"));
        let pair = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b).unwrap_or_default();
        let (ours, theirs) = (pair.0.trim(), pair.1.trim());
        return Err(refuse(format!(
            "GGUF's keys can't say all that the model is: read back, {ours} is {theirs}; pack it as \
             .rinf instead"
        )));
    }
    let turns = |spec: &ModelSpec| {
        let all = |rope: &Rope| [rope.frequencies(), vec![rope.attention()]].concat();
        spec.ropes.iter().flat_map(all).collect::<Vec<f32>>()
    };
    let (ours, theirs) = (turns(&opened.spec), turns(&written.spec));
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * a.abs();
    if ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(near) {
        return Err(refuse(
            "its rotary frequencies can't be said; pack it as .rinf instead".into(),
        ));
    }
    vocab::same(opened, folder, &written)
}

/// Without what is the same in other words.
fn plain(spec: &ModelSpec) -> ModelSpec {
    let rope = |rope: &Rope| Rope {
        theta: 0.0,
        scaling: crate::spec::Scaling::None,
        layout: RopeLayout::Halves,
        ..rope.clone()
    };
    ModelSpec { ropes: spec.ropes.iter().map(rope).collect(), ..spec.clone() }
}
