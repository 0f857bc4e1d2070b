//! Kimi Linear: Kimi delta attention, and latent attention without positions in every fourth layer;
//! many small experts. Kimi Team 2025, arXiv:2510.26692.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::{EXPERTS, after_dense, by_sigmoid};
use super::common::latent::{GGUF_LATENT, LATENT, latent_heads};
use super::common::mixers::{attends, by_layer};
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static KIMI_LINEAR: Family = Family {
    name: "kimi_linear",
    hf: &["kimi_linear"],
    gguf: &["kimi-linear"],
    spec,
    names: &[NAMES, LATENT, EXPERTS, DECODER],
    gguf_names: &[GGUF, GGUF_LATENT],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &read(cfg)?;
    let c = Common::read(cfg)?;
    let head_dim = cfg.size("linear_head_dim")?;
    let heads = cfg.size_or("linear_num_heads", c.heads)?;
    let mixer = DeltaNet {
        k_heads: heads,
        v_heads: heads,
        k_dim: head_dim,
        v_dim: head_dim,
        conv: cfg.size_or(cfg.pick("linear_conv_kernel_dim", "ssm_conv_kernel"), 4)?,
        interleaved: false,
        decay: Decay::PerChannel,
        decay_rank: head_dim,
        beta: 1.0,
        norm: c.rms(),
        gate: Gate::Sigmoid,
        gate_rank: head_dim,
    };
    let latent = Mla { rope: None, ..c.latent(cfg)? };
    let act = cfg.act("hidden_act", Act::Silu)?;
    let moe = c.moe(cfg, act, by_sigmoid(cfg)?)?.and_shared_by(cfg, "n_shared_experts")?;
    let full = cfg.sizes("linear_attn_config.full_attn_layers")?;
    let attends = attends(cfg, c.layers, |i| full.contains(&(i + 1)))?;
    let sparse = after_dense(cfg, c.layers)?;
    let layers = attends.into_iter().zip(sparse).map(|(attends, sparse)| {
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
    Ok(ModelSpec { ropes: Vec::new(), ..c.model(layers) })
}

/// The hub's keys as transformers' class has them.
fn read(cfg: &Config) -> Result<Config, ConfigError> {
    let cfg = by_layer(cfg).with_aliases(&[
        ("linear_attn_config.head_dim", "linear_head_dim"),
        ("linear_attn_config.num_heads", "linear_num_heads"),
        ("linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"),
        ("num_experts_per_token", "num_experts_per_tok"),
        ("num_shared_experts", "n_shared_experts"),
        ("moe_renormalize", "norm_topk_prob"),
        ("num_expert_group", "n_group"),
        ("model_max_length", "max_position_embeddings"),
        ("kda_head_dim", "linear_head_dim"),
    ]);
    let cfg = cfg.with_defaults(json!({
        "linear_head_dim": 128, "first_k_dense_replace": 1, "n_shared_experts": 1,
        "rms_norm_eps": 1e-5, "routed_scaling_factor": 2.446, "n_group": 1, "topk_group": 1,
    }));
    latent_heads(&cfg)
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.self_attn.q_conv1d", "blk.{}.ssm_conv1d_q"),
    To("model.layers.{}.self_attn.k_conv1d", "blk.{}.ssm_conv1d_k"),
    To("model.layers.{}.self_attn.v_conv1d", "blk.{}.ssm_conv1d_v"),
    To("model.layers.{}.self_attn.f_a_proj", "blk.{}.ssm_f_a"),
    To("model.layers.{}.self_attn.f_b_proj", "blk.{}.ssm_f_b"),
    To("model.layers.{}.self_attn.g_a_proj", "blk.{}.ssm_g_a"),
    To("model.layers.{}.self_attn.g_b_proj", "blk.{}.ssm_g_b"),
    To("model.layers.{}.self_attn.b_proj", "blk.{}.ssm_beta"),
    To("model.layers.{}.self_attn.o_norm", "blk.{}.ssm_norm"),
    To("model.layers.{}.self_attn.o_proj", "blk.{}.ssm_out"),
    To("model.layers.{}.self_attn.dt_bias", "blk.{}.ssm_dt.bias"),
    NegExp("model.layers.{}.self_attn.A_log", "blk.{}.ssm_a"),
    To("model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.block_sparse_moe.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w1", "blk.{}.ffn_gate_exps"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w3", "blk.{}.ffn_up_exps"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w2", "blk.{}.ffn_down_exps"),
    To("model.layers.{}.block_sparse_moe.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp"),
    To("model.layers.{}.block_sparse_moe.shared_experts.up_proj", "blk.{}.ffn_up_shexp"),
    To("model.layers.{}.block_sparse_moe.shared_experts.down_proj", "blk.{}.ffn_down_shexp"),
];

const GGUF: &[Rename] = &[To("blk.{}.attn_output", "blk.{}.ssm_out")];
