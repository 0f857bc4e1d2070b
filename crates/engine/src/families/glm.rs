//! GLM 4, in its three layouts: pairs side by side in the first half of each head rotate; the 0414
//! models norm what branches give besides. GLM Team 2024, arXiv:2406.12793.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::{DECODER, FUSED, GATE_UP, QKV};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GLM: Family = Family {
    name: "glm",
    hf: &["glm"],
    gguf: &[],
    spec: glm,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};
pub static GLM4: Family = Family {
    name: "glm4",
    hf: &["glm4"],
    gguf: &["glm4"],
    spec: glm4,
    names: &[NAMES_4, NAMES, DECODER],
    gguf_names: &[FUSED, GATE_UP],
};
pub static CHATGLM: Family = Family {
    name: "chatglm",
    hf: &["chatglm"],
    gguf: &["chatglm"],
    spec: chatglm,
    names: &[CHAT_NAMES],
    gguf_names: &[FUSED, GATE_UP],
};

fn glm(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let (c, attention, mlp) = read(cfg)?;
    Ok(c.decoder((0..c.layers).map(|_| attention.clone()), &mlp))
}

fn glm4(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let (c, attention, mlp) = read(cfg)?;
    let ops = || [Op::Attention(attention.clone()), Op::Mlp(mlp.clone())];
    Ok(c.model((0..c.layers).map(|_| ops().map(|op| Branch::sandwich(c.norm, op)).into())))
}

fn chatglm(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_aliases(&[
        ("num_layers", "num_hidden_layers"),
        ("padded_vocab_size", "vocab_size"),
        ("ffn_hidden_size", "intermediate_size"),
        ("kv_channels", "head_dim"),
        ("seq_length", "max_position_embeddings"),
        ("layernorm_epsilon", "rms_norm_eps"),
        ("add_qkv_bias", "attention_bias"),
    ]);
    cfg.only(&[
        ("rmsnorm", json!(true)),
        ("post_layer_norm", json!(true)),
        ("apply_residual_connection_post_layernorm", json!(false)),
        ("add_bias_linear", json!(false)),
    ])?;
    let theta = cfg.positive_or("rope_theta", 1e4 * cfg.positive_or("rope_ratio", 1.0)?)?;
    let groups = match cfg.flag("multi_query_attention", false)? {
        true => cfg.size("multi_query_group_num")?,
        false => cfg.size("num_attention_heads")?,
    };
    glm(&cfg.with_defaults(json!({
        "rope_theta": theta, "num_key_value_heads": groups, "attention_bias": false,
        "rms_norm_eps": 1e-5,
    })))
}

fn read(cfg: &Config) -> Result<(Common, Attention, Mlp), ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "partial_rotary_factor": 0.5, "attention_bias": true, "rms_norm_eps": 1.5625e-7,
        "head_dim": 128, "num_key_value_heads": 2,
    }));
    let mut c = Common::read(cfg)?;
    c.rope.layout = RopeLayout::Pairs;
    let qkv_bias = cfg.flag("attention_bias", false)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    let attention = Attention { qkv_bias, ..c.attention() };
    Ok((c, attention, mlp))
}

const NAMES: &[Rename] =
    &[Split("model.layers.{}.mlp.gate_up_proj", &["blk.{}.ffn_gate", "blk.{}.ffn_up"])];

const NAMES_4: &[Rename] = &[
    To("model.layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm"),
    To("model.layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm"),
];

const CHAT_NAMES: &[Rename] = &[
    To("transformer.embedding.word_embeddings", "token_embd"),
    To("transformer.encoder.final_layernorm", "output_norm"),
    To("transformer.output_layer", "output"),
    To("transformer.encoder.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    Split("transformer.encoder.layers.{}.self_attention.query_key_value", QKV),
    To("transformer.encoder.layers.{}.self_attention.dense", "blk.{}.attn_output"),
    To("transformer.encoder.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    Split("transformer.encoder.layers.{}.mlp.dense_h_to_4h", &["blk.{}.ffn_gate", "blk.{}.ffn_up"]),
    To("transformer.encoder.layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down"),
    Ignore("transformer.rotary_pos_emb.inv_freq"),
];
