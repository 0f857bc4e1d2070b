//! Feed-forward networks, mixtures of them, and a token's inputs to layers.
use super::Keys;
use crate::spec::{Groups, Mlp, Moe, Op, Renormalise, Score};
use rinfer_formats::gguf::write::Item;

impl Keys<'_> {
    pub(super) fn feed_forward(&mut self, width: Option<usize>) {
        let widths = self.by_layer(|op| match op {
            Op::Mlp(mlp) => Some((mlp.d_ff, true)),
            _ => None,
        });
        let mixed = self.by_layer(|op| match op {
            Op::Moe(moe) => Some((moe.expert.d_ff, false)),
            _ => None,
        });
        let all: Vec<_> = widths.iter().zip(&mixed).map(|(mlp, moe)| mlp.or(*moe)).collect();
        let mlps: Vec<usize> = widths.iter().flatten().map(|mlp| mlp.0).collect();
        if all.iter().all(Option::is_none) {
            return self.count("feed_forward_length", 0);
        }
        if all.iter().any(Option::is_none) {
            let each: Vec<usize> =
                all.iter().map(|one| one.map_or(0, |(width, _)| width)).collect();
            return self.counts("feed_forward_length", &each);
        }
        let experts = mixed.iter().flatten().next().map(|moe| moe.0);
        match (mlps.is_empty(), mlps.len() == all.len()) {
            (_, true) => self.counts("feed_forward_length", &mlps),
            (false, _) => self.count("feed_forward_length", mlps[0]),
            _ => self.count("feed_forward_length", width.or(experts).unwrap_or(0)),
        }
    }

    pub(super) fn experts(&mut self) {
        let mixed = self.by_layer(|op| match op {
            Op::Moe(moe) => Some(moe.clone()),
            _ => None,
        });
        let Some(moe) = mixed.iter().flatten().next() else { return };
        self.count("expert_count", moe.experts);
        self.count("expert_used_count", moe.top_k);
        self.count("expert_feed_forward_length", moe.expert.d_ff);
        let leading = mixed.iter().take_while(|moe| moe.is_none()).count();
        self.count("leading_dense_block_count", leading);
        let mut sparse = mixed.iter().enumerate().filter(|(_, moe)| moe.is_some());
        let [first, second] = [sparse.next(), sparse.next()].map(|found| found.map(|(i, _)| i));
        let step = first.zip(second).map_or(1, |(first, second)| second - first);
        self.count("interleave_moe_layer_step", step);
        if let Some(shared) = &moe.shared {
            self.count("expert_shared_feed_forward_length", shared.mlp.d_ff);
            self.count("expert_shared_count", shared_count(&shared.mlp, moe));
        }
        self.router(moe);
    }

    fn router(&mut self, moe: &Moe) {
        let router = &moe.router;
        if let Some(groups) = router.groups.filter(Groups::choose) {
            self.count("expert_group_count", groups.count);
            self.count("expert_group_used_count", groups.top);
        }
        let gating = match router.score {
            Score::Softmax => 1,
            Score::Sigmoid => 2,
            Score::SoftmaxOfTopK | Score::Sparsemixer { .. } => 3,
        };
        self.count("expert_gating_func", gating);
        self.flag("expert_weights_norm", router.renormalise != Renormalise::No);
        self.float("expert_weights_scale", router.scale);
    }

    /// What a token gives each layer, further streams, and gates of which little is kept.
    pub(super) fn inputs(&mut self) {
        if let Some(inputs) = self.spec.embed.per_layer {
            self.count("embedding_length_per_layer_input", inputs.width);
        }
        if let Some(altup) = self.spec.altup {
            self.count("altup.active_idx", 0);
            self.count("altup.num_inputs", altup.streams);
        }
        let sparsity = self.by_layer(|op| match op {
            Op::Mlp(Mlp { sparsity, .. }) => *sparsity,
            _ => None,
        });
        if sparsity.iter().any(Option::is_some) || self.spec.altup.is_some() {
            let scale = |one: &Option<f32>| one.unwrap_or(f32::NEG_INFINITY);
            let all: Vec<f32> = sparsity.iter().map(scale).collect();
            self.put("activation_sparsity_scale", Item::f32s(all.into_iter()));
        }
    }
}

/// Of how many experts' width that is which every row visits.
fn shared_count(shared: &Mlp, moe: &Moe) -> usize {
    shared.d_ff.checked_div(moe.expert.d_ff).unwrap_or(1).max(1)
}
