//! What a MODEL names, in every command: a path, a model on the hub, or this program's own.
use super::Environment;
use rinfer_engine::load::Opened;
use rinfer_engine::lora::Adapter;
use rinfer_formats::Checkpoint;
use std::path::PathBuf;

impl Environment {
    /// Opens the model that a reference names; without one, the program's own.
    pub fn open(&self, model: Option<&str>) -> anyhow::Result<Opened> {
        match (model, self.own) {
            (Some(model), _) => Ok(Opened::open(self.resolve(model)?)?),
            (None, Some(place)) => {
                let bundle = place.open(&self.program)?;
                let name = self.program.display().to_string();
                Ok(Opened::of(name, Checkpoint::Bundle(bundle))?)
            }
            (None, None) => Err(super::no_model().into()),
        }
    }
    /// The same with adapters, which may lie on the hub too.
    pub fn open_adapted(
        &self,
        model: Option<&str>,
        adapters: &[Adapter],
    ) -> anyhow::Result<Opened> {
        let adapters = adapters.iter().map(|adapter| self.resolve_adapter(adapter));
        let adapters = adapters.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(self.open(model)?.adapted(&adapters)?)
    }
    /// An adapter by its path.
    pub fn resolve_adapter(&self, adapter: &Adapter) -> anyhow::Result<Adapter> {
        let path = match adapter.path.to_str() {
            Some(text) => self.resolve(text)?,
            None => adapter.path.clone(),
        };
        Ok(Adapter { path, ..adapter.clone() })
    }
    /// The path of a model or adapter, fetched if it is on the hub and not here.
    #[cfg(feature = "pull")]
    pub fn resolve(&self, text: &str) -> anyhow::Result<PathBuf> {
        use rinfer::hub::Hub;
        if !Hub::is_reference(text) {
            return Ok(text.into());
        }
        Ok(self.hub()?.resolve(text, &super::progress::Progress::new(self))?)
    }
    /// The path of a model or adapter.
    #[cfg(not(feature = "pull"))]
    pub fn resolve(&self, text: &str) -> anyhow::Result<PathBuf> {
        if text.starts_with("hf:") || text.starts_with("demo:") {
            let text = format!(
                "'{text}' is on the hub, and this program was built without pull: fetch the file by other means and give \
                 its path"
            );
            return Err(super::Usage(text).into());
        }
        Ok(text.into())
    }
}
