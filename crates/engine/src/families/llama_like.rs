//! Llama's arithmetic under other names of tensors and hyper-parameters: Baichuan 1, ERNIE 4.5,
//! EXAONE 3, Helium, InternLM 1 to 3 and Seed-OSS. What differs is which biases there are, and
//! which elements of a head make a rotated pair.
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::{DECODER, QKV};
use super::{Cut, Family, Per};
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
    spec: pairs,
    names: &[DECODER],
    gguf_names: &[],
};
pub static HELIUM: Family = Family { name: "helium", hf: &["helium"], gguf: &[], ..ERNIE4_5 };
pub static EXAONE: Family = Family {
    name: "exaone",
    hf: &["exaone"],
    gguf: &[],
    spec: exaone,
    names: &[EXAONE_NAMES],
    gguf_names: &[],
};
pub static INTERNLM: Family = Family {
    name: "internlm",
    hf: &["internlm"],
    gguf: &[],
    spec: internlm,
    names: &[DECODER],
    gguf_names: &[],
};
pub static INTERNLM2: Family = Family {
    name: "internlm2",
    hf: &["internlm2"],
    gguf: &["internlm2"],
    spec: internlm2,
    names: &[INTERNLM2_NAMES],
    gguf_names: &[],
};
pub static INTERNLM3: Family =
    Family { name: "internlm3", hf: &["internlm3"], spec: internlm3, ..INTERNLM };
pub static SEED_OSS: Family = Family {
    name: "seed_oss",
    hf: &["seed_oss"],
    gguf: &["seed_oss"],
    spec: halves,
    names: &[DECODER],
    gguf_names: &[&[To("blk.{}.post_attention_norm", "blk.{}.ffn_norm")]],
};

fn halves(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    spec(cfg, RopeLayout::Halves, |attention| attention)
}

fn pairs(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_aliases(&[("use_bias", "attention_bias"), ("use_bias", "mlp_bias")]);
    spec(cfg, RopeLayout::Pairs, |attention| attention)
}

fn baichuan(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_aliases(&[("model_max_length", "max_position_embeddings")]);
    // The larger ones, of 40 heads, have ALiBi and say so nowhere.
    if cfg.size("num_attention_heads")? == 40 && cfg.size("hidden_size")? == 5120 {
        return Err(cfg.refuse("hidden_size", "that of a model of 7 billion parameters"));
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

fn internlm(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let theta = cfg.positive_or("rotary.base", 1e4)?;
    let cfg = cfg.with_defaults(json!({"bias": true, "rope_theta": theta}));
    halves(&cfg.with_aliases(&[("bias", "attention_bias")]))
}

fn internlm2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = cfg.with_defaults(json!({"bias": true}));
    // GGUF's converter permutes q and k rows for this architecture.
    let layout = cfg.pick(RopeLayout::Halves, RopeLayout::Pairs);
    spec(&cfg.with_aliases(&[("bias", "attention_bias")]), layout, |attention| attention)
}

fn internlm3(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let (qkv_bias, out_bias) = (cfg.flag("qkv_bias", false)?, cfg.flag("bias", false)?);
    let cfg = cfg.with_aliases(&[("bias", "mlp_bias")]);
    spec(&cfg, RopeLayout::Halves, |attention| Attention { qkv_bias, out_bias, ..attention })
}

fn spec(
    cfg: &Config,
    layout: RopeLayout,
    change: impl Fn(Attention) -> Attention,
) -> Result<ModelSpec, ConfigError> {
    let mut c = Common::read(cfg)?;
    c.rope.layout = layout;
    let attention = change(c.biased(cfg)?);
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

const INTERNLM2_NAMES: &[Rename] = &[
    To("model.tok_embeddings", "token_embd"),
    To("model.norm", "output_norm"),
    To("output", "output"),
    To("model.layers.{}.attention_norm", "blk.{}.attn_norm"),
    Cut("model.layers.{}.attention.wqkv", Cut::Heads(Per::KvHead), QKV),
    To("model.layers.{}.attention.wo", "blk.{}.attn_output"),
    To("model.layers.{}.ffn_norm", "blk.{}.ffn_norm"),
    To("model.layers.{}.feed_forward.w1", "blk.{}.ffn_gate"),
    To("model.layers.{}.feed_forward.w3", "blk.{}.ffn_up"),
    To("model.layers.{}.feed_forward.w2", "blk.{}.ffn_down"),
];
