//! Falcon: attention and MLP side by side, on one norm (7B) or each on its own (40B, 180B); the first
//! ones (RW) are sequential and penalise distance in place of a rotation.
//! Almazrouei et al. 2023, arXiv:2311.16867.
use super::Rename::{self, *};
use super::common::names::{FUSED, QKV};
use super::common::{Common, bf16, four_times, slopes};
use super::{Cut, Family, Per};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static FALCON: Family = Family {
    name: "falcon",
    hf: &["falcon"],
    gguf: &["falcon"],
    spec,
    names: &[NAMES],
    gguf_names: &[FUSED, GGUF_NAMES],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_aliases(&[
            ("n_embed", "hidden_size"),
            ("n_layer", "num_hidden_layers"),
            ("n_head", "num_attention_heads"),
            ("ffn_hidden_size", "intermediate_size"),
            ("layer_norm_epsilon", "layer_norm_eps"),
            ("activation", "hidden_act"),
        ])
        .with_defaults(json!({"tie_word_embeddings": true, "layer_norm_eps": 1e-5}));
    let mut c = Common::read(&four_times(cfg)?)?;
    c.norm = Norm::layer(c.eps);
    let grouped = cfg.flag("new_decoder_architecture", false)?;
    c.kv_heads = match cfg.pick((grouped, cfg.flag("multi_query", true)?), (false, false)) {
        (true, _) => cfg.size_or("num_kv_heads", c.heads)?,
        (_, true) => 1,
        _ => cfg.pick(c.heads, c.kv_heads),
    };
    if !c.heads.is_multiple_of(c.kv_heads) {
        return Err(cfg.refuse("num_kv_heads", "a divisor of num_attention_heads"));
    }
    let bias = cfg.flag("bias", false)?;
    let mut attention = Attention { qkv_bias: bias, out_bias: bias, ..c.attention() };
    if cfg.flag("alibi", false)? {
        // Held in bfloat16, and added twice: before the scores are scaled, and with the mask.
        let slope = |slope| 2.0 * bf16(slope) * attention.scale;
        let slopes = slopes(c.heads, 8.0).into_iter().map(slope).collect();
        attention = Attention { rope: None, alibi: Some(Alibi { slopes }), ..attention };
    }
    let mlp = c.plain(cfg.act("hidden_act", Act::Gelu)?, bias);
    let ops = [Op::Attention(attention), Op::Mlp(mlp)];
    let two = grouped && cfg.size_or("num_ln_in_parallel_attn", 2)? == 2;
    let own = |op| Part { pre: Some(c.norm), ..Part::from(op) };
    let layer: Layer = match (grouped || cfg.flag("parallel_attn", true)?, two) {
        (true, true) => vec![Branch::bare(ops.map(own).into())],
        (true, false) => vec![Branch::parallel(c.norm, ops)],
        (false, _) => ops.map(|op| Branch::pre(c.norm, op)).into(),
    };
    Ok(c.model(std::iter::repeat_n(layer, c.layers)))
}

const NAMES: &[Rename] = &[
    To("transformer.word_embeddings", "token_embd"),
    To("transformer.ln_f", "output_norm"),
    To("lm_head", "output"),
    To("transformer.h.{}.input_layernorm", "blk.{}.attn_norm"),
    To("transformer.h.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    To("transformer.h.{}.ln_attn", "blk.{}.attn_norm"),
    To("transformer.h.{}.ln_mlp", "blk.{}.ffn_norm"),
    Cut("transformer.h.{}.self_attention.query_key_value", Cut::Heads(Per::KvHead), QKV),
    To("transformer.h.{}.self_attention.dense", "blk.{}.attn_output"),
    To("transformer.h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up"),
    To("transformer.h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down"),
    Ignore("transformer.h.{}.self_attention.rotary_emb.inv_freq"),
];

/// Where there are two norms, the first is the MLP's.
const GGUF_NAMES: &[Rename] =
    &[To("blk.{}.attn_norm_2", "blk.{}.attn_norm"), To("blk.{}.attn_norm", "blk.{}.ffn_norm")];
