//! What models keep of requests is written when they go.
use super::Pool;
use crate::models::slot::{Slot, Stage};
use crate::refusal::{Kind, Refusal};
use rinfer_engine::model::Model;

impl Pool {
    /// Lets a model go that was taken out, and keeps what it computed if there is a place for that.
    pub(super) fn part(&self, index: usize, stage: Stage) {
        if let Stage::Here(loaded, _) = stage
            && let Some(model) = loaded.model.writer()
        {
            // What goes wrong is in the log.
            let _ = self.save(index, model);
        }
    }
    /// Writes what a model keeps. Returns how many positions that are, if there is a place for them.
    pub fn save(&self, index: usize, model: &Model) -> Result<Option<usize>, Refusal> {
        let saved = self.offer(index).source.save(model);
        let name = self.name(index);
        if let Ok(Some(positions)) = saved {
            (self.log)(&format!("saved {positions} positions of {name}"));
        }
        saved.map_err(|failure| {
            (self.log)(&format!("error: what '{name}' keeps is not saved: {}", failure.whole));
            Refusal::new(Kind::Failed, failure.told).code("not_saved")
        })
    }
    /// Writes what all keep that are loaded.
    pub fn save_all(&self) {
        let model = |slot: &Slot| match &slot.stage {
            Stage::Here(loaded, _) => loaded.model.writer().cloned(),
            _ => None,
        };
        let all: Vec<Option<Model>> = self.slots().all.iter().map(model).collect();
        for (index, model) in all.iter().enumerate() {
            let _ = model.as_ref().map(|model| self.save(index, model));
        }
    }
}
