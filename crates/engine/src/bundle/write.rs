//! Making a bundle, one run of rows at a time: neither the model nor a whole matrix is in memory.
use super::{About, provenance};
use crate::backend::{Limits, LoadError, Quant};
use crate::cpu::pack::Packer;
use crate::embed::Companions;
use crate::error::{Error, Result};
use crate::language::Stored;
use crate::load::{Load, Opened};
use crate::size;
use crate::spec::Head;
use crate::weights::{Need, needs};
use rinfer_formats::bundle::{self, Writer};
use rinfer_formats::executable::Program;
use rinfer_formats::replace::replace;
use rinfer_formats::{Checkpoint, DType, Weights};
use rinfer_kernels::Team;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

/// How a bundle is made.
#[derive(Debug, Clone)]
pub struct Making {
    /// How weights are held.
    pub quant: Quant,
    /// Threads that pack.
    pub threads: usize,
    /// What people call the model, if not as its files do.
    pub name: Option<String>,
    /// Under which licence it may be used, if its files do not say so.
    pub license: Option<String>,
}

/// Writes the bundle at `path`, whole or not at all; its length.
///
/// # Errors
/// As [`write()`]; that `path` is the model's own file, if that is no bundle.
pub fn save(opened: &Opened, making: &Making, path: &Path) -> Result<u64> {
    not_itself(opened, path)?;
    let saved = replace(path, |file| write(opened, making, BufWriter::new(file), 0));
    saved.map_err(|error| not_written(error, path))
}

/// Writes a program with the bundle behind it at `path`, whole or not at all; its length.
///
/// # Errors
/// As [`save`] and [`Program::append`].
pub fn save_into(opened: &Opened, making: &Making, program: &Program, path: &Path) -> Result<u64> {
    not_itself(opened, path)?;
    let least = weights(opened, making)? as u64;
    let saved = replace(path, |file| {
        let bundle = |file: &mut File, at| write(opened, making, BufWriter::new(file), at);
        program.append(path, file, least, bundle)
    });
    saved.map_err(|error| not_written(error, path))
}

/// Bytes of a bundle's tensors: what they take when they are loaded.
fn weights(opened: &Opened, making: &Making) -> Result<usize> {
    let load = Load { quant: making.quant, ..Load::default() };
    let limits = Limits { keep: opened.is_adapted(), ..load.limits(&opened.spec)? };
    Ok(size::weights(&opened.spec, &*opened.weights()?, &limits))
}

/// A model's own file is not written over, but for a bundle's.
///
/// # Errors
/// That `path` is that.
pub(crate) fn not_itself(opened: &Opened, path: &Path) -> Result<()> {
    let full = |path: &Path| path.canonicalize().ok();
    let own = full(path).filter(|path| full(Path::new(&opened.name)).as_ref() == Some(path));
    if own.is_some() && opened.about.is_none() {
        let problem = "is the model itself: give what is written another name".into();
        return Err(Error::Reference { reference: opened.name.clone(), problem });
    }
    Ok(())
}

pub(crate) fn not_written(error: Error, path: &Path) -> Error {
    match error {
        Error::Io(cause) => Error::Write { file: path.display().to_string(), cause },
        error => error,
    }
}

