//! Hunyuan, dense and with experts. Tencent 2024, arXiv:2411.02265. Llama with norms of query and key heads after
//! their rotation, whose base grows with a scaling's `alpha` once and for all.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::{EXPERTS, by_softmax};
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static HUNYUAN: Family = Family {
    name: "hunyuan",
    hf: &["hunyuan_v1_dense"],
    gguf: &["hunyuan-dense"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

pub static HUNYUAN_MOE: Family = Family {
    name: "hunyuan_moe",
    hf: &["hunyuan_v1_moe"],
    gguf: &[],
    spec: moe,
    names: &[NAMES, EXPERTS, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = read(cfg)?;
    let attention = attention(cfg, &c)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    Ok(c.decoder(std::iter::repeat_n(attention, c.layers), &mlp))
}

fn moe(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = read(cfg)?;
    let attention = attention(cfg, &c)?;
    let moe = c.moe(cfg, cfg.act("hidden_act", Act::Silu)?, by_softmax(true))?;
    let beside = cfg.flag("use_mixed_mlp_moe", true)?;
    let cfg = &cfg.with_defaults(json!({"num_shared_expert": 1}));
    let shared = if beside { cfg.same_size("num_shared_expert")? } else { 0 };
    let moe = moe.and_shared(shared * c.d_ff);
    let attentions = std::iter::repeat_n(attention, c.layers);
    Ok(c.sparse_decoder(attentions, &moe.expert, &moe, &vec![true; c.layers]))
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    cfg.only(&[("use_cla", json!(false))])?;
    let mut c = Common::read(&cfg.with_defaults(json!({"rms_norm_eps": 1e-5})))?;
    if let Some(alpha) = cfg.optional_positive("rope_scaling.alpha")? {
        let dim = c.rope.dim as f64;
        let grown = libm::pow(alpha.into(), dim / (dim - 2.0));
        c.rope.theta = (f64::from(c.rope.theta) * grown) as f32;
    }
    Ok(c)
}

fn attention(cfg: &Config, c: &Common) -> Result<Attention, ConfigError> {
    let normed = cfg.flag("use_qk_norm", true)?;
    let qk_norm = c.qk_norm().filter(|_| normed).map(|n| QkNorm { after_rope: true, ..n });
    Ok(Attention { qk_norm, ..c.biased(cfg)? })
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm"),
    To("model.layers.{}.mlp.gate.wg", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.mlp.shared_mlp.gate_proj", "blk.{}.ffn_gate_shexp"),
    To("model.layers.{}.mlp.shared_mlp.up_proj", "blk.{}.ffn_up_shexp"),
    To("model.layers.{}.mlp.shared_mlp.down_proj", "blk.{}.ffn_down_shexp"),
];
