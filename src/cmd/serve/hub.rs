//! What the page's user may search and fetch: the hub, as all commands know it.
use super::offering::Offering;
use super::offers::Named;
use crate::cmd::models::{fits, tag};
use rinfer::hub::{Cache, Choice, DEMOS, Demo, Found, Here, Watch, models};
use rinfer_server::{Contents, Failure, Fetchable, Offer, Pull, Repository};
use std::collections::HashSet;

/// The hub, and how what is fetched is offered.
pub struct Hub {
    hub: rinfer::hub::Hub,
    offering: Offering,
}

impl Hub {
    /// # Errors
    /// A setting of the environment that can't be.
    pub fn new(offering: &Offering) -> anyhow::Result<Hub> {
        Ok(Hub { hub: offering.env.hub()?, offering: offering.clone() })
    }
    /// What a cache has that can be served: of several commits the one that was asked for last, first.
    fn of(cache: &Cache) -> Vec<Here> {
        let of = |repo| {
            let now = cache.commit(&repo, "main");
            let mut all = cache.models(&repo);
            all.retain(|here| !here.choice.files.iter().any(|f| f.path == "adapter_config.json"));
            all.sort_by_key(|here| now.as_ref() != Some(&here.commit));
            all
        };
        cache.repos().into_iter().flat_map(of).collect()
    }
    /// What is here, ours and others', each name once.
    fn held(&self) -> Vec<Here> {
        let caches = std::iter::once(self.hub.cache()).chain(self.hub.others());
        let mut seen = HashSet::new();
        caches.flat_map(Hub::of).filter(|here| seen.insert(name(here))).collect()
    }
    fn offer(&self, here: &Here) -> Option<Offer> {
        let path = Some(here.path.to_str()?.to_owned());
        let named = Named { names: vec![name(here)], path, adapters: Vec::new() };
        Some(self.offering.offer(self.offering.files(named)))
    }
}

impl rinfer_server::Hub for Hub {
    fn place(&self) -> String {
        self.hub.host().to_owned()
    }
    fn closed(&self) -> Option<String> {
        let text = "HF_HUB_OFFLINE is set, so the hub is not asked: start the server without it to get models here";
        self.hub.is_offline().then(|| text.to_owned())
    }
    fn suggested(&self) -> Vec<Fetchable> {
        let here = self.held();
        let pinned = |demo: &Demo| Fetchable {
            reference: format!("demo:{}", demo.name),
            what: format!("{}, {}", demo.about, demo.licence),
            bytes: demo.size,
            fits: demo.size.and_then(|size| fits(size, self.offering.load.memory)),
            here: here.iter().any(|here| here.choice.files[0].digest == demo.digest()),
        };
        DEMOS.iter().map(pinned).collect()
    }
    fn search(&self, words: &str) -> Result<Vec<Repository>, Failure> {
        let found = self.hub.search(words).map_err(failure)?;
        let repository = |found: Found| Repository {
            name: found.repo.to_string(),
            downloads: found.downloads,
            gated: found.gated,
        };
        Ok(found.into_iter().map(repository).collect())
    }
    fn contents(&self, repository: &str) -> Result<Contents, Failure> {
        let listing = self.hub.list(&format!("hf:{repository}")).map_err(failure)?;
        let held = self.held();
        let one = |choice: Choice| {
            let here = Here {
                repo: listing.repo.clone(),
                commit: listing.commit.clone(),
                choice,
                path: "".into(),
            };
            let choice = &here.choice;
            Fetchable {
                reference: format!("hf:{}:{}", listing.repo, tag(choice)),
                what: tag(choice).to_owned(),
                bytes: Some(choice.bytes()),
                fits: fits(choice.bytes(), self.offering.load.memory),
                here: held
                    .iter()
                    .any(|other| name(other) == name(&here) && other.commit == here.commit),
            }
        };
        let models = models(&listing).into_iter().map(one).collect();
        Ok(Contents { name: listing.repo.to_string(), licence: listing.licence.clone(), models })
    }
    fn pull(&self, reference: &str, pull: &Pull) -> Result<String, Failure> {
        let here = self.hub.pull(reference, &Watched(pull)).map_err(failure)?;
        Ok(name(&here))
    }
    fn unfinished(&self) -> Vec<(String, u64)> {
        let cache = self.hub.cache();
        let of = |repo| {
            let bytes: u64 = cache.unfinished(&repo).iter().map(|(_, bytes)| bytes).sum();
            (repo.to_string(), bytes)
        };
        cache.repos().into_iter().map(of).filter(|(_, bytes)| *bytes > 0).collect()
    }
    fn here(&self) -> Vec<Offer> {
        self.held().iter().filter_map(|here| self.offer(here)).collect()
    }
}

/// Tells the page what a fetch tells.
struct Watched<'a>(&'a Pull);

impl Watch for Watched<'_> {
    fn note(&self, text: &str) {
        self.0.note(text);
    }
    fn tell(&self, _: &str) {}
    fn needs(&self, files: usize, bytes: u64) {
        self.0.needs(files, bytes);
    }
    fn begins(&self, name: &str, total: u64, done: u64) {
        self.0.begins(name, total, done);
    }
    fn came(&self, bytes: u64) {
        self.0.came(bytes);
    }
    fn ends(&self) {}
    fn is_wanted(&self) -> bool {
        !self.0.is_cancelled()
    }
}

/// Who has models fetched may know where they lie.
fn failure(error: rinfer::hub::Error) -> Failure {
    Failure::told(error.to_string())
}

/// What requests call a model of the hub.
fn name(here: &Here) -> String {
    match &here.choice.tag {
        Some(tag) => format!("{}:{tag}", here.repo),
        None => here.repo.to_string(),
    }
}
