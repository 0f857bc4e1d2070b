//! BLOOM and MPT: no rotation but a penalty for distance (ALiBi), fused projections, MLPs without a
//! gate, a tied head. Workshop 2022, arXiv:2211.05100; MosaicML 2023, databricks.com/blog/mpt-7b.
use super::Rename::{self, *};
use super::common::names::QKV;
use super::common::{Common, four_times, slopes};
use super::{Cut, Family, Per};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static BLOOM: Family = Family {
    name: "bloom",
    hf: &["bloom"],
    gguf: &[],
    spec: bloom,
    names: &[BLOOM_NAMES],
    gguf_names: &[],
};
pub static MPT: Family = Family {
    name: "mpt",
    hf: &["mpt"],
    gguf: &[],
    spec: mpt,
    names: &[MPT_NAMES],
    gguf_names: &[],
};

fn bloom(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &read(
        cfg,
        &[
            ("n_embed", "hidden_size"),
            ("n_head", "num_attention_heads"),
            ("n_layer", "num_hidden_layers"),
            ("seq_length", "max_position_embeddings"),
        ],
    )?;
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    let attention = Attention {
        rope: None,
        alibi: Some(Alibi { slopes: slopes(c.heads, 8.0) }),
        qkv_bias: true,
        out_bias: true,
        ..c.attention()
    };
    let normed = cfg.flag("apply_residual_connection_post_layernorm", false)?;
    let skip = if normed { Skip::Input(1.0) } else { Skip::Stream };
    let ops = [Op::Attention(attention), Op::Mlp(c.plain(Act::GeluTanh, true))];
    let layer = ops.map(|op| Branch { skip, ..Branch::pre(c.norm, op) }).to_vec();
    let mut spec = c.model(std::iter::repeat_n(layer, c.layers));
    spec.embed.norm = Some(c.norm);
    Ok(spec)
}

fn mpt(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &read(
        cfg,
        &[
            ("d_model", "hidden_size"),
            ("n_heads", "num_attention_heads"),
            ("n_layers", "num_hidden_layers"),
            ("max_seq_len", "max_position_embeddings"),
        ],
    )?;
    cfg.only(&[
        ("attn_config.alibi", json!(true)),
        ("attn_config.qk_ln", json!(false)),
        ("attn_config.prefix_lm", json!(false)),
        ("attn_config.attn_type", json!("multihead_attention")),
        ("logit_scale", json!(1.0)),
    ])?;
    let mut c = Common::read(cfg)?;
    c.norm = Norm { bias: false, ..Norm::layer(c.eps) };
    let plain = c.attention();
    let bias = cfg.positive_or("attn_config.alibi_bias_max", 8.0)?;
    let attention = Attention {
        rope: None,
        alibi: Some(Alibi { slopes: slopes(c.heads, bias) }),
        clip: cfg.optional_positive("attn_config.clip_qkv")?,
        scale: cfg.positive_or("attn_config.softmax_scale", plain.scale)?,
        ..plain
    };
    let ops = [Op::Attention(attention), Op::Mlp(c.plain(Act::Gelu, false))];
    let layer = ops.map(|op| Branch::pre(c.norm, op)).to_vec();
    Ok(c.model(std::iter::repeat_n(layer, c.layers)))
}

/// In common words, with what both leave unsaid.
fn read(cfg: &Config, aliases: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let cfg = cfg.with_aliases(&[aliases, &[("layer_norm_epsilon", "layer_norm_eps")]].concat());
    four_times(&cfg.with_defaults(json!({"tie_word_embeddings": true, "layer_norm_eps": 1e-5})))
}

const BLOOM_NAMES: &[Rename] = &[
    To("transformer.word_embeddings", "token_embd"),
    To("transformer.word_embeddings_layernorm", "token_embd_norm"),
    To("transformer.h.{}.input_layernorm", "blk.{}.attn_norm"),
    Cut("transformer.h.{}.self_attention.query_key_value", Cut::Heads(Per::Head), QKV),
    To("transformer.h.{}.self_attention.dense", "blk.{}.attn_output"),
    To("transformer.h.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    To("transformer.h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up"),
    To("transformer.h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down"),
    To("transformer.ln_f", "output_norm"),
    To("lm_head", "output"),
];

const MPT_NAMES: &[Rename] = &[
    To("transformer.wte", "token_embd"),
    To("transformer.blocks.{}.norm_1", "blk.{}.attn_norm"),
    Split("transformer.blocks.{}.attn.Wqkv", QKV),
    To("transformer.blocks.{}.attn.out_proj", "blk.{}.attn_output"),
    To("transformer.blocks.{}.norm_2", "blk.{}.ffn_norm"),
    To("transformer.blocks.{}.ffn.up_proj", "blk.{}.ffn_up"),
    To("transformer.blocks.{}.ffn.down_proj", "blk.{}.ffn_down"),
    To("transformer.norm_f", "output_norm"),
    To("lm_head", "output"),
];
