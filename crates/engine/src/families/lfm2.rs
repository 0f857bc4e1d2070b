//! LFM2: gated short convolutions, and attention in some layers. Liquid AI 2025, arXiv:2511.23404.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::by_softmax;
use super::common::mixers::{attends, by_layer};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static LFM2: Family = Family {
    name: "lfm2",
    hf: &["lfm2"],
    gguf: &["lfm2"],
    spec,
    names: &[NAMES],
    gguf_names: &[GGUF],
};

pub static LFM2_MOE: Family = Family {
    name: "lfm2_moe",
    hf: &["lfm2_moe"],
    gguf: &["lfm2moe"],
    spec: experts,
    names: &[EXPERTS, NAMES],
    gguf_names: &[GGUF],
};

/// Experts in all layers but the first few.
fn experts(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = read(cfg)?.with_defaults(json!({"num_dense_layers": 2, "num_experts_per_tok": 4,
        "num_experts": 32, "moe_intermediate_size": 1792}));
    let c = Common::read(&cfg)?;
    let normed = cfg.flag("norm_topk_prob", true)?;
    let router = Router {
        score: Score::Sigmoid,
        renormalise: if normed { Renormalise::Sum { plus: 1e-6 } } else { Renormalise::No },
        scale: cfg.float_or("routed_scaling_factor", 1.0)?,
        select_bias: cfg.flag("use_expert_bias", true)?,
        ..by_softmax(false)
    };
    let (mlp, moe) = (c.gated(Act::Silu), c.moe(&cfg, Act::Silu, router)?);
    let dense = cfg.count_or(cfg.pick("num_dense_layers", "first_k_dense_replace"), 0)?;
    layers(&cfg, &c, |i| match i < dense {
        true => Op::Mlp(mlp.clone()),
        false => Op::Moe(moe.clone()),
    })
}

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = read(cfg)?;
    let c = Common::read(&cfg)?;
    let mlp = Mlp { d_ff: d_ff(&cfg, &c)?, ..c.gated(Act::Silu) };
    layers(&cfg, &c, |_| Op::Mlp(mlp.clone()))
}

/// What the class calls otherwise, and its defaults.
fn read(cfg: &Config) -> Result<Config, ConfigError> {
    // The class has no other, and reads no key for it.
    cfg.only_silu("hidden_act")?;
    let cfg = by_layer(cfg).with_defaults(json!({
        "norm_eps": 1e-5, "rope_theta": 1e6, "tie_embedding": true, "max_position_embeddings": 128_000,
    }));
    Ok(cfg.with_aliases(&[
        ("block_ff_dim", "intermediate_size"),
        ("norm_eps", "rms_norm_eps"),
        ("tie_embedding", "tie_word_embeddings"),
    ]))
}

/// The width that the class makes of the configured one; GGUF says the result.
fn d_ff(cfg: &Config, c: &Common) -> Result<usize, ConfigError> {
    if !cfg.flag("block_auto_adjust_ff_dim", cfg.pick(true, false))? {
        return Ok(c.d_ff);
    }
    let of = cfg.size_or("block_multiple_of", 256)?;
    let key = "block_ffn_dim_multiplier";
    let width = f64::from(cfg.positive_or(key, 1.0)?) * (2 * c.d_ff / 3) as f64;
    if width > f64::from(1 << 24) {
        return Err(cfg.refuse(key, "what makes a width of at most 16777216"));
    }
    Ok((width as usize).next_multiple_of(of))
}

/// Each layer's mixer, and what `then` follows it.
fn layers(cfg: &Config, c: &Common, then: impl Fn(usize) -> Op) -> Result<ModelSpec, ConfigError> {
    let conv =
        ShortConv { width: cfg.size_or("conv_L_cache", 3)?, bias: cfg.flag("conv_bias", false)? };
    let attention = Attention { qk_norm: c.qk_norm(), ..c.attention() };
    let indices = cfg.sizes("full_attn_idxs")?;
    let all = cfg.get("full_attn_idxs").is_none();
    let attends = attends(cfg, c.layers, |i| all || indices.contains(&i))?;
    Ok(c.model(attends.into_iter().enumerate().map(|(i, attends)| {
        let mixer = match attends {
            true => Op::Attention(attention.clone()),
            false => Op::ShortConv(conv.clone()),
        };
        vec![Branch::pre(c.rms(), mixer), Branch::pre(c.rms(), then(i))]
    })))
}

const NAMES: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    To("model.embedding_norm", "output_norm"),
    To("lm_head", "output"),
    To("model.layers.{}.operator_norm", "blk.{}.attn_norm"),
    Split(
        "model.layers.{}.conv.in_proj",
        &["blk.{}.shortconv.in_b", "blk.{}.shortconv.in_c", "blk.{}.shortconv.in_x"],
    ),
    To("model.layers.{}.conv.conv", "blk.{}.shortconv.conv"),
    To("model.layers.{}.conv.out_proj", "blk.{}.shortconv.out_proj"),
    To("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm"),
    To("model.layers.{}.self_attn.out_proj", "blk.{}.attn_output"),
    To("model.layers.{}.ffn_norm", "blk.{}.ffn_norm"),
    To("model.layers.{}.feed_forward.w1", "blk.{}.ffn_gate"),
    To("model.layers.{}.feed_forward.w3", "blk.{}.ffn_up"),
    To("model.layers.{}.feed_forward.w2", "blk.{}.ffn_down"),
];

const EXPERTS: &[Rename] = &[
    To("model.layers.{}.feed_forward.gate", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.feed_forward.expert_bias", "blk.{}.exp_probs_b.bias"),
    Stack("model.layers.{}.feed_forward.experts.{e}.w1", "blk.{}.ffn_gate_exps"),
    Stack("model.layers.{}.feed_forward.experts.{e}.w3", "blk.{}.ffn_up_exps"),
    Stack("model.layers.{}.feed_forward.experts.{e}.w2", "blk.{}.ffn_down_exps"),
];

const GGUF: &[Rename] = &[
    To("token_embd_norm", "output_norm"),
    Split(
        "blk.{}.shortconv.in_proj",
        &["blk.{}.shortconv.in_b", "blk.{}.shortconv.in_c", "blk.{}.shortconv.in_x"],
    ),
];
