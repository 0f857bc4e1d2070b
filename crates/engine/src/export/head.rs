//! A header that is read back as the model before a weight is written: the same but for the order in which
//! rows lie, and for multipliers that are in weights.
use super::Stored;
use super::compare::difference;
use super::fold::{EMBEDDING, Factors, OUTPUT, bare, folded};
use super::keys::{self, Made, Way};
use crate::error::{Error, Result};
use crate::load::Opened;
use crate::spec::ModelSpec;
use rinfer_formats::gguf::Gguf;
use rinfer_formats::gguf::write::{Item, Planned, header};
use rinfer_formats::{Checkpoint as Files, DType};
use serde_json::Value;
use std::path::Path;

/// A header that is read back as the model.
pub(super) struct Head {
    pub keys: Vec<(String, Item)>,
    pub made: Made,
    /// The model as it is read back: the same, but for layouts and multipliers.
    pub spec: ModelSpec,
    /// Multipliers that are in weights instead.
    pub factors: Factors,
    /// Whether the head's matrix is no longer the tokens'.
    pub untied: bool,
}

/// What is to be said.
pub(super) struct Of<'a> {
    pub name: &'a str,
    pub spec: &'a ModelSpec,
    pub config: &'a Value,
}

impl Of<'_> {
    /// The header that says least; of those with multipliers in weights, if none has them in keys.
    ///
    /// # Errors
    /// How what is read back differs, if all of them do.
    pub fn head(&self, architecture: &str, tensors: &[Planned]) -> Result<Head> {
        let said = || Way::all().find_map(|way| self.said(way, architecture, tensors).ok());
        let folded = || Way::all().find_map(|way| self.folded(way, architecture, tensors).ok());
        let whole = match said().or_else(folded) {
            Some(head) => Ok(head),
            None => self.said(Way::WHOLE, architecture, tensors),
        };
        whole.map_err(|difference| Error::Export {
            file: self.name.to_owned(),
            problem: format!(
                "GGUF's keys can't say all that the model is: read back, {difference}; pack it as .rinf \
                 instead"
            ),
        })
    }

    fn keys(&self, way: Way, architecture: &str, spec: &ModelSpec) -> (Vec<(String, Item)>, Made) {
        let stated = self.config.get("intermediate_size").and_then(Value::as_u64);
        let stated = stated.map(|width| width as usize);
        let (mut keys, made) = keys::of(architecture, spec, stated, way);
        keys.extend(sections(architecture, self.config));
        (keys, made)
    }

    fn said(
        &self,
        way: Way,
        architecture: &str,
        tensors: &[Planned],
    ) -> std::result::Result<Head, String> {
        let (keys, made) = self.keys(way, architecture, self.spec);
        let spec = read_back(architecture, &keys, &made, tensors)?;
        match difference(self.spec, &spec) {
            None => Ok(Head { keys, made, spec, factors: Factors::new(), untied: false }),
            Some(difference) => Err(difference),
        }
    }

    fn folded(
        &self,
        way: Way,
        architecture: &str,
        tensors: &[Planned],
    ) -> std::result::Result<Head, String> {
        let (keys, made) = self.keys(way, architecture, &bare(self.spec));
        let mut spec = read_back(architecture, &keys, &made, tensors)?;
        let (factors, ours) = folded(self.spec, &spec);
        let untied = ours.tied() != self.spec.tied();
        if untied {
            let embedding = tensors.iter().find(|tensor| tensor.name == EMBEDDING);
            let second = embedding.map(|t| Planned { name: OUTPUT.to_owned(), ..t.clone() });
            let tensors: Vec<Planned> = tensors.iter().cloned().chain(second).collect();
            spec = read_back(architecture, &keys, &made, &tensors)?;
        }
        match difference(&ours, &spec) {
            None => Ok(Head { keys, made, spec, factors, untied }),
            Some(difference) => Err(difference),
        }
    }
}

/// The model that a header makes.
fn read_back(
    architecture: &str,
    keys: &[(String, Item)],
    made: &Made,
    tensors: &[Planned],
) -> std::result::Result<ModelSpec, String> {
    let named = ("general.architecture".to_owned(), Item::str(architecture));
    let metadata: Vec<_> = [named].into_iter().chain(keys.iter().cloned()).collect();
    let first: Vec<Stored> = made.iter().cloned().map(Stored::made).collect();
    let all = first.iter().map(|t| &t.planned).chain(tensors);
    let all: Vec<Planned> =
        all.cloned().map(|t| Planned { dtype: plain_type(t.dtype), ..t }).collect();
    let mut bytes = header(&metadata, &all).map_err(|e| e.to_string())?;
    for tensor in &first {
        bytes.extend(tensor.bytes());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    let gguf = Gguf::begun(Path::new("the file"), bytes).map_err(|e| e.to_string())?;
    let opened = Opened::of("the file".to_owned(), Files::Gguf(gguf));
    opened.map(|opened| opened.spec).map_err(|e| e.to_string())
}

/// Types do not matter to what a model is, and not all have a number.
fn plain_type(dtype: DType) -> DType {
    if dtype.format().ggml.is_none() { DType::F32 } else { dtype }
}

/// How many frequencies go by which of three positions: of text, which has one, of no matter, but some
/// readers ask.
fn sections(architecture: &str, config: &Value) -> Option<(String, Item)> {
    let rope = config.get("rope_parameters").or(config.get("rope_scaling"))?;
    let listed = rope.get("mrope_section")?.as_array()?;
    let mut all: Vec<i32> = listed.iter().filter_map(|n| Some(n.as_u64()? as i32)).collect();
    all.resize(4, 0);
    Some((format!("{architecture}.rope.dimension_sections"), Item::i32s(all.into_iter())))
}
