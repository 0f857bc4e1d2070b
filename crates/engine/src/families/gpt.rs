//! GPT-2, the first StarCoder, whose heads share one key, and OPT: learned positions, layer norms,
//! biases everywhere. Radford et al. 2019; Li et al. 2023, arXiv:2305.06161; Zhang et al. 2022,
//! arXiv:2205.01068.
use super::Rename::{self, *};
use super::common::names::{FUSED, QKV};
use super::common::{Common, four_times};
use super::{Cut, Family, Per};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GPT2: Family = Family {
    name: "gpt2",
    hf: &["gpt2"],
    gguf: &["gpt2"],
    spec: gpt2,
    names: &[COLUMNS, NAMES],
    gguf_names: &[FUSED],
};
pub static STARCODER: Family = Family {
    name: "starcoder",
    hf: &["gpt_bigcode"],
    gguf: &[],
    spec: starcoder,
    names: &[ROWS, NAMES],
    gguf_names: &[],
};
pub static OPT: Family =
    Family { name: "opt", hf: &["opt"], gguf: &[], spec: opt, names: &[DECODER], gguf_names: &[] };

/// What GPT-2 and its kin call what others call otherwise.
pub const KEYS: &[(&str, &str)] = &[
    ("n_embd", "hidden_size"),
    ("n_head", "num_attention_heads"),
    ("n_layer", "num_hidden_layers"),
    ("n_inner", "intermediate_size"),
    ("n_positions", "max_position_embeddings"),
    ("layer_norm_epsilon", "layer_norm_eps"),
    ("activation_function", "hidden_act"),
];

fn gpt2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &read(cfg)?;
    let by_layer = cfg.flag("scale_attn_by_inverse_layer_idx", false)?;
    let scale = |i| if by_layer { 1.0 / (i + 1) as f32 } else { 1.0 };
    learned(cfg, Common::read(cfg)?, Act::GeluTanh, scale, 0)
}

fn starcoder(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &read(cfg)?;
    let c = Common::read(cfg)?;
    let kv_heads = if cfg.flag("multi_query", true)? { 1 } else { c.heads };
    learned(cfg, Common { kv_heads, ..c }, Act::GeluTanh, |_| 1.0, 0)
}

fn opt(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_aliases(&[("ffn_dim", "intermediate_size"), ("activation_function", "hidden_act")])
        .with_defaults(json!({"tie_word_embeddings": true, "layer_norm_eps": 1e-5}));
    let normed_before = cfg.flag("do_layer_norm_before", true)?;
    if !normed_before || cfg.flag("_remove_final_layer_norm", false)? {
        return Err(cfg.refuse("do_layer_norm_before", "true, and a final norm"));
    }
    if !cfg.flag("enable_bias", true)? || !cfg.flag("layer_norm_elementwise_affine", true)? {
        return Err(cfg.refuse("enable_bias", "true, and norms with parameters"));
    }
    let c = Common::read(cfg)?;
    if cfg.size_or("word_embed_proj_dim", c.d_model)? != c.d_model {
        return Err(cfg.refuse("word_embed_proj_dim", "hidden_size"));
    }
    learned(cfg, c, Act::Relu, |_| 1.0, 2)
}

fn read(cfg: &Config) -> Result<Config, ConfigError> {
    four_times(&cfg.with_aliases(KEYS).with_defaults(json!({
        "tie_word_embeddings": true, "layer_norm_eps": 1e-5, "max_position_embeddings": 1024,
    })))
}

/// With learned positions, before which the table has `offset` rows. Scores are multiplied by
/// `scale` of the layer, and as usual unless the config says that they are not.
fn learned(
    cfg: &Config,
    mut c: Common,
    act: Act,
    scale: impl Fn(usize) -> f32,
    offset: usize,
) -> Result<ModelSpec, ConfigError> {
    c.norm = Norm::layer(c.eps);
    let attention = Attention { rope: None, qkv_bias: true, out_bias: true, ..c.attention() };
    let mlp = c.plain(cfg.act("hidden_act", act)?, true);
    let usual = if cfg.flag("scale_attn_weights", true)? { attention.scale } else { 1.0 };
    let of = |i| Attention { scale: usual * scale(i), ..attention.clone() };
    let mut spec = c.decoder((0..c.layers).map(of), &mlp);
    spec.ropes.clear();
    spec.embed.positions = Some(Positions { rows: c.context + offset, offset });
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("transformer.wte", "token_embd"),
    To("transformer.wpe", "position_embd"),
    To("transformer.ln_f", "output_norm"),
    To("lm_head", "output"),
    To("transformer.h.{}.ln_1", "blk.{}.attn_norm"),
    To("transformer.h.{}.ln_2", "blk.{}.ffn_norm"),
    // Masks.
    Ignore("transformer.h.{}.attn"),
    Ignore("transformer.h.{}.attn.masked_bias"),
];

/// Weights are stored `[in, out]`.
const COLUMNS: &[Rename] = &[
    Cut("transformer.h.{}.attn.c_attn", Cut::Columns, QKV),
    Cut("transformer.h.{}.attn.c_proj", Cut::Columns, &["blk.{}.attn_output"]),
    Cut("transformer.h.{}.mlp.c_fc", Cut::Columns, &["blk.{}.ffn_up"]),
    Cut("transformer.h.{}.mlp.c_proj", Cut::Columns, &["blk.{}.ffn_down"]),
];

const ROWS: &[Rename] = &[
    Cut("transformer.h.{}.attn.c_attn", Cut::Heads(Per::KvHead), QKV),
    To("transformer.h.{}.attn.c_proj", "blk.{}.attn_output"),
    To("transformer.h.{}.mlp.c_fc", "blk.{}.ffn_up"),
    To("transformer.h.{}.mlp.c_proj", "blk.{}.ffn_down"),
];

const DECODER: &[Rename] = &[
    To("model.decoder.embed_tokens", "token_embd"),
    To("model.decoder.embed_positions", "position_embd"),
    To("model.decoder.final_layer_norm", "output_norm"),
    To("lm_head", "output"),
    To("model.decoder.layers.{}.self_attn_layer_norm", "blk.{}.attn_norm"),
    To("model.decoder.layers.{}.self_attn.q_proj", "blk.{}.attn_q"),
    To("model.decoder.layers.{}.self_attn.k_proj", "blk.{}.attn_k"),
    To("model.decoder.layers.{}.self_attn.v_proj", "blk.{}.attn_v"),
    To("model.decoder.layers.{}.self_attn.out_proj", "blk.{}.attn_output"),
    To("model.decoder.layers.{}.final_layer_norm", "blk.{}.ffn_norm"),
    To("model.decoder.layers.{}.fc1", "blk.{}.ffn_up"),
    To("model.decoder.layers.{}.fc2", "blk.{}.ffn_down"),
];
