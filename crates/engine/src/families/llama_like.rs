//! Llama's arithmetic under other names of tensors and hyper-parameters: Baichuan 1, ERNIE 4.5,
//! EXAONE 3, Helium and Seed-OSS. What differs is which biases there are, and
//! which elements of a head make a rotated pair.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::{DECODER, QKV};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static BAICHUAN: Family = Family {
    name: "baichuan",
    hf: &["baichuan"],
    gguf: &[],
    spec: baichuan,
    names: &[BAICHUAN_NAMES, DECODER],
    gguf_names: &[],
};
pub static ERNIE4_5: Family = Family {
    name: "ernie4_5",
    hf: &["ernie4_5"],
    gguf: &["ernie4_5"],
    spec: ernie,
    names: &[DECODER],
    gguf_names: &[],
};
pub static HELIUM: Family =
    Family { name: "helium", hf: &["helium"], gguf: &[], spec: helium, ..ERNIE4_5 };
pub static EXAONE: Family = Family {
    name: "exaone",
    hf: &["exaone"],
    gguf: &[],
    spec: exaone,
    names: &[EXAONE_NAMES],
    gguf_names: &[],
};
pub static SEED_OSS: Family = Family {
    name: "seed_oss",
    hf: &["seed_oss"],
    gguf: &["seed_oss"],
    spec: seed_oss,
    names: &[DECODER],
    gguf_names: &[&[To("blk.{}.post_attention_norm", "blk.{}.ffn_norm")]],
};

fn ernie(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = cfg.with_aliases(&[("use_bias", "attention_bias"), ("use_bias", "mlp_bias")]);
    let defaults = json!({
        "tie_word_embeddings": true, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "head_dim": 128,
        "num_key_value_heads": 2,
    });
    spec(&cfg.with_defaults(defaults), RopeLayout::Pairs)
}

fn helium(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let defaults = json!({
        "rms_norm_eps": 1e-8, "rope_theta": 1e5, "head_dim": 128, "attention_out_bias": false,
    });
    spec(&cfg.with_defaults(defaults), RopeLayout::Pairs)
}

fn seed_oss(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    halves(&cfg.with_defaults(json!({
        "attention_bias": true, "attention_out_bias": false, "head_dim": 128,
        "num_key_value_heads": 8,
    })))
}

/// The same, with halves that make pairs.
pub fn halves(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    spec(cfg, RopeLayout::Halves)
}

fn baichuan(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_aliases(&[("model_max_length", "max_position_embeddings")]);
    // The larger ones, of 40 heads, have ALiBi and say so nowhere.
    if cfg.size("num_attention_heads")? == 40 && cfg.size("hidden_size")? == 5120 {
        return Err(cfg.refuse("hidden_size", "that of a model of 7 billion parameters"));
    }
    // The second generation norms its head's rows, and says so nowhere either.
    if cfg.size("vocab_size")? == 125_696 {
        return Err(cfg.refuse("vocab_size", "that of the first generation, 64000"));
    }
    halves(cfg)
}

fn exaone(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    halves(&cfg.with_aliases(&[
        ("num_layers", "num_hidden_layers"),
        ("layer_norm_epsilon", "rms_norm_eps"),
        ("activation_function", "hidden_act"),
    ]))
}

/// With pairs where `layout` says, and biases where the config does.
pub fn spec(cfg: &Config, layout: RopeLayout) -> Result<ModelSpec, ConfigError> {
    let mut c = Common::read(cfg)?;
    c.rope.layout = layout;
    let attention = c.biased(cfg)?;
    let bias = cfg.flag("mlp_bias", false)?;
    let mlp = Mlp { bias, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    Ok(c.decoder((0..c.layers).map(|_| attention.clone()), &mlp))
}

const BAICHUAN_NAMES: &[Rename] = &[Split("model.layers.{}.self_attn.W_pack", QKV)];

const EXAONE_NAMES: &[Rename] = &[
    To("transformer.wte", "token_embd"),
    To("transformer.ln_f", "output_norm"),
    To("lm_head", "output"),
    To("transformer.h.{}.ln_1", "blk.{}.attn_norm"),
    To("transformer.h.{}.attn.attention.q_proj", "blk.{}.attn_q"),
    To("transformer.h.{}.attn.attention.k_proj", "blk.{}.attn_k"),
    To("transformer.h.{}.attn.attention.v_proj", "blk.{}.attn_v"),
    To("transformer.h.{}.attn.attention.out_proj", "blk.{}.attn_output"),
    To("transformer.h.{}.ln_2", "blk.{}.ffn_norm"),
    To("transformer.h.{}.mlp.c_fc_0", "blk.{}.ffn_gate"),
    To("transformer.h.{}.mlp.c_fc_1", "blk.{}.ffn_up"),
    To("transformer.h.{}.mlp.c_proj", "blk.{}.ffn_down"),
    Ignore("transformer.h.{}.attn.attention.rotary.inv_freq"),
    Ignore("transformer.rotary.inv_freq"),
];
