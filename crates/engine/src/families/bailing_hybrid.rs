//! Ling 3: delta attention with a bounded decay, and latent attention gated by head in every few
//! layers; many small experts in groups. Ling Team 2025, arXiv:2510.22115.
use super::Cut;
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::{EXPERTS, after_dense, by_sigmoid};
use super::common::latent::latent_heads;
use super::common::mixers::attends;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static BAILING_HYBRID: Family = Family {
    name: "bailing_hybrid",
    hf: &["bailing_hybrid"],
    gguf: &[],
    spec,
    names: &[NAMES, EXPERTS, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_aliases(&[
            ("num_shared_experts", "n_shared_experts"),
            ("num_experts", "num_local_experts"),
            ("num_experts_per_token", "num_experts_per_tok"),
            ("num_expert_group", "n_group"),
            ("moe_renormalize", "norm_topk_prob"),
            ("linear_conv_kernel_dim", "short_conv_kernel_size"),
            ("model_max_length", "max_position_embeddings"),
        ])
        .with_defaults(json!({
            "head_dim": 128, "layer_group_size": 6, "kda_lower_bound": -5.0, "rope_theta": 6e6,
            "first_k_dense_replace": 2, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
            "n_shared_experts": 1,
        }));
    // transformers 5 gives the other key to what rotates of latent heads.
    let head_dim = cfg.size_or("linear_head_dim", cfg.size("head_dim")?)?;
    let cfg = &latent_heads(cfg)?;
    let c = Common::read(cfg)?;
    let bound = cfg.float("kda_lower_bound")?;
    if bound >= 0.0 || !cfg.flag("kda_safe_gate", true)? {
        return Err(cfg.refuse("kda_lower_bound", "a number below zero, with kda_safe_gate"));
    }
    let mixer = DeltaNet {
        k_heads: c.heads,
        v_heads: c.heads,
        k_dim: head_dim,
        v_dim: head_dim,
        conv: cfg.size_or("short_conv_kernel_size", 4)?,
        interleaved: false,
        decay: Decay::PerChannelBounded { bound },
        decay_rank: 0,
        beta: 1.0,
        norm: c.rms(),
        gate: Gate::Sigmoid,
        gate_rank: 0,
    };
    let latent = Mla { out_gate: Some(OutGate::PerHead), ..c.latent(cfg)? };
    let act = cfg.act("hidden_act", Act::Silu)?;
    let moe = c.moe(cfg, act, by_sigmoid(cfg)?)?.and_shared_by(cfg, "n_shared_experts")?;
    let every = cfg.size("layer_group_size")?;
    let attends = attends(cfg, c.layers, |i| (i + 1).is_multiple_of(every))?;
    let layers = attends.into_iter().zip(after_dense(cfg, c.layers)?).map(|(attends, sparse)| {
        let mixer = match attends {
            true => Op::Mla(latent.clone()),
            false => Op::DeltaNet(mixer.clone()),
        };
        let then = match sparse {
            true => Op::Moe(moe.clone()),
            false => Op::Mlp(c.gated(act)),
        };
        vec![Branch::pre(c.rms(), mixer), Branch::pre(c.rms(), then)]
    });
    Ok(ModelSpec { ropes: vec![c.latent_rope(cfg)?], ..c.model(layers) })
}

const NAMES: &[Rename] = &[
    To("model.word_embeddings", "token_embd"),
    To("model.layers.{}.attention.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.attention.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.attention.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.attention.q_conv1d", "blk.{}.ssm_conv1d_q"),
    To("model.layers.{}.attention.k_conv1d", "blk.{}.ssm_conv1d_k"),
    To("model.layers.{}.attention.v_conv1d", "blk.{}.ssm_conv1d_v"),
    To("model.layers.{}.attention.f_proj", "blk.{}.ssm_f"),
    To("model.layers.{}.attention.b_proj", "blk.{}.ssm_beta"),
    To("model.layers.{}.attention.g_proj", "blk.{}.attn_gate"),
    To("model.layers.{}.attention.o_norm", "blk.{}.ssm_norm"),
    To("model.layers.{}.attention.dt_bias", "blk.{}.ssm_dt.bias"),
    NegExp("model.layers.{}.attention.A_log", "blk.{}.ssm_a"),
    To("model.layers.{}.attention.dense", "blk.{}.ssm_out"),
    To("model.layers.{}.attention.dense", "blk.{}.attn_output"),
    To("model.layers.{}.attention.q_a_proj", "blk.{}.attn_q_a"),
    To("model.layers.{}.attention.q_a_layernorm", "blk.{}.attn_q_a_norm"),
    To("model.layers.{}.attention.q_b_proj", "blk.{}.attn_q_b"),
    To("model.layers.{}.attention.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa"),
    To("model.layers.{}.attention.kv_a_layernorm", "blk.{}.attn_kv_a_norm"),
    Cut(
        "model.layers.{}.attention.kv_b_proj",
        Cut::KeysValues,
        &["blk.{}.attn_k_b", "blk.{}.attn_v_b"],
    ),
    To("model.layers.{}.mlp.gate.expert_bias", "blk.{}.exp_probs_b.bias"),
];
