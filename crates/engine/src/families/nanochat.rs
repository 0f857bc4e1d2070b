//! nanochat. Karpathy 2025, github.com/karpathy/nanochat. Llama whose norms have no weights, one more
//! of them after the embedding, queries and keys normed after their rotation, which goes the other
//! way round; squared ReLU without a gate, capped logits.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static NANOCHAT: Family = Family {
    name: "nanochat",
    hf: &["nanochat"],
    gguf: &[],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"final_logit_softcapping": 15.0}));
    let mut c = Common::read(cfg)?;
    if c.rope.scaling != Scaling::None {
        return Err(cfg.refuse("rope_scaling", "nothing"));
    }
    c.rope.scaling = Scaling::Linear { factor: -1.0 };
    c.norm.weight = false;
    let norm = c.norm;
    let qk_norm = Some(QkNorm { norm, over: NormOver::Head, after_rope: true });
    let attention = Attention { qk_norm, ..c.biased(cfg)? };
    let mlp = c.plain(cfg.act("hidden_act", Act::Relu2)?, false);
    let layer = vec![Branch::pre(norm, Op::Attention(attention)), Branch::pre(norm, Op::Mlp(mlp))];
    let mut spec = c.model(std::iter::repeat_n(layer, c.layers));
    spec.embed.norm = Some(norm);
    let softcap = cfg.optional_positive("final_logit_softcapping")?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale: 1.0, softcap };
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.mlp.fc1", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp.fc2", "blk.{}.ffn_down"),
];
