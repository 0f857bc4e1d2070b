//! What sequences remember, on the CPU: pages of keys and values, and recurrent states.
//!
//! `table` counts pages without holding any, `recurrent` holds states of fixed size, `prefix` says what of
//! both sequences left to later ones, `saved` makes bytes of that, and `pages` holds pages and is the
//! [`State`].
//!
//! [`State`]: crate::backend::State
mod pages;
mod prefix;
mod recurrent;
mod saved;
mod table;

pub use pages::{Cache, Pages};
pub(crate) use recurrent::{Recurrent, cells};
pub(crate) use table::Group;

use crate::backend::Limits;
use crate::spec::{Keys, ModelSpec, Op, Reach};
use rinfer_kernels::kv::{KvShape, PAGE};

/// Positions behind a window that are kept too, so that a few can be taken back.
pub(crate) const SLACK: usize = PAGE;

/// What an operation keeps of each position, and how long.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// Which positions its queries see.
    pub reach: Reach,
    /// What it keeps.
    pub shape: KvShape,
}

/// What all operations keep, in the order of a forward pass: the number of a pool is its place here.
pub(crate) fn kept(spec: &ModelSpec) -> impl Iterator<Item = Kept> {
    spec.ops().flat_map(keeps)
}

fn keeps(op: &Op) -> impl Iterator<Item = Kept> + use<> {
    let all =
        |k_dim, v_dim| Some(Kept { reach: Reach::All, shape: KvShape { heads: 1, k_dim, v_dim } });
    let both = match op {
        Op::Attention(a) if a.kv_from.is_none() => {
            let (heads, dim) = (a.kv_heads, a.head_dim);
            let shape = KvShape { heads, k_dim: dim, v_dim: dim };
            [Some(Kept { reach: a.reach, shape }), None]
        }
        Op::Mla(m) => {
            let latent = all(m.kv_rank + m.rope_dim, m.kv_rank);
            match &m.keys {
                Keys::Chosen(indexer) => [latent, all(indexer.head_dim, 0)],
                Keys::All | Keys::AsBefore => [latent, None],
            }
        }
        _ => [None, None],
    };
    both.into_iter().flatten()
}

/// Layers whose queries see equally far share their tables of pages: how far, each once.
pub(crate) fn reaches(spec: &ModelSpec) -> Vec<Reach> {
    let mut reaches = Vec::new();
    for kept in kept(spec) {
        if !reaches.contains(&kept.reach) {
            reaches.push(kept.reach);
        }
    }
    reaches
}

/// The first of the [`Cache`]'s pages that operation `i` of all reads: its own, or those of the
/// attention that it shares.
pub(crate) fn pool(spec: &ModelSpec, i: usize) -> usize {
    let shared = match spec.ops().nth(i) {
        Some(Op::Attention(a)) => a.kv_from,
        _ => None,
    };
    let attentions = spec.ops().enumerate().filter(|(_, op)| matches!(op, Op::Attention(_)));
    let writer = shared.and_then(|nth| attentions.map(|(i, _)| i).nth(nth)).unwrap_or(i);
    spec.ops().take(writer).flat_map(keeps).count()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Source};
    use crate::families::common::Common;
    use crate::spec::{Act, Attention};
    use serde_json::json;

    #[test]
    fn shared_pages_are_their_writers() {
        let json = json!({
            "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 6, "vocab_size": 9,
            "intermediate_size": 8,
        });
        let c = Common::read(&Config::new(json, Source::HuggingFace)).unwrap();
        let from = [None, Some(0), None, Some(2), None, Some(0)];
        let attentions = from.map(|kv_from| Attention { kv_from, ..c.attention() });
        let spec = c.decoder(attentions.into_iter(), &c.plain(Act::Silu, false));
        let pools: Vec<usize> = (0..6).map(|i| pool(&spec, 2 * i)).collect();
        assert_eq!(pools, [0, 0, 1, 1, 2, 0]);
        assert_eq!(kept(&spec).count(), 3);
    }
}
