//! Granite 3 with experts, alone or beside an MLP that every row visits: Llama with multipliers,
//! and softmax over the chosen experts.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::by_softmax;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;

pub static GRANITE_MOE: Family = Family {
    name: "granitemoe",
    hf: &["granitemoe", "granitemoeshared"],
    gguf: &["granitemoe"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = Common::read(cfg)?.permuted(cfg);
    let scale = cfg.positive_or("attention_multiplier", cfg.pick(1.0, c.attention().scale))?;
    let attention = Attention { scale, ..c.biased(cfg)? };
    let router = Router { score: Score::SoftmaxOfTopK, ..by_softmax(false) };
    let moe = c.moe(cfg, cfg.act("hidden_act", Act::Silu)?, router)?;
    let shared = cfg.pick("shared_intermediate_size", "shared_expert_intermediate_size");
    let moe = moe.and_shared(cfg.count_or(shared, 0)?);
    let residual = cfg.float_or("residual_multiplier", 1.0)?;
    let mut spec = c.model((0..c.layers).map(|_| {
        vec![
            Branch::pre(c.rms(), Op::Attention(attention.clone())).scaled(residual),
            Branch::pre(c.rms(), Op::Moe(moe.clone())).scaled(residual),
        ]
    }));
    spec.embed.scale = cfg.float_or("embedding_multiplier", 1.0)?;
    let scale = 1.0 / cfg.positive_or("logits_scaling", 1.0)?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale, softcap: None };
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp"),
    Split(
        "model.layers.{}.block_sparse_moe.input_linear",
        &["blk.{}.ffn_gate_exps", "blk.{}.ffn_up_exps"],
    ),
    To("model.layers.{}.block_sparse_moe.output_linear", "blk.{}.ffn_down_exps"),
    Split(
        "model.layers.{}.shared_mlp.input_linear",
        &["blk.{}.ffn_gate_shexp", "blk.{}.ffn_up_shexp"],
    ),
    To("model.layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp"),
];
