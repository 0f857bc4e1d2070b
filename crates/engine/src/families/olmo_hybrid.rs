//! OLMo Hybrid: delta nets whose states may turn over, and attention normed as OLMo 2's.
//! OLMo 2: 2 OLMo 2 Furious, arXiv:2501.00656.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::delta::delta_net;
use super::common::mixers::attends;
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static OLMO_HYBRID: Family = Family {
    name: "olmo_hybrid",
    hf: &["olmo_hybrid"],
    gguf: &[],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"max_position_embeddings": 65_536}));
    let c = Common::read(cfg)?;
    let heads = cfg.size_or("linear_num_key_heads", c.heads)?;
    let k_dim = cfg.size_or("linear_key_head_dim", 3 * c.d_model / 4 / heads)?;
    let cfg = &cfg.with_defaults(json!({
        "linear_num_key_heads": heads, "linear_num_value_heads": c.heads,
        "linear_key_head_dim": k_dim, "linear_value_head_dim": 2 * k_dim,
    }));
    // The norm's epsilon is its kernel's, not the model's.
    let mut mixer = delta_net(cfg, Norm::rms(1e-5))?;
    if cfg.flag("linear_allow_neg_eigval", true)? {
        mixer.beta = 2.0;
    }
    // Without positions are those whose rotation is described, but for its base.
    let rotates = cfg.get("rope_theta").is_some() || cfg.get("rope_scaling").is_none();
    let attention = Attention {
        rope: rotates.then_some(RopeId(0)),
        qk_norm: Some(QkNorm { norm: c.rms(), over: NormOver::Whole, after_rope: false }),
        ..c.biased(cfg)?
    };
    let mlp = Op::Mlp(c.gated(cfg.act("hidden_act", Act::Silu)?));
    let last = |i| i % 4 == 3 || (c.layers < 4 && i + 1 == c.layers);
    Ok(c.model(attends(cfg, c.layers, last)?.into_iter().map(|attends| match attends {
        true => vec![
            Branch::post(c.rms(), Op::Attention(attention.clone())),
            Branch::post(c.rms(), mlp.clone()),
        ],
        false => vec![
            Branch::pre(c.rms(), Op::DeltaNet(mixer.clone())),
            Branch::pre(c.rms(), mlp.clone()),
        ],
    })))
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.attention_layer_norm", "blk.{}.attn_norm"),
    To("model.layers.{}.feedforward_layer_norm", "blk.{}.ffn_norm"),
    // As transformers saves it, whose norm of the same name has another place in each kind of layer.
    To("model.layers.{}.feedforward_layer_norm", "blk.{}.post_attention_norm"),
    To("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"),
    To("model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"),
    To("model.layers.{}.linear_attn.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.linear_attn.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.linear_attn.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.linear_attn.g_proj", "blk.{}.attn_gate"),
    To("model.layers.{}.linear_attn.a_proj", "blk.{}.ssm_alpha"),
    To("model.layers.{}.linear_attn.b_proj", "blk.{}.ssm_beta"),
    // transformers saves thirds of the convolution under these names, whatever the widths.
    Join(
        &[
            "model.layers.{}.linear_attn.q_conv1d",
            "model.layers.{}.linear_attn.k_conv1d",
            "model.layers.{}.linear_attn.v_conv1d",
        ],
        &["blk.{}.ssm_conv1d_q", "blk.{}.ssm_conv1d_k", "blk.{}.ssm_conv1d_v"],
    ),
    Split(
        "model.layers.{}.linear_attn.conv1d",
        &["blk.{}.ssm_conv1d_q", "blk.{}.ssm_conv1d_k", "blk.{}.ssm_conv1d_v"],
    ),
    NegExp("model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a"),
    To("model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"),
    To("model.layers.{}.linear_attn.o_norm", "blk.{}.ssm_norm"),
    To("model.layers.{}.linear_attn.o_proj", "blk.{}.ssm_out"),
];
