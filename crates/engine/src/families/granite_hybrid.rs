//! Granite 4 hybrids: Mamba-2, and attention in some layers, with Granite's multipliers.
//! IBM Research 2025, the Granite 4.0 model cards.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::by_softmax;
use super::common::mixers::{HYBRID, MAMBA2_GGUF, attends, by_layer, mamba2};
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;

pub static GRANITE_HYBRID: Family = Family {
    name: "granite_hybrid",
    hf: &["granitemoehybrid"],
    gguf: &["granitehybrid"],
    spec,
    names: &[NAMES, mamba2!("model.layers.{}.mamba."), DECODER],
    gguf_names: &[MAMBA2_GGUF],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &by_layer(cfg);
    let c = Common::read(cfg)?.permuted(cfg);
    let mixer = HYBRID.mamba2(cfg, Some(c.rms()))?;
    let told = cfg.text("position_embedding_type")? == Some("rope");
    let rotates = cfg.pick(told, cfg.flag("rope_finetuned", true)?);
    let attention = Attention {
        scale: cfg.positive_or("attention_multiplier", cfg.pick(1.0, c.attention().scale))?,
        rope: rotates.then_some(RopeId(0)),
        ..c.biased(cfg)?
    };
    let act = cfg.act("hidden_act", Act::Silu)?;
    let shared = cfg.pick("shared_intermediate_size", "shared_expert_intermediate_size");
    let shared = cfg.size_or(shared, cfg.pick(1024, c.d_ff))?;
    let then = match cfg.count_or("num_local_experts", cfg.pick(8, 0))? {
        0 => Op::Mlp(Mlp { d_ff: shared, ..c.gated(act) }),
        _ => {
            let router = Router { score: Score::SoftmaxOfTopK, ..by_softmax(false) };
            Op::Moe(c.moe(cfg, act, router)?.and_shared(shared))
        }
    };
    let residual = cfg.positive_or("residual_multiplier", 1.0)?;
    let attends = attends(cfg, c.layers, |_| false)?;
    let mut spec = c.model(attends.into_iter().map(|attends| {
        let mixer = match attends {
            true => Op::Attention(attention.clone()),
            false => Op::Mamba2(mixer.clone()),
        };
        [mixer, then.clone()].map(|op| Branch::pre(c.rms(), op).scaled(residual)).into()
    }));
    spec.embed.scale = cfg.float_or("embedding_multiplier", 1.0)?;
    let scale = 1.0 / cfg.positive_or("logits_scaling", 1.0)?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale, softcap: None };
    Ok(spec)
}

const NAMES: &[Rename] = &[
    Split("model.layers.{}.shared_mlp.input_linear", &["blk.{}.ffn_gate", "blk.{}.ffn_up"]),
    To("model.layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down"),
    // Beside experts.
    Split(
        "model.layers.{}.shared_mlp.input_linear",
        &["blk.{}.ffn_gate_shexp", "blk.{}.ffn_up_shexp"],
    ),
    To("model.layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp"),
    To("model.layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp"),
    Split(
        "model.layers.{}.block_sparse_moe.input_linear",
        &["blk.{}.ffn_gate_exps", "blk.{}.ffn_up_exps"],
    ),
    To("model.layers.{}.block_sparse_moe.output_linear", "blk.{}.ffn_down_exps"),
];
