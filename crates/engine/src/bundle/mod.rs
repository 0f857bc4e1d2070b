//! Bundles: what the engine keeps of a model beside its packed tensors, and how it is read back.
//!
//! The spec is kept as it was resolved, so a bundle outlives changes to how configs are read. It
//! comes from a file that nobody vouches for: `check` holds it against bounds and tensors.
mod check;
mod provenance;
mod sense;
mod write;

pub use provenance::license;
pub use write::{Making, save, save_into, write};
pub(crate) use write::{not_itself, not_written};

use crate::backend::Quant;
use crate::cpu::lie::Lie;
use crate::embed::Companions;
use crate::error::{Error, Result};
use crate::families::{FAMILIES, Family};
use crate::language::Stored;
use crate::spec::ModelSpec;
use rinfer_formats::gguf::write::{Item, Planned, header};
use rinfer_formats::{Bundle, DType, Gguf, Prepared, Weights};
use rinfer_kernels::Layout;
use serde::{Deserialize, Serialize};

/// The header of the GGUF file that a bundle was made of, if it was made of one: its keys, and the tensors
/// that the bundle has.
pub(crate) fn was_gguf(bundle: &Bundle) -> Result<Option<Gguf>> {
    let path = bundle.path();
    let Some(bytes) = bundle.file(Stored::GGUF) else { return Ok(None) };
    let keys = Gguf::over(path, bytes)?;
    let keys = keys.metadata();
    let items: Vec<(String, Item)> =
        keys.keys().filter_map(|key| Some((key.to_owned(), keys.item(key)?))).collect();
    let planned = |name: &str| {
        let shape = bundle.describe(name)?.1;
        Some(Planned { name: name.to_owned(), dtype: DType::F32, shape })
    };
    let tensors: Vec<Planned> = bundle.names().into_iter().filter_map(planned).collect();
    Ok(Some(Gguf::begun(path, header(&items, &tensors)?)?))
}

/// What a bundle says of its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What people call it.
    pub name: String,
    /// Under which licence it may be used, if anybody said so.
    pub license: Option<String>,
    /// The program that wrote the bundle.
    pub made_by: String,
    /// How the weights were converted, as `--quant` spells it.
    pub quant: String,
    /// Who said what to compute.
    pub family: String,
    /// What to compute.
    pub spec: ModelSpec,
    /// What turns text to tokens, beside the tokenizer's own file.
    pub language: Stored,
    /// How texts are read, of a model that makes vectors or scores of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Companions>,
}

impl About {
    /// Of an open bundle, whose tensors are what the spec needs.
    ///
    /// # Errors
    /// A field that is missing, unknown or out of its range; tensors that are not the spec's.
    pub fn of(bundle: &Bundle) -> Result<(About, &'static Family)> {
        let file = bundle.path().display().to_string();
        let field = |field: &str, found: String, expected: String| Error::Field {
            file: file.clone(),
            field: field.into(),
            found,
            expected,
        };
        check::numbers(&file, &bundle.model()["spec"])?;
        let about = About::deserialize(bundle.model()).map_err(|e| {
            let expected = "what this version writes; bundle the model again with it";
            field("the description of the model", format!("not understood ({e})"), expected.into())
        })?;
        let family = FAMILIES.iter().find(|family| family.name == about.family);
        let family = family.ok_or_else(|| {
            let all: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            field("family", format!("'{}'", about.family), format!("one of {}", all.join(", ")))
        })?;
        sense::check(&about.spec).map_err(|(place, expected)| {
            field(&place, "something that no model has".into(), expected.into())
        })?;
        check::tensors(&about.spec, bundle).map_err(|cause| Error::Load { file, cause })?;
        Ok((about, *family))
    }

    /// Whether rows or columns of the bundle's matrices lie in orders of their own: what is packed of
    /// blocks is f32 to whoever reads it as it was, then.
    pub fn in_orders(&self, bundle: &Bundle) -> bool {
        let turned = |name: &str| {
            let blocks = |stored: Prepared<'_>| {
                Lie::named(name, stored.layout)
                    .is_some_and(|lie| !lie.across && lie.layout != Layout::F32)
            };
            let packed = bundle.prepared(name).is_some_and(blocks);
            packed && bundle.describe(name).is_some_and(|(dtype, _)| dtype == DType::F32)
        };
        let native = self.quant == Quant::Native.name();
        bundle.orders().next().is_some() || native && bundle.names().into_iter().any(turned)
    }
}
