//! A checkpoint as a GGUF file: what any GGUF file becomes with other types, and what a Hugging Face
//! folder becomes if GGUF can say all that the model is.
mod compare;
mod fold;
mod folder;
mod head;
mod keys;
mod merged;
mod pieces;
mod rows;
mod shapes;
mod vocab;

use crate::backend::Quant;
use crate::bundle::{not_itself, not_written};
use crate::cpu::types::{facts, plain};
use crate::error::{Error, Result};
use crate::load::Opened;
use merged::Merged;
use rinfer_formats::gguf::recipe::{Facts, converted};
use rinfer_formats::gguf::split;
use rinfer_formats::gguf::write::{Item, Planned, write};
use rinfer_formats::replace::replace;
use rinfer_formats::{Checkpoint as Files, DType, Gguf, Weights};
use rinfer_kernels::Team;
use rows::Rows;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How a file is made.
#[derive(Debug, Clone, Copy)]
pub struct Making {
    /// What matrices are converted to.
    pub quant: Quant,
    /// Threads that convert.
    pub threads: usize,
    /// Bytes of tensors that go to one file, if there may be several.
    pub split: Option<u64>,
    /// The positions that a file of a folder states, if fewer than the model has: windows of as many do
    /// not matter then.
    pub context: Option<usize>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file, or those of a set.
    pub files: Vec<PathBuf>,
    /// What of the tokenizer GGUF has no keys for, a sentence each.
    pub unsaid: Vec<String>,
}

/// Files of a set: each is open until the last is written.
const MOST_FILES: usize = 500;

/// Writes `opened` to `path`, or to the files of a set that are called by it: whole or not at all.
///
/// # Errors
/// What GGUF can't say, by name; a conversion of what is quantised already; a file that can't be
/// written.
pub fn save(opened: &Opened, making: &Making, path: &Path) -> Result<Written> {
    let Making { quant, threads, split, context } = *making;
    let team = Team::new(threads);
    let plan = match &opened.files {
        Files::Gguf(_) if context.is_some() => {
            return Err(Error::Option {
                option: "context",
                found: context.unwrap_or(0).to_string(),
                problem: "a GGUF file keeps what it states: give the model's folder".into(),
            });
        }
        Files::Gguf(gguf) => Plan::of_gguf(gguf, opened, quant)?,
        Files::Folder(folder) => folder::plan(folder, opened, quant, context)?,
        Files::Bundle(_) => {
            let problem = "its weights are packed already: give what the bundle was made of".into();
            return Err(Error::Export { file: opened.name.clone(), problem });
        }
    };
    let planned: Vec<Planned> = plan.tensors.iter().map(|t| t.planned.clone()).collect();
    let shares = split::shares(&planned, split.unwrap_or(u64::MAX));
    if shares.len() > MOST_FILES {
        let found = split.unwrap_or(0).to_string();
        let problem = format!("makes {} files: take a size that makes {MOST_FILES}", shares.len());
        return Err(Error::Option { option: "split-max-size", found, problem });
    }
    let paths = split::paths(path, shares.len());
    paths.iter().try_for_each(|path| not_itself(opened, path))?;
    Set { plan: &plan, shares, paths: &paths, team: &team }.write(0)?;
    Ok(Written { files: paths, unsaid: plan.unsaid })
}

/// The files that are written, of tensors each.
struct Set<'a> {
    plan: &'a Plan<'a>,
    shares: Vec<Range<usize>>,
    paths: &'a [PathBuf],
    team: &'a Team,
}

impl Set<'_> {
    /// Writes the files from `part` on. All are on the disk before one has its name, and the first, without
    /// which a set does not open, gets its own last; an older first goes before that.
    fn write(&self, part: usize) -> Result<()> {
        let path = &self.paths[part];
        let saved = replace(path, |file| {
            self.part(part, file)?;
            file.sync_all()?;
            match self.paths.get(part + 1) {
                Some(_) => self.write(part + 1),
                None if part > 0 && self.paths[0].exists() => {
                    Ok(std::fs::remove_file(&self.paths[0])?)
                }
                None => Ok(()),
            }
        });
        saved.map_err(|error| not_written(error, path))
    }

    fn part(&self, part: usize, file: &mut File) -> Result<()> {
        let (plan, share) = (self.plan, self.shares[part].clone());
        let mut metadata = if part == 0 { plan.metadata.clone() } else { Vec::new() };
        if self.paths.len() > 1 {
            metadata.extend(split::place(part, self.paths.len(), plan.tensors.len()));
        }
        plan.write(&metadata, &plan.tensors[share], self.team, file)
    }
}