/// Writes a bundle from byte `base` of `out` on, a multiple of 64; its length.
///
/// # Errors
/// A tensor that can't be packed so, a tokenizer that can't be read, and what `out` fails with.
pub fn write(opened: &Opened, making: &Making, out: impl Write + Seek, base: u64) -> Result<u64> {
    opened.agree(making.quant)?;
    let about = about(opened, making)?;
    let model = kept(opened, &about)?;
    let mut writer = Writer::new(out, base)?;
    match &opened.files {
        Checkpoint::Gguf(gguf) => writer.file(Stored::GGUF, &bundle::metadata(gguf))?,
        Checkpoint::Folder(folder) => {
            let json = folder.tokenizer()?.unwrap_or_default();
            writer.file(Stored::JSON, &json)?;
        }
        Checkpoint::Bundle(bundle) => [Stored::GGUF, Stored::JSON].iter().try_for_each(|name| {
            bundle.file(name).map_or(Ok(()), |bytes| writer.file(name, &bytes))
        })?,
    }
    let (weights, team) = (opened.weights()?, Team::new(making.threads));
    let quant = (making.quant, opened.is_adapted());
    let packer = Packer::streaming(&about.spec, &*weights, quant, &team);
    for (name, order) in packer.orders().all() {
        let bytes: Vec<u8> = order.iter().flat_map(|k| k.to_le_bytes()).collect();
        writer.file(&bundle::order(name), &bytes)?;
    }
    for need in needs(&about.spec) {
        tensor(&mut writer, &packer, &*weights, &need).map_err(|failed| match failed {
            Failed::Io(error) => error.into(),
            Failed::Load(cause) => Error::Load { file: opened.name.clone(), cause },
        })?;
    }
    Ok(writer.finish(model)?)
}

/// What the bundle will say of the model.
fn about(opened: &Opened, making: &Making) -> Result<About> {
    let about = match &opened.about {
        Some(about) => about.clone(),
        None => About {
            name: provenance::name(opened)?,
            license: provenance::license(opened)?,
            made_by: String::new(),
            quant: making.quant.name().to_owned(),
            family: opened.family.name.to_owned(),
            spec: opened.spec.clone(),
            language: Stored::of(&opened.files)?,
            texts: match opened.spec.head {
                Head::Lm { .. } => None,
                Head::Pool { .. } => Some(Companions::of(opened)?),
            },
        },
    };
    // What is merged into a bundle now is converted now.
    let converted = Some(making.quant).filter(|quant| *quant != Quant::Native);
    Ok(About {
        quant: converted.map_or(about.quant, |quant| quant.name().to_owned()),
        name: making.name.clone().unwrap_or(about.name),
        license: making.license.clone().or(about.license),
        made_by: format!("rinfer {}", env!("CARGO_PKG_VERSION")),
        ..about
    })
}

/// As JSON, which must say the same when it is read back.
fn kept(opened: &Opened, about: &About) -> Result<serde_json::Value> {
    let unsupported = |problem: String| Error::Load {
        file: opened.name.clone(),
        cause: LoadError::Unsupported(problem),
    };
    let model = serde_json::to_value(about).map_err(|e| unsupported(e.to_string()))?;
    match About::deserialize(&model) {
        Ok(read) if read == *about => Ok(model),
        Ok(_) => Err(unsupported("the model has numbers that JSON does not keep exactly".into())),
        Err(e) => Err(unsupported(format!("the model's description can't be kept: {e}"))),
    }
}

/// What writing a tensor fails with.
enum Failed {
    Io(std::io::Error),
    Load(LoadError),
}
impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        Failed::Io(error)
    }
}
impl From<LoadError> for Failed {
    fn from(cause: LoadError) -> Failed {
        Failed::Load(cause)
    }
}

fn tensor(
    writer: &mut Writer<impl Write + Seek>,
    packer: &Packer<'_>,
    weights: &dyn Weights,
    need: &Need,
) -> std::result::Result<(), Failed> {
    let name = &need.name;
    let missing = || LoadError::Missing { name: name.clone() };
    let (source, _) = weights.describe(name).ok_or_else(missing)?;
    if !need.packed {
        let vector = packer.vector(name)?;
        let bytes: Vec<u8> = vector.into_iter().flat_map(f32::to_le_bytes).collect();
        return writer.tensor((name, DType::F32), None, &need.shape, |put| Ok(put(&bytes)?));
    }
    let layout = Some(packer.lie(need)?.name());
    writer.tensor((name, source), layout, &need.shape, |put| {
        packer.runs::<Failed>(name, &mut |bytes| Ok(put(bytes)?))
    })
}
