//! GLM-4.5, dots.llm1 and K-EXAONE: plain attention with DeepSeek-V3's router and experts.
//! Zeng et al. 2025, arXiv:2508.06471; Huo et al. 2025, arXiv:2506.05767.
use super::Family;
use super::Rename::{self, *};
use super::common::experts::{EXPERTS, after_dense, by_sigmoid};
use super::common::names::{DECODER, GGUF_PREDICTING, PREDICTING};
use super::common::{Common, slides};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GLM4_MOE: Family = Family {
    name: "glm4_moe",
    hf: &["glm4_moe"],
    gguf: &["glm4moe"],
    spec: glm4_moe,
    names: &[PREDICTING, MTP, EXPERTS, DECODER],
    gguf_names: &[GGUF_PREDICTING, GGUF],
};
pub static DOTS1: Family = Family {
    name: "dots1",
    hf: &["dots1"],
    gguf: &["dots1"],
    spec: dots1,
    gguf_names: &[],
    ..GLM4_MOE
};
pub static EXAONE_MOE: Family = Family {
    name: "exaone_moe",
    hf: &["exaone_moe"],
    gguf: &[],
    spec: exaone_moe,
    names: &[EXAONE, PREDICTING, MTP, EXPERTS, DECODER],
    gguf_names: &[],
};

fn glm4_moe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "partial_rotary_factor": 0.5, "first_k_dense_replace": 1, "rms_norm_eps": 1e-5,
        "num_key_value_heads": 8, "n_shared_experts": 1,
    }));
    let mut c = Common::read(cfg)?;
    c.drop_predicting(cfg)?;
    let normed = cfg.flag("use_qk_norm", false)?;
    let qk_norm = c.qk_norm().filter(|_| normed);
    let attention = Attention { qk_norm, out_bias: false, ..c.biased(cfg)? };
    model(cfg, &c, (0..c.layers).map(|_| attention.clone()), "n_shared_experts")
}

fn dots1(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"norm_topk_prob": false, "sliding_window": 4096}));
    let c = Common::read(cfg)?;
    let attention = Attention { qk_norm: c.qk_norm(), ..c.biased(cfg)? };
    let window = cfg.optional_size("sliding_window")?.is_some();
    let first = cfg.count_or("max_window_layers", 62)?;
    let reaches = cfg.reaches(c.layers, |i| window && i >= first)?;
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    model(cfg, &c, attentions, "n_shared_experts")
}

fn exaone_moe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "rms_norm_eps": 1e-5, "sliding_window": 4096, "first_k_dense_replace": 1,
        "moe_intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8,
        "num_shared_experts": 1, "routed_scaling_factor": 2.5,
    }));
    let c = Common::read(cfg)?;
    let attention = Attention { qk_norm: c.qk_norm(), ..c.attention() };
    let reaches = cfg.reaches(c.layers, slides(cfg, 4)?)?;
    let windows = reaches.iter().any(|reach| *reach != Reach::All);
    let attentions = reaches.into_iter().map(|reach| {
        // Beside local layers, those that see everything do not rotate.
        let rope = attention.rope.filter(|_| reach != Reach::All || !windows);
        Attention { reach, rope, ..attention.clone() }
    });
    model(cfg, &c, attentions, "num_shared_experts")
}

fn model(
    cfg: &Config,
    c: &Common,
    attentions: impl Iterator<Item = Attention>,
    shared: &str,
) -> Result<ModelSpec, ConfigError> {
    let act = cfg.act("hidden_act", Act::Silu)?;
    let moe = c.moe(cfg, act, by_sigmoid(cfg)?)?.and_shared_by(cfg, shared)?;
    Ok(c.sparse_decoder(attentions, &c.gated(act), &moe, &after_dense(cfg, c.layers)?))
}

const EXAONE: &[Rename] =
    &[To("model.layers.{}.mlp.e_score_correction_bias", "blk.{}.exp_probs_b.bias")];
/// Layers that predict further tokens.
const MTP: &[Rename] = &[Ignore("mtp.*")];
const GGUF: &[Rename] = &[To("blk.{}.post_attention_norm", "blk.{}.ffn_norm")];