/// A file that is to be written.
struct Plan<'a> {
    metadata: Vec<(String, Item)>,
    tensors: Vec<Stored>,
    weights: Box<dyn Weights + 'a>,
    name: &'a str,
    /// Of the tokenizer.
    unsaid: Vec<String>,
}

/// A tensor, and what it is made of.
struct Stored {
    planned: Planned,
    from: From,
}

enum From {
    /// Numbers that are no weights of the checkpoint.
    Made(Vec<f32>),
    /// See [`Rows`].
    Rows {
        pieces: Vec<String>,
        stack: Option<usize>,
        order: Option<Vec<(usize, usize)>>,
        columns: Option<Vec<usize>>,
        times: Vec<Vec<f32>>,
    },
}

impl Stored {
    fn made((name, values): (String, Vec<f32>)) -> Stored {
        let planned = Planned { name, dtype: DType::F32, shape: vec![values.len()] };
        Stored { planned, from: From::Made(values) }
    }
    fn whole(planned: Planned) -> Stored {
        let pieces = vec![planned.name.clone()];
        let stack = (planned.shape.len() == 3).then(|| planned.shape[0]);
        Stored {
            planned,
            from: From::Rows { pieces, stack, order: None, columns: None, times: Vec::new() },
        }
    }
    /// Of what is no weight.
    fn bytes(&self) -> Vec<u8> {
        match &self.from {
            From::Made(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            From::Rows { .. } => Vec::new(),
        }
    }
}

impl<'a> Plan<'a> {
    /// The same tensors and keys, but for types.
    fn of_gguf(gguf: &'a Gguf, opened: &'a Opened, quant: Quant) -> Result<Plan<'a>> {
        let merged = Merged::of(gguf, opened)?;
        let tensors: Vec<(&str, Vec<usize>, DType)> = gguf
            .names()
            .into_iter()
            .filter_map(|name| merged.describe(name).map(|(dtype, shape)| (name, shape, dtype)))
            .collect();
        let types = types(&tensors, (quant, opened.is_adapted()), &facts(&opened.spec))?;
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
        let tensors =
            tensors.into_iter().map(planned).map(|planned| merged.stored(planned)).collect();
        let (name, unsaid) = (&opened.name, Vec::new());
        Ok(Plan { metadata, tensors, weights: Box::new(merged), name, unsaid })
    }

    /// Writes a file of some of its tensors.
    fn write(
        &self,
        metadata: &[(String, Item)],
        tensors: &[Stored],
        team: &Team,
        file: &mut File,
    ) -> Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let planned: Vec<Planned> = tensors.iter().map(|t| t.planned.clone()).collect();
        let mut tensors = tensors.iter();
        write(&mut out, metadata, &planned, |_, put| match tensors.next() {
            Some(tensor) => self.tensor(tensor, team, put),
            None => Ok(()),
        })?;
        Ok(out.flush()?)
    }

    fn tensor(
        &self,
        tensor: &Stored,
        team: &Team,
        put: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<()> {
        let From::Rows { pieces, stack, order, columns, times } = &tensor.from else {
            return Ok(put(&tensor.bytes())?);
        };
        let rows = Rows {
            weights: &*self.weights,
            planned: &tensor.planned,
            pieces,
            stack: *stack,
            order: order.as_deref(),
            columns: columns.as_deref(),
            times,
        };
        rows.write(team, put).map_err(|e| match e {
            rows::Error::Load(cause) => Error::Load { file: self.name.to_owned(), cause },
            rows::Error::Io(cause) => cause.into(),
        })
    }
}

/// What `quant` converts tensors to; those that are quantised not at all, if they are to `keep` their types.
fn types<'t>(
    tensors: &[(&'t str, Vec<usize>, DType)],
    (quant, keep): (Quant, bool),
    facts: &Facts,
) -> Result<HashMap<&'t str, DType>> {
    let kept = |t: &(&str, Vec<usize>, DType)| keep && !plain(t.2) && quant != Quant::F32;
    let matrices = || tensors.iter().filter(|t| converted(t.0, &t.1) && !kept(t));
    let all = |to: DType| Ok(matrices().map(|t| (t.0, to)).collect());
    match quant {
        Quant::Native => Ok(HashMap::new()),
        Quant::F32 => all(DType::F32),
        Quant::F16 => all(DType::F16),
        Quant::Bf16 => all(DType::Bf16),
        Quant::Gguf(recipe) => {
            let mut types = recipe.types(tensors.iter().map(|t| (t.0, &*t.1)), facts);
            tensors.iter().filter(|t| kept(t)).for_each(|t| _ = types.remove(t.0));
            Ok(types)
        }
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
