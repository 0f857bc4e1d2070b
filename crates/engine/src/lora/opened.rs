//! A checkpoint that is opened with adapters.
use super::{Adapter, Adapters, Canonical};
use crate::bundle;
use crate::error::Result;
use crate::load::{Opened, option};
use rinfer_formats::{Checkpoint, Gguf};

impl Opened {
    /// The same with adapters, which are merged into tensors as these are read.
    ///
    /// # Errors
    /// As [`Adapters::read`]; files that adapters don't go with.
    pub fn adapted(mut self, adapters: &[Adapter]) -> Result<Opened> {
        let Some(first) = adapters.first() else { return Ok(self) };
        self.adapters = match &self.files {
            Checkpoint::Folder(folder) => Adapters::read(adapters, folder, self.spec.tied())?,
            Checkpoint::Gguf(gguf) => {
                Adapters::of_canonical(adapters, &self.canonical(Some(gguf)))?
            }
            Checkpoint::Bundle(bundle) => {
                if self.about.as_ref().is_some_and(|about| about.in_orders(bundle)) {
                    let problem = "goes with what the bundle was made of, whose columns lie in the bundle in \
                                   another order: bundle that with the adapter";
                    return Err(option("adapter", first.path.display(), problem.into()));
                }
                let gguf = bundle::was_gguf(bundle)?;
                Adapters::of_canonical(adapters, &self.canonical(gguf.as_ref()))?
            }
        };
        Ok(self)
    }

    fn canonical<'a>(&'a self, gguf: Option<&'a Gguf>) -> Canonical<'a> {
        Canonical { family: self.family, spec: &self.spec, gguf }
    }

    /// What adapters of a GGUF file or a bundle are added to, by canonical name.
    pub(crate) fn added(&self) -> impl Iterator<Item = &str> {
        self.adapters.added()
    }

    /// Whether there are adapters.
    pub fn is_adapted(&self) -> bool {
        !self.adapters.is_empty()
    }
}
