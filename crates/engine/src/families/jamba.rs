//! Jamba: Mamba with normed selection, attention without positions in some layers, experts in
//! others. Lieber et al. 2024, arXiv:2403.19887.
use super::Family;
use super::Rename::{self, *};
use super::bamba;
use super::common::Common;
use super::common::experts::{by_softmax, sparse_layers};
use super::common::mixers::{HYBRID, MAMBA1_GGUF, attends, by_layer, mamba1};
use crate::config::{Config, ConfigError};
use crate::spec::*;

pub static JAMBA: Family = Family {
    name: "jamba",
    hf: &["jamba"],
    gguf: &["jamba"],
    spec,
    names: &[NAMES, bamba::NAMES, mamba1!("model.layers.{}.mamba.")],
    gguf_names: &[MAMBA1_GGUF],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &by_layer(cfg);
    let c = Common::read(cfg)?;
    let mixer = HYBRID.mamba1(cfg, Some(c.rms()))?;
    let attention = Attention { rope: None, ..c.biased(cfg)? };
    let act = cfg.act("hidden_act", Act::Silu)?;
    let (mlp, moe) = (c.gated(act), c.moe(cfg, act, by_softmax(false))?);
    let every = |kind: &str, period, offset| -> Result<_, ConfigError> {
        let period = cfg.size_or(&format!("{kind}_layer_period"), period)?;
        let offset = cfg.count_or(&format!("{kind}_layer_offset"), offset)?;
        Ok(move |i: usize| i % period == offset)
    };
    let (attends_at, sparse_at) = (every("attn", 8, 4)?, every("expert", 2, 1)?);
    let attends = attends(cfg, c.layers, attends_at)?;
    let sparse = sparse_layers(cfg, c.layers, |i| moe.experts > 1 && sparse_at(i))?;
    let layers = attends.into_iter().enumerate().map(|(i, attends)| {
        let mixer = match attends {
            true => Op::Attention(attention.clone()),
            false => Op::Mamba1(mixer.clone()),
        };
        let then = match sparse[i] {
            true => Op::Moe(moe.clone()),
            false => Op::Mlp(mlp.clone()),
        };
        vec![Branch::pre(c.rms(), mixer), Branch::pre(c.rms(), then)]
    });
    Ok(ModelSpec { ropes: Vec::new(), ..c.model(layers) })
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.feed_forward.router", "blk.{}.ffn_gate_inp"),
    Stack("model.layers.{}.feed_forward.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps"),
    Stack("model.layers.{}.feed_forward.experts.{e}.up_proj", "blk.{}.ffn_up_exps"),
    Stack("model.layers.{}.feed_forward.experts.{e}.down_proj", "blk.{}.ffn_down_exps"),
];
