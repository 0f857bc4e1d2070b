//! StarCoder 2: layer norms and biases everywhere, an MLP without a gate, a window.
//! Lozhkov et al. 2024, arXiv:2402.19173.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static STARCODER2: Family = Family {
    name: "starcoder2",
    hf: &["starcoder2"],
    gguf: &["starcoder2"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_aliases(&[("norm_epsilon", "layer_norm_eps")]).with_defaults(json!({
        "tie_word_embeddings": true, "layer_norm_eps": 1e-5, "use_bias": true,
        "num_key_value_heads": 2,
    }));
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    let bias = cfg.flag("use_bias", true)?;
    let attention = Attention { qkv_bias: bias, out_bias: bias, ..c.attention() };
    let mlp = c.plain(cfg.act("hidden_act", Act::GeluTanh)?, bias);
    let reaches = cfg.reaches(c.layers, |_| true)?;
    let attentions = reaches.into_iter().map(|reach| Attention { reach, ..attention.clone() });
    Ok(c.decoder(attentions, &mlp))
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.mlp.c_fc", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp.c_proj", "blk.{}.ffn_down"),
];
