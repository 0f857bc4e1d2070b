//! What a spec is in GGUF's keys. What they can't say is missed when the file is read back.
use crate::spec::{
    Attention, Head, ModelSpec, Moe, NormKind, Op, Renormalise, Rope, Scaling, Score,
};
use rinfer_formats::gguf::write::Item;

/// Tensors that are hyper-parameters to us.
pub(super) type Made = Vec<(String, Vec<f32>)>;

/// The keys of `architecture`, and tensors that go with them; an MLP's `width` is stated also where no
/// layer has one.
pub(super) fn of(
    architecture: &str,
    spec: &ModelSpec,
    width: Option<usize>,
) -> (Vec<(String, Item)>, Made) {
    let mut keys = Keys { architecture, all: Vec::new() };
    keys.count("block_count", spec.layers.len());
    keys.count("context_length", spec.context);
    keys.count("embedding_length", spec.d_model);
    keys.count("vocab_size", spec.vocab);
    if let Some(norm) = &spec.final_norm {
        let key = if norm.kind == NormKind::Layer { "layer_norm" } else { "layer_norm_rms" };
        keys.float(&format!("attention.{key}_epsilon"), norm.eps);
    }
    let parts = || spec.layers.iter().flatten().flat_map(|branch| &branch.parts);
    let attentions: Vec<&Attention> = parts()
        .filter_map(|part| if let Op::Attention(a) = &part.op { Some(a) } else { None })
        .collect();
    keys.attention(&attentions);
    let mlp = parts().find_map(|part| if let Op::Mlp(m) = &part.op { Some(m) } else { None });
    let moe = parts().find_map(|part| if let Op::Moe(m) = &part.op { Some(m) } else { None });
    keys.feed_forward(mlp.map(|m| m.d_ff).or(width), moe, spec);
    let made = spec.ropes.first().map_or_else(Vec::new, |rope| keys.rope(rope));
    if let Head::Lm { softcap: Some(cap), .. } = spec.head {
        keys.float("final_logit_softcapping", cap);
    }
    (keys.all, made)
}

struct Keys<'a> {
    architecture: &'a str,
    all: Vec<(String, Item)>,
}

impl Keys<'_> {
    fn put(&mut self, key: &str, item: Item) {
        self.all.push((format!("{}.{key}", self.architecture), item));
    }
    fn count(&mut self, key: &str, n: usize) {
        self.put(key, Item::u32(n as u32));
    }
    fn float(&mut self, key: &str, x: f32) {
        self.put(key, Item::f32(x));
    }

    fn attention(&mut self, all: &[&Attention]) {
        let Some(first) = all.first() else { return };
        self.count("attention.head_count", first.heads);
        self.count("attention.head_count_kv", first.kv_heads);
        self.count("attention.key_length", first.head_dim);
        self.count("attention.value_length", first.head_dim);
        if let Some(cap) = first.softcap {
            self.float("attn_logit_softcapping", cap);
        }
    }

    fn feed_forward(&mut self, width: Option<usize>, moe: Option<&Moe>, spec: &ModelSpec) {
        if let Some(width) = width.or(moe.map(|m| m.expert.d_ff)) {
            self.count("feed_forward_length", width);
        }
        let Some(moe) = moe else { return };
        self.count("expert_count", moe.experts);
        self.count("expert_used_count", moe.top_k);
        self.count("expert_feed_forward_length", moe.expert.d_ff);
        let dense = |layer: &crate::spec::Layer| {
            layer.iter().flat_map(|b| &b.parts).any(|part| matches!(part.op, Op::Mlp(_)))
        };
        let leading = spec.layers.iter().take_while(|layer| dense(layer)).count();
        self.count("leading_dense_block_count", leading);
        if let Some(shared) = &moe.shared {
            self.count("expert_shared_feed_forward_length", shared.mlp.d_ff);
            if let Some(count) = shared.mlp.d_ff.checked_div(moe.expert.d_ff) {
                self.count("expert_shared_count", count.max(1));
            }
        }
        let gating = match moe.router.score {
            Score::Softmax => 1,
            Score::Sigmoid => 2,
            Score::SoftmaxOfTopK | Score::Sparsemixer { .. } => 3,
        };
        self.count("expert_gating_func", gating);
        self.put("expert_weights_norm", Item::bool(moe.router.renormalise != Renormalise::No));
        self.float("expert_weights_scale", moe.router.scale);
    }

    fn rope(&mut self, rope: &Rope) -> Made {
        self.float("rope.freq_base", rope.theta);
        self.count("rope.dimension_count", rope.dim);
        match &rope.scaling {
            Scaling::Linear { factor } => {
                self.put("rope.scaling.type", Item::str("linear"));
                self.float("rope.scaling.factor", *factor);
            }
            Scaling::Yarn { factor, original, beta_fast, beta_slow, attention, .. } => {
                self.put("rope.scaling.type", Item::str("yarn"));
                self.float("rope.scaling.factor", *factor);
                self.count("rope.scaling.original_context_length", *original);
                self.float("rope.scaling.yarn_beta_fast", *beta_fast);
                self.float("rope.scaling.yarn_beta_slow", *beta_slow);
                let own = 0.1 * libm::logf(factor.max(1.0)) + 1.0;
                if (attention - own).abs() > 1e-6 {
                    self.float("rope.scaling.yarn_attn_factor", *attention);
                }
            }
            Scaling::Llama3 { .. } | Scaling::Factors(_) => {
                let plain = Rope { scaling: Scaling::None, ..rope.clone() }.frequencies();
                let by = plain.iter().zip(rope.frequencies()).map(|(plain, f)| plain / f);
                return vec![("rope_freqs.weight".to_owned(), by.collect())];
            }
            Scaling::None | Scaling::LongRope { .. } | Scaling::Proportional { .. } => {}
        }
        Vec::new()
    }
}
