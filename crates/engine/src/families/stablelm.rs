//! StableLM. Bellagente et al. 2024, arXiv:2402.17834. Llama with layer norms and a rotation of a
//! part of each head; the largest has attention and MLP side by side, and norms each query and key
//! head with weights of its own.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static STABLELM: Family = Family {
    name: "stablelm",
    hf: &["stablelm"],
    gguf: &["stablelm"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let share = cfg.get("rope_pct").cloned().unwrap_or(json!(0.25));
    let cfg = &cfg.with_defaults(json!({
        "partial_rotary_factor": share, "max_position_embeddings": 4096, "layer_norm_eps": 1e-5,
    }));
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    let norm = c.norm;
    let heads =
        QkNorm { norm: Norm { bias: false, ..norm }, over: NormOver::EachHead, after_rope: false };
    let normed = cfg.flag(cfg.pick("qk_layernorm", "use_qk_norm"), false)?;
    let attention = Op::Attention(Attention {
        qkv_bias: cfg.flag(cfg.pick("use_qkv_bias", "attention_bias"), false)?,
        qk_norm: normed.then_some(heads),
        ..c.attention()
    });
    let mlp = Op::Mlp(c.gated(cfg.act("hidden_act", Act::Silu)?));
    let layer = if cfg.flag("use_parallel_residual", false)? {
        vec![Branch::parallel(norm, [attention, mlp])]
    } else {
        vec![Branch::pre(norm, attention), Branch::pre(norm, mlp)]
    };
    Ok(c.model(std::iter::repeat_n(layer, c.layers)))
}

const NAMES: &[Rename] = &[
    Stack("model.layers.{}.self_attn.q_layernorm.norms.{e}", "blk.{}.attn_q_norm"),
    Stack("model.layers.{}.self_attn.k_layernorm.norms.{e}", "blk.{}.attn_k_norm"),
];
