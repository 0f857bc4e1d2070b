//! Room for a model that comes: what nobody uses makes it.
use super::Pool;
use crate::models::slot::{Slot, Slots, Stage};
use crate::refusal::{Kind, Refusal};

impl Pool {
    /// Bytes that loaded models may take together, and that those take which are used or come.
    pub fn used(&self) -> (Option<usize>, usize) {
        let busy = |slot: &&Slot| !slot.is_idle();
        (self.room, self.slots().all.iter().filter(busy).map(|slot| slot.bytes).sum())
    }
    /// Keeps bytes for a model that comes, and takes out what makes room for it.
    pub(super) fn make_room(
        &self,
        index: usize,
        bytes: usize,
    ) -> Result<Vec<(usize, Stage)>, Refusal> {
        let mut slots = self.slots();
        slots.all[index].known = Some(bytes);
        let idle = self.room(&slots, index, bytes)?;
        let mut unloaded = Vec::new();
        for other in idle {
            if self.room.is_none_or(|room| slots.held(index) + bytes <= room) {
                break;
            }
            (self.log)(&format!("unloaded {} for {}", self.name(other), self.name(index)));
            unloaded.push((other, slots.all[other].leave()));
        }
        slots.all[index].bytes = bytes;
        Ok(unloaded)
    }
    /// The idle models, the longest idle first, if there is room for so many bytes without them.
    pub(super) fn room(
        &self,
        slots: &Slots,
        index: usize,
        bytes: usize,
    ) -> Result<Vec<usize>, Refusal> {
        let idle = slots.idle(index);
        let Some(room) = self.room else { return Ok(idle) };
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let name = self.name(index);
        if bytes > room {
            let text = format!(
                "'{name}' takes {} MiB, and all models may take {} MiB: start the server with a larger \
                 --memory or a smaller --context",
                mib(bytes),
                room >> 20
            );
            return Err(Refusal::new(Kind::Failed, text).code("model_too_large"));
        }
        let freed: usize = idle.iter().map(|i| slots.all[*i].bytes).sum();
        let busy = slots.held(index) - freed;
        if busy + bytes <= room {
            return Ok(idle);
        }
        let used = (0..slots.all.len()).filter(|i| *i != index && slots.all[*i].bytes > 0);
        let used: Vec<String> =
            used.filter(|i| !idle.contains(i)).map(|i| format!("'{}'", self.name(i))).collect();
        let text = format!(
            "'{name}' takes {} MiB, and {} of {} MiB are free while {} is used: try again later, or start \
             the server with a larger --memory",
            mib(bytes),
            room.saturating_sub(busy) >> 20,
            room >> 20,
            used.join(", ")
        );
        Err(Refusal::new(Kind::Busy, text).code("memory_in_use"))
    }
}
