//! Models in files, as the server brings them.
use super::offers::Named;
use crate::cmd::options::describe;
use crate::cmd::run::load;
use crate::cmd::{Environment, Log, Sampler};
use anyhow::Context;
use rinfer_engine::embed::{Embedder, Reranker};
use rinfer_engine::load::{Load, Opened};
use rinfer_engine::model::Model;
use rinfer_engine::size::Memory;
use rinfer_engine::spec::Head;
use rinfer_grammar::Grammar;
use rinfer_server::{Brought, Failure, Makes, Plan, Source};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model in files, and how it is loaded and asked.
pub struct Files {
    pub named: Named,
    pub load: Load,
    pub sampler: Sampler,
    pub form: Option<Arc<Grammar>>,
    /// Where what it keeps of requests is saved.
    pub kept: Option<PathBuf>,
    pub env: Environment,
}

impl Files {
    fn path(&self) -> Option<&str> {
        self.named.path.as_deref()
    }
    /// Requests are told of files by their names, the log by their paths.
    fn failure(&self, error: &anyhow::Error) -> Failure {
        let whole = format!("{error:#}");
        let given = self.path().map(Path::new).unwrap_or(&self.env.program);
        let paths = [given].into_iter().chain(self.load.adapters.iter().map(|a| a.path.as_path()));
        let bare = |text: String, path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let text = text.replace(&real.display().to_string(), &name);
            text.replace(&path.display().to_string(), &name)
        };
        Failure { told: paths.fold(whole.clone(), bare), whole }
    }
    /// How it is loaded: with a context's positions for every answer at once, or for as many as memory has
    /// room for; all answers share them.
    fn sized(&self, opened: &Opened) -> anyhow::Result<Load> {
        let mut load = self.load.clone();
        let context = opened.fit(&load)?.limits.context;
        for halves in 0..load.sequences.ilog2() {
            load.positions = Some((load.sequences >> halves) * context);
            if opened.fit(&load)?.fits() {
                return Ok(load);
            }
        }
        Ok(self.load.clone())
    }
    fn plan(&self) -> anyhow::Result<Plan> {
        let opened = self.env.open_adapted(self.path(), &self.load.adapters)?;
        let (fit, limits, most) = match opened.spec.head {
            Head::Pool { .. } => {
                let fit = opened.takes(&self.load)?;
                let limits = fit.limits.clone();
                (fit, limits, None)
            }
            Head::Lm { .. } => {
                let load = self.sized(&opened)?;
                let limits = opened.limits(&load)?;
                // Of a bundle that is in memory in part, the part is as large as it may be.
                let most = limits.resident.and(self.load.memory);
                (opened.fit(&load)?, limits, most)
            }
        };
        let Memory { weights, state, scratch } = fit.takes;
        let most = most.map_or(usize::MAX, |most| most.saturating_sub(state + scratch));
        Ok(Plan {
            weights: weights.min(most),
            state,
            scratch,
            context: limits.context,
            positions: limits.positions,
            answers: limits.slots,
            makes: match opened.spec.head {
                Head::Lm { .. } => Makes::Texts,
                Head::Pool { scores: false, .. } => Makes::Vectors,
                Head::Pool { .. } => Makes::Scores,
            },
        })
    }
    fn load(&self) -> anyhow::Result<Brought> {
        let opened = self.env.open(self.path())?;
        if let Head::Pool { scores, .. } = opened.spec.head {
            let opened = self.env.open_adapted(self.path(), &self.load.adapters)?;
            return Ok(match scores {
                false => Brought::Embedder(Embedder::of(&opened, &self.load)?),
                true => Brought::Reranker(Reranker::of(&opened, &self.load)?),
            });
        }
        drop(opened);
        let sized = self.sized(&self.env.open_adapted(self.path(), &self.load.adapters)?)?;
        let model = load(self.path(), sized, &self.env)?;
        model.prepare_forms();
        self.restore(&model);
        let mut sampling = model.language().sampling.clone();
        // The bound on answers is the server's.
        let bound = sampling.max_tokens;
        self.sampler.apply(&mut sampling);
        sampling.max_tokens = bound;
        sampling.grammar = self.form.clone();
        self.env.say(Log::Info, format!("{}: {}", self.named.names[0], describe(&sampling)));
        Ok(Brought::Writer(model, sampling))
    }
}

impl Files {
    /// Takes what was saved, or says why not: then prompts are computed again.
    fn restore(&self, model: &Model) {
        let Some(file) = self.kept.as_ref().filter(|file| file.exists()) else { return };
        let name = &self.named.names[0];
        match model.restore(file) {
            Ok(restored) => {
                self.env
                    .say(Log::Info, format!("{name}: restored {} positions", restored.positions));
            }
            Err(error) => self.env.say(Log::Warn, format!("{name}: {error}")),
        }
    }
    fn save(&self, model: &Model, file: &Path) -> anyhow::Result<usize> {
        // An older file is worth more than one of nothing.
        if model.kept() == 0 {
            return Ok(0);
        }
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("--sessions {}", folder.display()))?;
        }
        Ok(model.save(file)?)
    }
}

impl Source for Files {
    fn plan(&self) -> Result<Plan, Failure> {
        self.plan().map_err(|error| self.failure(&error))
    }
    fn load(&self) -> Result<Brought, Failure> {
        self.load().map_err(|error| self.failure(&error))
    }
    fn save(&self, model: &Model) -> Result<Option<usize>, Failure> {
        let saved = self.kept.as_ref().map(|file| self.save(model, file)).transpose();
        saved.map_err(|error| Failure {
            told: format!("what '{}' keeps can't be written: see the log", self.named.names[0]),
            whole: format!("{error:#}"),
        })
    }
}
