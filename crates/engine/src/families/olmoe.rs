//! OLMoE, and FlexOlmo, which norms after its branches instead of before.
//! Muennighoff et al. 2024, arXiv:2409.02060; Shi et al. 2025, arXiv:2507.07024.
use super::Family;
use super::common::Common;
use super::common::experts::{EXPERTS, by_softmax};
use super::common::names::{DECODER, POST_NORMS};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static OLMOE: Family = Family {
    name: "olmoe",
    hf: &["olmoe"],
    gguf: &["olmoe"],
    spec: olmoe,
    names: &[EXPERTS, DECODER],
    gguf_names: &[],
};
pub static FLEX_OLMO: Family = Family {
    name: "flex_olmo",
    hf: &["flex_olmo"],
    gguf: &[],
    spec: flex_olmo,
    names: &[POST_NORMS, EXPERTS, DECODER],
    gguf_names: &[],
};

fn olmoe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_defaults(json!({"num_experts": 64, "num_experts_per_tok": 8, "rms_norm_eps": 1e-5}));
    let (c, attention, moe) = parts(cfg)?;
    let attentions = (0..c.layers).map(|_| attention.clone());
    Ok(c.sparse_decoder(attentions, &moe.expert, &moe, &vec![true; c.layers]))
}

fn flex_olmo(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "num_experts": 7, "num_experts_per_tok": 5, "rope_theta": 5e5,
    }));
    let (c, attention, moe) = parts(cfg)?;
    Ok(c.model((0..c.layers).map(|_| {
        vec![
            Branch::post(c.rms(), Op::Attention(attention.clone())),
            Branch::post(c.rms(), Op::Moe(moe.clone())),
        ]
    })))
}

fn parts(cfg: &Config) -> Result<(Common, Attention, Moe), ConfigError> {
    let c = Common::read(cfg)?;
    let attention = Attention {
        qk_norm: Some(QkNorm { norm: c.rms(), over: NormOver::Whole, after_rope: false }),
        clip: cfg.optional_positive("clip_qkv")?,
        ..c.biased(cfg)?
    };
    let router = by_softmax(cfg.flag("norm_topk_prob", false)?);
    let moe = c.moe(cfg, cfg.act("hidden_act", Act::Silu)?, router)?;
    Ok((c, attention, moe))
}
