//! What a MODEL names, in every command: a path, a model on the hub, or this program's own.
use super::Environment;
use rinfer_engine::load::Opened;
use rinfer_engine::lora::Adapter;
use rinfer_formats::Checkpoint;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

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
            return found(text);
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
        found(text)
    }
}

/// A path, if something is there: else what may be meant.
fn found(text: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(text);
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let page = text.strip_prefix("https://huggingface.co/").unwrap_or(text);
        let parts: Vec<&str> = page.split('/').collect();
        let hub = match parts[..] {
            [owner, repo, ..] if page != text => format!("hf:{owner}/{repo}"),
            [owner, repo] if !owner.is_empty() && !owner.starts_with(['.', '~']) => {
                format!("hf:{owner}/{repo}")
            }
            _ => "hf:owner/repo".to_owned(),
        };
        anyhow::bail!(
            "{text}: there is no such file or folder. Give its path, or {hub} if it is on the hub; rinfer models lists \
             what is here, and demo:tiny is a small model to begin with"
        );
    }
    Ok(path.to_owned())
}
