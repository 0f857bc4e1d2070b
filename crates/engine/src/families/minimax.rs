//! MiniMax-Text-01: linear attention with fixed decays, softmax attention in some layers, experts in
//! all; what joins the stream is weighed against the normed input. MiniMax 2025, arXiv:2501.08313.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::by_softmax;
use super::common::mixers::attends;
use super::common::names::DECODER;
use super::{Cut, Per};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static MINIMAX: Family = Family {
    name: "minimax",
    hf: &["minimax"],
    gguf: &[],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_local_experts": 8, "num_experts_per_tok": 2,
        "max_position_embeddings": 4096 * 32,
    }));
    let c = Common::read(cfg)?;
    let act = cfg.act("hidden_act", Act::Silu)?;
    let moe = Op::Moe(c.moe(cfg, act, by_softmax(true))?);
    let attention = c.biased(cfg)?;
    let lightning = |i: usize| Lightning {
        heads: c.heads,
        head_dim: c.head_dim,
        slopes: slopes(c.heads, i, c.layers),
        act,
        norm: Norm::rms(1e-6),
    };
    let joins = |kind: &str, op| -> Result<Branch, ConfigError> {
        let by = |key: &str| cfg.float_or(&format!("{kind}_{key}_factor"), 1.0);
        let skip = Skip::Input(by("alpha")?);
        Ok(Branch { skip, ..Branch::pre(c.rms(), op).scaled(by("beta")?) })
    };
    let layers =
        attends(cfg, c.layers, |i| i % 2 == 0)?.into_iter().enumerate().map(|(i, full)| {
            let mixer = match full {
                true => joins("full_attn", Op::Attention(attention.clone())),
                false => joins("linear_attn", Op::Lightning(lightning(i))),
            };
            Ok(vec![mixer?, joins("mlp", moe.clone())?])
        });
    let layers: Vec<Layer> = layers.collect::<Result<_, _>>()?;
    Ok(c.model(layers.into_iter()))
}

/// The logarithms of layer `i`'s decays, negated: powers as ALiBi's, less in later layers.
fn slopes(heads: usize, i: usize, layers: usize) -> Vec<f32> {
    let base = 1.0 / libm::powf(2.0, 8.0 / heads as f32);
    let later = 1.0 - i as f32 / ((layers - 1) as f32 + 1e-5) + 1e-5;
    (1..=heads).map(|h| libm::powf(base, h as f32) * later).collect()
}

const NAMES: &[Rename] = &[
    Cut(
        "model.layers.{}.self_attn.qkv_proj",
        Cut::Heads(Per::Head),
        &["blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v"],
    ),
    To("model.layers.{}.self_attn.norm", "blk.{}.attn_sub_norm"),
    To("model.layers.{}.self_attn.output_gate", "blk.{}.attn_gate"),
    To("model.layers.{}.self_attn.out_proj", "blk.{}.attn_output"),
    // What the slopes make of the block size.
    Ignore("model.layers.{}.self_attn.slope_rate"),
    Ignore("model.layers.{}.self_attn.query_decay"),
    Ignore("model.layers.{}.self_attn.key_decay"),
    Ignore("model.layers.{}.self_attn.diagonal_decay"),
    To("model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w1", "blk.{}.ffn_gate_exps"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w3", "blk.{}.ffn_up_exps"),
    Stack("model.layers.{}.block_sparse_moe.experts.{e}.w2", "blk.{}.ffn_down_exps"),
];
