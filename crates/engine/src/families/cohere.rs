//! Command R, R+, R7B and A. Cohere 2025, arXiv:2504.00698. Attention and MLP side by side on one
//! layer norm without a bias, rotated pairs, a tied head, scaled logits; R+ norms each query and key
//! head with weights of its own, the later ones rotate in local layers alone.
use super::Family;
use super::common::names::DECODER;
use super::common::{Common, slides};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static COHERE: Family = Family {
    name: "cohere",
    hf: &["cohere"],
    gguf: &["command-r"],
    spec: cohere,
    names: &[DECODER],
    gguf_names: &[],
};
pub static COHERE2: Family =
    Family { name: "cohere2", hf: &["cohere2"], gguf: &["cohere2"], spec: cohere2, ..COHERE };

fn cohere(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"rope_theta": 5e5, "max_position_embeddings": 8192}));
    let c = read(cfg)?;
    let over = NormOver::EachHead;
    let qk_norm =
        cfg.flag("use_qk_norm", false)?.then_some(QkNorm { norm: c.norm, over, after_rope: false });
    let attention = Attention { qk_norm, ..c.biased(cfg)? };
    model(cfg, &c, vec![attention; c.layers])
}

fn cohere2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let defaults = json!({"max_position_embeddings": 8192, "sliding_window": 4096});
    let cfg = &cfg.with_defaults(defaults);
    cfg.only(&[("order_of_interleaved_layers", json!("local_attn_first"))])?;
    let c = read(cfg)?;
    let attention = c.biased(cfg)?;
    let attentions = cfg.reaches(c.layers, slides(cfg, 4)?)?.into_iter().map(|reach| {
        let rope = attention.rope.filter(|_| reach != Reach::All);
        Attention { reach, rope, ..attention.clone() }
    });
    model(cfg, &c, attentions.collect())
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    let defaults = json!({"tie_word_embeddings": true, "layer_norm_eps": 1e-5});
    let mut c = Common::read(&cfg.with_defaults(defaults))?;
    c.rope.layout = RopeLayout::Pairs;
    c.norm = Norm { bias: false, ..Norm::layer(c.eps) };
    Ok(c)
}

fn model(cfg: &Config, c: &Common, attentions: Vec<Attention>) -> Result<ModelSpec, ConfigError> {
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    let layer = |a| vec![Branch::parallel(c.norm, [Op::Attention(a), Op::Mlp(mlp.clone())])];
    let mut spec = c.model(attentions.into_iter().map(layer));
    let scale = cfg.float_or("logit_scale", 0.0625)?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale, softcap: None };
    Ok(spec)
}
