//! Phi-3.5 with experts: layer norms and biases everywhere, two experts by SparseMixer.
//! Abdin et al. 2024, arXiv:2404.14219.
use super::Family;
use super::common::Common;
use super::common::experts::by_softmax;
use super::common::names::DECODER;
use super::mixtral::EXPERTS;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static PHIMOE: Family = Family {
    name: "phimoe",
    hf: &["phimoe"],
    gguf: &[],
    spec,
    names: &[EXPERTS, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "num_local_experts": 16, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
        "num_key_value_heads": 8,
    }));
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    // transformers takes the short factors for long sequences too: only the magnitude changes.
    if let Scaling::LongRope { short, long, .. } = &mut c.rope.scaling {
        long.factors.clone_from(&short.factors);
    }
    let jitter = cfg.float_or("router_jitter_noise", 0.01)?;
    let router = Router { score: Score::Sparsemixer { jitter }, ..by_softmax(false) };
    let moe = c.moe(cfg, cfg.act("hidden_act", Act::Silu)?, router)?;
    let attention = c.biased(cfg)?;
    let reaches = cfg.reaches(c.layers, |_| true)?;
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    let mut spec = c.sparse_decoder(attentions, &moe.expert, &moe, &vec![true; c.layers]);
    let bias = cfg.flag("lm_head_bias", false)?;
    spec.head = Head::Lm { tied: c.tied, bias, scale: 1.0, softcap: None };
    Ok(spec)
}
