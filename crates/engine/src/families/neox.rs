//! Attention and MLP side by side, on one norm or each on its own, with part of a head rotated:
//! GPT-J, GPT-NeoX and Phi 1 to 2. Wang & Komatsuzaki 2021; Black et al. 2022, arXiv:2204.06745;
//! Li et al. 2023, arXiv:2309.05463.
use super::Rename::{self, *};
use super::common::names::{DECODER, FUSED, QKV};
use super::common::{Common, four_times, rotated};
use super::{Cut, Family, Per, gpt};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GPT_J: Family = Family {
    name: "gptj",
    hf: &["gptj"],
    gguf: &[],
    spec: gptj,
    names: &[GPT_J_NAMES],
    gguf_names: &[],
};
pub static GPT_NEOX: Family = Family {
    name: "gpt_neox",
    hf: &["gpt_neox"],
    gguf: &["gptneox"],
    spec: neox,
    names: &[NEOX_NAMES],
    gguf_names: &[FUSED],
};
pub static PHI: Family = Family {
    name: "phi",
    hf: &["phi"],
    gguf: &["phi2"],
    spec: phi,
    names: &[PHI_NAMES, DECODER],
    gguf_names: &[FUSED],
};

fn gptj(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &four_times(&cfg.with_aliases(gpt::KEYS).with_defaults(json!({"rotary_dim": 64})))?;
    let mut c = read(cfg)?;
    let dim = rotated(cfg, c.head_dim, c.head_dim)?;
    c.rope = Rope { dim, layout: RopeLayout::Pairs, ..c.rope };
    let mlp = c.plain(cfg.act("hidden_act", Act::GeluTanh)?, true);
    Ok(beside(&c, &c.attention(), &mlp))
}

fn phi(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"partial_rotary_factor": 0.5}));
    let c = read(cfg)?;
    let qk = QkNorm { norm: c.norm, over: NormOver::Head, after_rope: false };
    let qk_norm = cfg.flag("qk_layernorm", false)?.then_some(qk);
    let attention = Attention { qkv_bias: true, out_bias: true, qk_norm, ..c.attention() };
    let mlp = c.plain(cfg.act("hidden_act", Act::GeluTanh)?, true);
    Ok(beside(&c, &attention, &mlp))
}

fn neox(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_aliases(&[("rotary_pct", "partial_rotary_factor"), ("rotary_emb_base", "rope_theta")])
        .with_defaults(json!({"partial_rotary_factor": 0.25, "attention_bias": true}));
    let c = read(cfg)?;
    let (attention, mlp) = (c.biased(cfg)?, c.plain(cfg.act("hidden_act", Act::Gelu)?, true));
    if !cfg.flag("use_parallel_residual", true)? {
        return Ok(c.decoder((0..c.layers).map(|_| attention.clone()), &mlp));
    }
    let part = |op| Part { pre: Some(c.norm), ..Part::from(op) };
    let ops = || [Op::Attention(attention.clone()), Op::Mlp(mlp.clone())].map(part);
    Ok(c.model((0..c.layers).map(|_| vec![Branch::bare(ops().into())])))
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    let c = Common::read(&cfg.with_defaults(json!({"layer_norm_eps": 1e-5})))?;
    Ok(Common { norm: Norm::layer(c.eps), ..c })
}

/// Layers of one branch on one norm, and a head with a bias.
fn beside(c: &Common, attention: &Attention, mlp: &Mlp) -> ModelSpec {
    let ops = || [Op::Attention(attention.clone()), Op::Mlp(mlp.clone())];
    let layers = (0..c.layers).map(|_| vec![Branch::parallel(c.norm, ops())]);
    let mut spec = c.model(layers);
    spec.head = Head::Lm { tied: c.tied, bias: true, scale: 1.0, softcap: None };
    spec
}

const GPT_J_NAMES: &[Rename] = &[
    To("transformer.wte", "token_embd"),
    To("transformer.ln_f", "output_norm"),
    To("lm_head", "output"),
    To("transformer.h.{}.ln_1", "blk.{}.attn_norm"),
    To("transformer.h.{}.attn.q_proj", "blk.{}.attn_q"),
    To("transformer.h.{}.attn.k_proj", "blk.{}.attn_k"),
    To("transformer.h.{}.attn.v_proj", "blk.{}.attn_v"),
    To("transformer.h.{}.attn.out_proj", "blk.{}.attn_output"),
    To("transformer.h.{}.mlp.fc_in", "blk.{}.ffn_up"),
    To("transformer.h.{}.mlp.fc_out", "blk.{}.ffn_down"),
    // Masks.
    Ignore("transformer.h.{}.attn"),
    Ignore("transformer.h.{}.attn.masked_bias"),
];

const NEOX_NAMES: &[Rename] = &[
    To("gpt_neox.embed_in", "token_embd"),
    To("gpt_neox.final_layer_norm", "output_norm"),
    To("embed_out", "output"),
    To("gpt_neox.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    To("gpt_neox.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    Cut("gpt_neox.layers.{}.attention.query_key_value", Cut::Heads(Per::Head), QKV),
    To("gpt_neox.layers.{}.attention.dense", "blk.{}.attn_output"),
    To("gpt_neox.layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up"),
    To("gpt_neox.layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down"),
    // Masks.
    Ignore("gpt_neox.layers.{}.attention"),
    Ignore("gpt_neox.layers.{}.attention.masked_bias"),
    Ignore("gpt_neox.layers.{}.attention.rotary_emb.inv_freq"),
];

const PHI_NAMES: &[Rename] = &[
    To("model.final_layernorm", "output_norm"),
    To("model.layers.{}.self_attn.dense", "blk.{}.attn_output"),
    To("model.layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm"),
    To("model.layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm"),
    To("model.layers.{}.mlp.fc1", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp.fc2", "blk.{}.ffn_down"),
];
