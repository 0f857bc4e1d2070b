//! How models are offered, whatever they are: as the command line says.
use super::files::Files;
use super::offers::Named;
use crate::cmd::{Environment, Sampler};
use rinfer_engine::load::Load;
use rinfer_grammar::Grammar;
use rinfer_server::Offer;
use std::path::PathBuf;
use std::sync::Arc;

/// What all have in common.
#[derive(Clone)]
pub struct Offering {
    pub load: Load,
    pub sampler: Sampler,
    pub form: Option<Arc<Grammar>>,
    /// The folder in which what models keep is saved.
    pub sessions: Option<PathBuf>,
    pub queue: usize,
    pub env: Environment,
}

impl Offering {
    /// How this one is brought.
    pub fn files(&self, named: Named) -> Files {
        let mut load = self.load.clone();
        load.adapters.extend(named.adapters.iter().cloned());
        let file = |folder: &PathBuf| folder.join(format!("{}.kept", named.names[0]));
        let kept = self.sessions.as_ref().map(file);
        let (sampler, form) = (self.sampler.clone(), self.form.clone());
        Files { named, load, sampler, form, kept, env: self.env.clone() }
    }
    /// Offers it.
    pub fn offer(&self, files: Files) -> Offer {
        Offer::new(files.named.names.clone(), files, self.queue)
    }
}
