//! Latent attention, and mixers with a state of fixed size.
use super::{Keys, Way};
use crate::families::common::yarn_scale;
use crate::spec::{Decay, Mla, Op, Scaling};
use rinfer_formats::gguf::write::Item;

impl Keys<'_> {
    /// As it is computed of cached vectors: one head of these and the elements that rotate.
    pub(super) fn latent(&mut self) {
        let latents = self.by_layer(|op| match op {
            Op::Mla(mla) => Some(mla.clone()),
            _ => None,
        });
        let Some(mla) = latents.iter().flatten().next() else { return };
        self.count("attention.head_count", mla.heads);
        let heads: Vec<usize> = latents.iter().map(|mla| mla.is_some().into()).collect();
        self.counts("attention.head_count_kv", &heads);
        if mla.q_rank > 0 {
            self.count("attention.q_lora_rank", mla.q_rank);
        }
        self.count("attention.kv_lora_rank", mla.kv_rank);
        self.count("attention.key_length", mla.kv_rank + mla.rope_dim);
        self.count("attention.value_length", mla.kv_rank);
        self.count("attention.key_length_mla", mla.nope_dim + mla.rope_dim);
        self.count("attention.value_length_mla", mla.v_dim);
        self.count("rope.dimension_count", mla.rope_dim);
    }

    /// The tenth of what scores of a stretched context are multiplied by, which is in their factor.
    pub(super) fn stretched(&self) -> Option<f32> {
        let find = |op: &Op| match op {
            Op::Mla(mla) => Some(mla.clone()),
            _ => None,
        };
        let mla = self.spec.ops().find_map(find)?;
        let Some(Scaling::Yarn { factor, .. }) = self.spec.ropes.first().map(|r| &r.scaling) else {
            return None;
        };
        let plain = crate::families::common::inverse_root((mla.nope_dim + mla.rope_dim) as f64);
        let by = (f64::from(mla.scale) / f64::from(plain)).sqrt();
        let exact = (by - 1.0) / (0.1 * libm::log(f64::from(*factor)));
        // The number with the fewest digits that gives the factor.
        let gives = |m: f32, mla: &Mla| {
            let by = yarn_scale(*factor, m);
            plain * by * by == mla.scale
        };
        let digits = (0..7).map(|n| 10f64.powi(n));
        let m = digits.map(|by| (exact * by).round() / by).find(|m| gives(*m as f32, &mla))?;
        (m != 0.0).then_some((0.1 * m) as f32)
    }

    pub(super) fn mixers(&mut self, way: Way) {
        let attends: Vec<bool> = self
            .by_layer(|op| matches!(op, Op::Attention(_) | Op::Mla(_)).then_some(()))
            .iter()
            .map(Option::is_some)
            .collect();
        if !attends.contains(&true) {
            self.count("attention.head_count", 0);
        }
        if !way.listed && attends.contains(&false) {
            self.put("attention.recurrent_layers", Item::bools(attends.iter().map(|a| !a)));
            let every = attends.iter().position(|attends| *attends).map_or(0, |first| first + 1);
            self.count("full_attention_interval", every);
        }
        let mixer =
            |op: &&Op| !matches!(op, Op::Attention(_) | Op::Mla(_) | Op::Mlp(_) | Op::Moe(_));
        let Some(op) = self.spec.ops().find(mixer) else { return };
        let [conv, inner, state, rank, groups] =
            ["conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count"]
                .map(|key| format!("ssm.{key}"));
        let sizes = match op {
            Op::Mamba1(m) => {
                let bare = m.norm.is_some_and(|norm| !norm.weight);
                self.flag("ssm.dt_b_c_rms", bare);
                vec![(conv, m.conv), (inner, m.inner), (state, m.state), (rank, m.dt_rank)]
            }
            Op::Mamba2(m) => vec![
                (conv, m.conv),
                (inner, m.inner()),
                (state, m.state),
                (rank, m.heads),
                (groups, m.groups),
            ],
            Op::DeltaNet(n) if n.decay == Decay::PerHead => vec![
                (conv, n.conv),
                (inner, n.v_heads * n.v_dim),
                (state, n.k_dim),
                (rank, n.v_heads),
                (groups, n.k_heads),
            ],
            Op::DeltaNet(n) => vec![(conv, n.conv), ("kda.head_dim".to_owned(), n.k_dim)],
            Op::ShortConv(s) => vec![("shortconv.l_cache".to_owned(), s.width)],
            _ => Vec::new(),
        };
        sizes.into_iter().for_each(|(key, n)| self.count(&key, n));
    }
}
