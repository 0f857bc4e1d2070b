//! What sequences remember, on the CPU: pages of keys and values.
//!
//! `table` counts pages without holding any, `pages` holds them and is the [`State`].
//!
//! [`State`]: crate::backend::State
mod pages;
mod saved;
mod table;

pub use pages::{Cache, Pages};
pub(crate) use table::Group;

use crate::backend::Limits;
use crate::spec::{ModelSpec, Reach};
use rinfer_kernels::kv::PAGE;

/// Positions behind a window that are kept too, so that a few can be taken back.
pub(crate) const SLACK: usize = PAGE;

/// Layers whose queries see equally far share their tables of pages: how far, each once.
pub(crate) fn reaches(spec: &ModelSpec) -> Vec<Reach> {
    let mut reaches = Vec::new();
    for a in spec.attentions() {
        if !reaches.contains(&a.reach) {
            reaches.push(a.reach);
        }
    }
    reaches
}

/// Pages of layers with this reach, for all sequences together: as many as all positions need,
/// or a full share for every slot if that is less.
pub(crate) fn pages(reach: Reach, limits: &Limits) -> usize {
    let all = limits.positions.div_ceil(PAGE);
    share(reach, limits).map_or(all, |share| all.min(share))
}

/// Whether a page must be reserved before rows come, because not every slot has its full share.
pub(crate) fn reserved(reach: Reach, limits: &Limits) -> bool {
    share(reach, limits).is_none_or(|share| share > pages(reach, limits))
}

/// What all slots together hold at most, in layers that see so far: what one batch's rows see and
/// write, and a little behind it.
fn share(reach: Reach, limits: &Limits) -> Option<usize> {
    reach.most().map(|w| limits.slots * ((w + SLACK + limits.batch).div_ceil(PAGE) + 1))
}
