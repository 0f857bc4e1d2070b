//! What is added to tensors of canonical names, those of a GGUF file or a bundle: PEFT's adapters have the names of the
//! folder that it was made of, llama.cpp's those of a GGUF file.
use super::{Adapter, Adapters, Additions, Other, gguf};
use crate::config::{Config, Source};
use crate::error::{Error, Result};
use crate::families::Family;
use crate::spec::ModelSpec;
use crate::weights::added::{Added, Like};
use crate::weights::moved::Moved;
use rinfer_formats::Gguf;
use rinfer_formats::gguf::FOLDED;
use std::sync::Arc;

/// A base of canonical names.
pub struct Canonical<'a> {
    /// Who said what to compute.
    pub family: &'a Family,
    /// What to compute.
    pub spec: &'a ModelSpec,
    /// The GGUF file that it is or was, with tensors or without; none if it was a folder.
    pub gguf: Option<&'a Gguf>,
}

impl Adapters {
    /// Reads adapters and holds them against a base.
    ///
    /// # Errors
    /// As [`Adapters::read`]; PEFT's adapters over a GGUF file that does not say what its folder was;
    /// llama.cpp's over what was none.
    pub fn of_canonical(adapters: &[Adapter], base: &Canonical<'_>) -> Result<Adapters> {
        let (mut all, mut folder) = (Adapters::default(), None);
        for adapter in adapters {
            let path = &adapter.path;
            let (additions, like, file) = match (path.is_file(), base.gguf) {
                (true, Some(base)) => {
                    (gguf::read(path, adapter.scale, base)?, Like::File, path.clone())
                }
                (true, None) => return Err(super::no_folder(path)),
                (false, _) => {
                    let like = match &folder {
                        Some(like) => like,
                        None => folder.insert(base.folder(adapter)?),
                    };
                    let tied = base.spec.tied();
                    let file = path.join("adapter_model.safetensors");
                    (Additions::named(adapter, tied)?, like.clone(), file)
                }
            };
            let added = Added::of(&additions, base.family, base.spec, &like);
            let added = added.map_err(|(name, why)| {
                super::refuse(&file, &name, why, "the base that it was trained on, or its folder")
            })?;
            all.others.push(Other { additions, added });
        }
        Ok(all)
    }
}

impl Canonical<'_> {
    /// Where it has a folder's rows.
    fn folder(&self, adapter: &Adapter) -> Result<Like> {
        let Some(gguf) = self.gguf else { return Ok(Like::Folder(Arc::default())) };
        let moved = self.moved(gguf).map_err(|why| Error::Option {
            option: "adapter",
            found: adapter.path.display().to_string(),
            problem: format!(
                "does not go with a GGUF file of the family {}: {why}; give the base's folder, or the \
                 adapter as a GGUF file",
                self.family.name
            ),
        })?;
        Ok(Like::Folder(Arc::new(moved)))
    }

    /// The same of a GGUF file; or why nobody knows.
    fn moved(&self, gguf: &Gguf) -> std::result::Result<Moved, String> {
        let folded = gguf.metadata().bool(FOLDED).map_err(|e| e.to_string())?;
        if self.family.folds() || folded == Some(true) {
            return Err(
                "its converter multiplies matrices by numbers of config.json that the file does \
                        not keep"
                    .into(),
            );
        }
        let config = gguf.config().map_err(|e| e.to_string())?;
        let config = Config::new(config, Source::Gguf).in_folders_order();
        let folder = config.with_tensors(gguf).and_then(|config| (self.family.spec)(&config));
        let folder = folder.map_err(|e| e.to_string())?;
        Moved::between(self.family, &folder, self.spec)
    }
}
