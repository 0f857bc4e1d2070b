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
use crate::spec::ModelSpec;
use rinfer_kernels::kv::PAGE;

/// Positions behind a window that are kept too, so that a few can be taken back.
pub(crate) const SLACK: usize = PAGE;

/// Layers whose queries see equally far share their tables of pages: the windows, each once.
pub(crate) fn windows(spec: &ModelSpec) -> Vec<Option<usize>> {
    let mut windows = Vec::new();
    for a in spec.attentions() {
        if !windows.contains(&a.window) {
            windows.push(a.window);
        }
    }
    windows
}

/// Pages of layers with this window, for all sequences together: as many as all positions need,
/// or a full share for every slot if that is less.
pub(crate) fn pages(window: Option<usize>, limits: &Limits) -> usize {
    let all = limits.positions.div_ceil(PAGE);
    share(window, limits).map_or(all, |share| all.min(share))
}

/// Whether a page must be reserved before rows come, because not every slot has its full share.
pub(crate) fn reserved(window: Option<usize>, limits: &Limits) -> bool {
    share(window, limits).is_none_or(|share| share > pages(window, limits))
}

/// What all slots together hold at most, in layers with a window: what one batch's rows see and
/// write, and a little behind it.
fn share(window: Option<usize>, limits: &Limits) -> Option<usize> {
    window.map(|w| limits.slots * ((w + SLACK + limits.batch).div_ceil(PAGE) + 1))
}
