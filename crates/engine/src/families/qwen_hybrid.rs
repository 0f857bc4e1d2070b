//! Qwen3-Next and Qwen 3.5: three delta nets, then an attention whose output is gated.
//! Qwen Team 2025, the Qwen3-Next model card; Yang et al. 2024, arXiv:2412.06464.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::delta::delta_net;
use super::common::experts::{EXPERTS, SHARED_EXPERT, by_softmax, dense_layers, sparse_layers};
use super::common::mixers::attends;
use super::common::names::DECODER;
use super::{Cut, Per};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static QWEN3_5: Family = Family {
    name: "qwen3.5",
    hf: &["qwen3_5_text"],
    gguf: &["qwen35"],
    spec: qwen3_5,
    names: &[NAMES, DECODER],
    gguf_names: &[GGUF],
};

pub static QWEN3_5_MOE: Family = Family {
    name: "qwen3.5_moe",
    hf: &["qwen3_5_moe_text"],
    gguf: &["qwen35moe"],
    spec: qwen3_5_moe,
    names: &[NAMES, SHARED_EXPERT, EXPERTS, DECODER],
    ..QWEN3_5
};
pub static QWEN3_NEXT: Family = Family {
    name: "qwen3_next",
    hf: &["qwen3_next"],
    gguf: &["qwen3next"],
    spec: qwen3_next,
    ..QWEN3_5_MOE
};

fn qwen3_next(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"head_dim": 256, "partial_rotary_factor": 0.25,
        "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512}));
    experts(cfg, false, cfg.flag("norm_topk_prob", true)?)
}

fn qwen3_5_moe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"head_dim": 256, "partial_rotary_factor": 0.25,
        "max_position_embeddings": 262_144, "num_experts": 256, "num_experts_per_tok": 8,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}));
    experts(cfg, cfg.laid(false, true), true)
}

/// Experts, and one that every row visits and a sigmoid weighs.
fn experts(cfg: &Config, interleaved: bool, normed: bool) -> Result<ModelSpec, ConfigError> {
    // Only the width of MLPs, of which there may be none.
    let c = read(&cfg.with_defaults(json!({"intermediate_size": 1})))?;
    let act = cfg.act("hidden_act", Act::Silu)?;
    let moe = c.moe(cfg, act, by_softmax(normed))?;
    let mut moe = moe.and_shared(cfg.count_or("shared_expert_intermediate_size", 0)?);
    moe.shared.iter_mut().for_each(|s| s.sigmoid_gate = true);
    let step = cfg.size_or("decoder_sparse_step", 1)?;
    let dense = dense_layers(cfg, c.layers)?;
    let sparse =
        sparse_layers(cfg, c.layers, |i| (i + 1).is_multiple_of(step) && !dense.contains(&i))?;
    layers(cfg, &c, interleaved, |i| match sparse[i] {
        true => Op::Moe(moe.clone()),
        false => Op::Mlp(c.gated(act)),
    })
}

fn qwen3_5(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"head_dim": 256, "partial_rotary_factor": 0.25,
        "max_position_embeddings": 262_144}));
    let c = read(cfg)?;
    let mlp = Op::Mlp(c.gated(cfg.act("hidden_act", Act::Silu)?));
    // The converter lays value heads out by turns of their key heads.
    layers(cfg, &c, cfg.laid(false, true), |_| mlp.clone())
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    let mut c = Common::read(cfg)?;
    // Of text, all three positions of a token are the same.
    c.rope.sections.clear();
    Ok(c)
}

/// Each layer's mixer, and what `then` follows it.
fn layers(
    cfg: &Config,
    c: &Common,
    interleaved: bool,
    then: impl Fn(usize) -> Op,
) -> Result<ModelSpec, ConfigError> {
    let mixer = DeltaNet { interleaved, ..delta_net(cfg, c.rms())? };
    let out_gate = cfg.flag("attn_output_gate", true)?.then_some(OutGate::PerChannel);
    let attention = Attention { qk_norm: c.qk_norm(), out_gate, ..c.biased(cfg)? };
    let every = cfg.size_or("full_attention_interval", 4)?;
    let attends = attends(cfg, c.layers, |i| (i + 1).is_multiple_of(every))?;
    Ok(c.model(attends.into_iter().enumerate().map(|(i, attends)| {
        let mixer = match attends {
            true => Op::Attention(attention.clone()),
            false => Op::DeltaNet(mixer.clone()),
        };
        vec![Branch::pre(c.rms(), mixer), Branch::pre(c.rms(), then(i))]
    })))
}

const QKV: &[&str] = &["blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v"];
const CONVS: &[&str] = &["blk.{}.ssm_conv1d_q", "blk.{}.ssm_conv1d_k", "blk.{}.ssm_conv1d_v"];
const GATED: &[&str] = &["blk.{}.attn_q", "blk.{}.attn_gate"];

const NAMES: &[Rename] = &[
    PlusOne("model.norm", "output_norm"),
    PlusOne("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    PlusOne("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    PlusOne("model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"),
    PlusOne("model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"),
    Cut("model.layers.{}.self_attn.q_proj", Cut::Heads(Per::Head), GATED),
    Split("model.layers.{}.linear_attn.in_proj_qkv", QKV),
    To("model.layers.{}.linear_attn.in_proj_z", "blk.{}.attn_gate"),
    To("model.layers.{}.linear_attn.in_proj_a", "blk.{}.ssm_alpha"),
    To("model.layers.{}.linear_attn.in_proj_b", "blk.{}.ssm_beta"),
    Cut(
        "model.layers.{}.linear_attn.in_proj_qkvz",
        Cut::Heads(Per::KeyHead),
        &["blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v", "blk.{}.attn_gate"],
    ),
    Cut(
        "model.layers.{}.linear_attn.in_proj_ba",
        Cut::Heads(Per::KeyHead),
        &["blk.{}.ssm_beta", "blk.{}.ssm_alpha"],
    ),
    Split("model.layers.{}.linear_attn.conv1d", CONVS),
    NegExp("model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a"),
    To("model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"),
    To("model.layers.{}.linear_attn.norm", "blk.{}.ssm_norm"),
    To("model.layers.{}.linear_attn.out_proj", "blk.{}.ssm_out"),
    // What predicts further tokens.
    Ignore("mtp.*"),
];

const GGUF: &[Rename] = &[
    Cut("blk.{}.attn_q", Cut::Heads(Per::Head), GATED),
    Split("blk.{}.attn_qkv", QKV),
    Split("blk.{}.ssm_conv1d", CONVS),
    Cut("blk.{}.ssm_ba", Cut::Heads(Per::KeyHead), &["blk.{}.ssm_beta", "blk.{}.ssm_alpha"]),
    To("blk.{}.post_attention_norm", "blk.{}.ffn_norm"),
];
