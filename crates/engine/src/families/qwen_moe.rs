//! Qwen 2 and 3 with experts, and Mellum 2, which is Qwen 3 with local layers.
//! Yang et al. 2024, arXiv:2407.10671; 2025, arXiv:2505.09388.
use super::Family;
use super::common::experts::{EXPERTS, SHARED_EXPERT, by_softmax, dense_layers, sparse_layers};
use super::common::names::DECODER;
use super::common::{Common, scaling};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static QWEN2_MOE: Family = Family {
    name: "qwen2_moe",
    hf: &["qwen2_moe"],
    gguf: &["qwen2moe"],
    spec: qwen2_moe,
    names: &[SHARED_EXPERT, EXPERTS, DECODER],
    gguf_names: &[],
};
pub static QWEN3_MOE: Family = Family {
    name: "qwen3_moe",
    hf: &["qwen3_moe"],
    gguf: &["qwen3moe"],
    spec: qwen3_moe,
    ..QWEN2_MOE
};
pub static MELLUM: Family =
    Family { name: "mellum", hf: &["mellum"], gguf: &[], spec: mellum, ..QWEN2_MOE };

fn qwen2_moe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632, "sliding_window": 4096,
    }));
    let c = Common::read(cfg)?;
    let attention = Attention { qkv_bias: cfg.flag("qkv_bias", true)?, ..c.attention() };
    let moe = c.moe(cfg, act(cfg)?, by_softmax(cfg.flag("norm_topk_prob", false)?))?;
    let mut moe = moe.and_shared(cfg.size("shared_expert_intermediate_size")?);
    moe.shared.iter_mut().for_each(|s| s.sigmoid_gate = true);
    let until = cfg.count_or("max_window_layers", 28)?;
    model(cfg, &c, &attention, &moe, |i| i.is_multiple_of(2) && i < until)
}

fn qwen3_moe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        "num_key_value_heads": 4, "sliding_window": 4096,
    }));
    let c = Common::read(cfg)?;
    let attention = Attention { qk_norm: c.qk_norm(), ..c.biased(cfg)? };
    // GGUF does not say; the released ones all do.
    let renormalise = cfg.flag("norm_topk_prob", cfg.pick(false, true))?;
    let moe = c.moe(cfg, act(cfg)?, by_softmax(renormalise))?;
    model(cfg, &c, &attention, &moe, |_| true)
}

fn act(cfg: &Config) -> Result<Act, ConfigError> {
    cfg.act("hidden_act", Act::Silu)
}

/// Where layers have a window, and their types are not listed, those do that `slides`.
fn model(
    cfg: &Config,
    c: &Common,
    attention: &Attention,
    moe: &Moe,
    slides: impl Fn(usize) -> bool,
) -> Result<ModelSpec, ConfigError> {
    let step = cfg.size_or("decoder_sparse_step", 1)?;
    let dense = dense_layers(cfg, c.layers)?;
    let sparse =
        sparse_layers(cfg, c.layers, |i| (i + 1).is_multiple_of(step) && !dense.contains(&i))?;
    let any = cfg.flag("use_sliding_window", false)?;
    let reaches = cfg.reaches(c.layers, |i| any && slides(i))?;
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    Ok(c.sparse_decoder(attentions, &c.gated(act(cfg)?), moe, &sparse))
}

/// Sliding layers have a rotary table of their own.
fn mellum(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "norm_topk_prob": true, "sliding_window": 1024, "num_experts": 64,
        "moe_intermediate_size": 896, "head_dim": 128,
    }));
    let mut spec = qwen3_moe(cfg)?;
    let full = spec.ropes[0].clone();
    let scaling = scaling(cfg, "rope_local_scaling")?;
    let theta = cfg.positive_or("rope_local_base_freq", full.theta)?;
    spec.ropes.push(Rope { theta, scaling, ..full });
    for op in spec.layers.iter_mut().flatten().flat_map(|b| &mut b.parts).map(|p| &mut p.op) {
        if let Op::Attention(a) = op {
            a.rope = Some(RopeId((a.reach != Reach::All).into()));
        }
    }
    Ok(spec)
}
