//! ERNIE 4.5 with experts, chosen by softmax and a bias. Baidu 2025, ERNIE 4.5 technical report.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::{EXPERTS, by_softmax, sparse_layers};
use super::common::names::{DECODER, GGUF_PREDICTING, PREDICTING};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static ERNIE4_5_MOE: Family = Family {
    name: "ernie4_5_moe",
    hf: &["ernie4_5_moe"],
    gguf: &["ernie4_5-moe"],
    spec,
    names: &[PREDICTING, NAMES, EXPERTS, DECODER],
    gguf_names: &[GGUF_PREDICTING],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "rms_norm_eps": 1e-5, "rope_theta": 5e5, "tie_word_embeddings": true, "moe_num_experts": 64,
        "moe_k": 6, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
        "moe_layer_end_index": -1, "num_key_value_heads": 4, "moe_intermediate_size": 1536,
    }));
    let mut c = Common::read(cfg)?;
    c.rope.layout = RopeLayout::Pairs;
    let bias = cfg.flag("use_bias", false)?;
    let attention = Attention { qkv_bias: bias, out_bias: bias, ..c.attention() };
    let least = cfg.positive_or("moe_norm_min", 1e-12)?;
    let router = Router {
        select_bias: true,
        renormalise: Renormalise::AtLeast { least },
        ..by_softmax(false)
    };
    let act = cfg.act("hidden_act", Act::Silu)?;
    let mut moe = c.moe(cfg, act, router)?;
    moe.expert.bias = bias;
    let moe = moe.and_shared_by(cfg, "moe_num_shared_experts")?;
    let mlp = Mlp { bias, ..c.gated(act) };
    let attentions = (0..c.layers).map(|_| attention.clone());
    Ok(c.sparse_decoder(attentions, &mlp, &moe, &sparse(cfg, c.layers)?))
}

/// Every so many layers between the first and the last that have experts.
fn sparse(cfg: &Config, layers: usize) -> Result<Vec<bool>, ConfigError> {
    let keys = cfg.pick(
        ("moe_layer_start_index", "moe_layer_interval"),
        ("first_k_dense_replace", "interleave_moe_layer_step"),
    );
    let (start, step) = (cfg.count_or(keys.0, 0)?, cfg.size_or(keys.1, 1)?);
    let last = match cfg.get("moe_layer_end_index") {
        None => layers.saturating_sub(1),
        Some(end) if *end == json!(-1) => layers.saturating_sub(1),
        Some(_) => cfg.count_or("moe_layer_end_index", 0)?,
    };
    sparse_layers(cfg, layers, |i| (start..=last).contains(&i) && (i + 1).is_multiple_of(step))
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.mlp.moe_statics.e_score_correction_bias", "blk.{}.exp_probs_b.bias"),
    Ignore("model.mtp_*"),
];
