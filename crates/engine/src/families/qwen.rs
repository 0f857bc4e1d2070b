//! Qwen 2, 2.5 and 3, dense. Yang et al. 2024, arXiv:2407.10671; 2025, arXiv:2505.09388.
//! Qwen 2 is Llama with biases on q, k and v; Qwen 3 norms each query and key head instead.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::llama;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static QWEN2: Family =
    Family { name: "qwen2", hf: &["qwen2"], gguf: &["qwen2"], spec: qwen2, names: llama::NAMES };
pub static QWEN3: Family =
    Family { name: "qwen3", hf: &["qwen3"], gguf: &["qwen3"], spec: qwen3, names: NAMES };

fn qwen2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let c = Common::read(cfg)?;
    model(cfg, &c, Attention { qkv_bias: true, ..c.attention() })
}

fn qwen3(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"head_dim": 128}));
    let c = Common::read(cfg)?;
    let norm = Some(QkNorm::PerHead(c.rms()));
    model(cfg, &c, Attention { qk_norm: norm, ..c.biased(cfg)? })
}

fn model(cfg: &Config, c: &Common, attention: Attention) -> Result<ModelSpec, ConfigError> {
    let slides = cfg.flag("use_sliding_window", false)?;
    let first = cfg.count_or("max_window_layers", 28)?;
    let windows = cfg.windows(c.layers, |i| slides && i >= first)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    Ok(c.model(windows.into_iter().map(|window| {
        vec![
            Branch::pre(c.rms(), Op::Attention(Attention { window, ..attention.clone() })),
            Branch::pre(c.rms(), Op::Mlp(mlp.clone())),
        ]
    })))
}

const NAMES: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    To("model.norm", "output_norm"),
    To("lm_head", "output"),
    To("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"),
    To("model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"),
    To("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    To("model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"),
    To("model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"),
];
