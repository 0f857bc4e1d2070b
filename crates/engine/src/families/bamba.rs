//! Bamba: Mamba-2, and attention on half of each head in some layers; an MLP in all.
//! Ganti et al. 2024, the Bamba model card.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::mixers::{HYBRID, attends, mamba2};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static BAMBA: Family = Family {
    name: "bamba",
    hf: &["bamba"],
    gguf: &[],
    spec,
    names: &[NAMES, mamba2!("model.layers.{}.mamba.")],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_defaults(json!({"rms_norm_eps": 1e-5, "max_position_embeddings": 262_144}))
        .with(json!({"partial_rotary_factor": 0.5}));
    let c = Common::read(cfg)?;
    let mixer = HYBRID.mamba2(cfg, Some(c.rms()))?;
    let attention = c.biased(cfg)?;
    let mlp = Mlp { bias: cfg.flag("mlp_bias", false)?, ..c.gated(Act::Silu) };
    let indices = cfg.sizes("attn_layer_indices")?;
    let attends = attends(cfg, c.layers, |i| indices.contains(&i))?;
    Ok(c.model(attends.into_iter().map(|attends| {
        let mixer = match attends {
            true => Op::Attention(attention.clone()),
            false => Op::Mamba2(mixer.clone()),
        };
        vec![Branch::pre(c.rms(), mixer), Branch::pre(c.rms(), Op::Mlp(mlp.clone()))]
    })))
}

/// The names of hybrids whose MLP is a feed-forward.
pub const NAMES: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    To("model.final_layernorm", "output_norm"),
    To("lm_head", "output"),
    To("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"),
    To("model.layers.{}.pre_ff_layernorm", "blk.{}.ffn_norm"),
    To("model.layers.{}.feed_forward.gate_proj", "blk.{}.ffn_gate"),
    To("model.layers.{}.feed_forward.up_proj", "blk.{}.ffn_up"),
    To("model.layers.{}.feed_forward.down_proj", "blk.{}.ffn_down"),
];
