//! Rotary tables: keys, or the divisors of frequencies.
use super::{Keys, Made};
use crate::spec::{Op, Rope, Scaling};
use rinfer_formats::gguf::write::Item;

/// What stands for no rotation at all.
const STILL: f32 = 1e30;

impl Keys<'_> {
    pub(super) fn ropes(&mut self) -> Made {
        let all = self.attentions();
        let turns = all.iter().any(|a| a.rope.is_some());
        if let Some(first) = all.first().filter(|_| !turns) {
            self.flag("rope.scaling.finetuned", false);
            if self.spec.ropes.is_empty() {
                self.count("rope.dimension_count", first.head_dim);
            }
        }
        let [rope, more @ ..] = &self.spec.ropes[..] else { return Vec::new() };
        self.float("rope.freq_base", rope.theta);
        if !self.spec.ops().any(|op| matches!(op, Op::Mla(_))) {
            self.count("rope.dimension_count", rope.dim);
        }
        if let Some(local) = more.first() {
            if local.theta != rope.theta {
                self.float("rope.freq_base_swa", local.theta);
            }
            if local.dim != rope.dim {
                self.count("rope.dimension_count_swa", local.dim);
            }
        }
        self.scaling(rope)
    }

    fn scaling(&mut self, rope: &Rope) -> Made {
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
                let stretched = self.stretched();
                if let Some(log) = stretched {
                    self.float("rope.scaling.yarn_log_multiplier", log);
                }
                // Beside that factor there is none of the table's own.
                let own = match stretched {
                    Some(_) => 1.0,
                    None => 0.1 * libm::logf(factor.max(1.0)) + 1.0,
                };
                if (attention - own).abs() > 1e-6 {
                    self.float("rope.scaling.yarn_attn_factor", *attention);
                }
            }
            Scaling::Llama3 { factor, low, high, original } => {
                let plain = Rope { scaling: Scaling::None, ..rope.clone() }.frequencies();
                let by = |f: &f32| divisor(*f, *factor, *low, *high, *original as f32);
                return vec![("rope_freqs.weight".to_owned(), plain.iter().map(by).collect())];
            }
            Scaling::Factors(by) => return vec![("rope_freqs.weight".to_owned(), by.clone())],
            Scaling::Proportional { .. } => {
                let plain = Rope { scaling: Scaling::None, ..rope.clone() }.frequencies();
                let by = |(plain, f): (&f32, f32)| if f == 0.0 { STILL } else { plain / f };
                let by = plain.iter().zip(rope.frequencies()).map(by);
                return vec![("rope_freqs.weight".to_owned(), by.collect())];
            }
            Scaling::LongRope { short, long, original } => {
                self.count("rope.scaling.original_context_length", *original);
                self.float("rope.scaling.attn_factor", short.attention);
                return vec![
                    ("rope_factors_long.weight".to_owned(), long.factors.clone()),
                    ("rope_factors_short.weight".to_owned(), short.factors.clone()),
                ];
            }
            Scaling::None => {}
        }
        Vec::new()
    }
}

/// What Llama 3's scaling divides a frequency by, in the steps of llama.cpp's converter.
fn divisor(frequency: f32, factor: f32, low: f32, high: f32, original: f32) -> f32 {
    let length = std::f32::consts::TAU / frequency;
    if length < original / high {
        return 1.0;
    }
    if length > original / low {
        return factor;
    }
    let smooth = (original / length - low) / (high - low);
    1.0 / ((1.0 - smooth) / factor + smooth)
}
