//! Nomic BERT: BERT with rotation in place of learned positions, a gated MLP and few biases.
//! Nussbaum et al. 2024, arXiv:2402.01613.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::encoders::post_normed;
use super::common::names::QKV;
use crate::config::{Config, ConfigError, Source};
use crate::spec::*;
use serde_json::json;

pub static NOMIC_BERT: Family = Family {
    name: "nomic_bert",
    hf: &["nomic_bert"],
    gguf: &["nomic-bert"],
    spec,
    names: &[NAMES],
    gguf_names: &[GGUF_NAMES],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = cfg.with_aliases(&[
        ("n_embd", "hidden_size"),
        ("n_head", "num_attention_heads"),
        ("n_layer", "num_hidden_layers"),
        ("n_inner", "intermediate_size"),
        ("n_positions", "max_position_embeddings"),
        ("rotary_emb_base", "rope_theta"),
        ("layer_norm_epsilon", "layer_norm_eps"),
    ]);
    let cfg = &cfg.with_defaults(json!({"type_vocab_size": 2, "layer_norm_eps": 1e-12}));
    cfg.only(&[
        ("activation_function", json!("swiglu")),
        ("rotary_emb_fraction", json!(1.0)),
        ("rotary_emb_interleaved", json!(false)),
        ("prenorm", json!(false)),
        ("use_rms_norm", json!(false)),
        ("parallel_block", json!(false)),
        ("causal", json!(false)),
    ])?;
    for key in ["moe_every_n_layers", "num_experts", "rotary_scaling_factor"] {
        if cfg.get(key).is_some_and(|value| value.as_f64() != Some(0.0)) {
            return Err(cfg.refuse(key, "nothing or 0"));
        }
    }
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    let bias = |key: &str, stated: &str| cfg.flag(key, cfg.flag(stated, false)?);
    let (first, second) = (bias("mlp_fc1_bias", "mlp_bias")?, bias("mlp_fc2_bias", "mlp_bias")?);
    if first != second {
        return Err(cfg.refuse("mlp_fc2_bias", "the same as mlp_fc1_bias"));
    }
    let qkv_bias = bias("qkv_proj_bias", "attention_bias")?;
    let out_bias = cfg.flag("attention_out_bias", qkv_bias)?;
    let attention = Attention { qkv_bias, out_bias, ..c.attention() };
    let mlp = Mlp { bias: first, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    let mut spec = post_normed(&c, &attention, &mlp);
    spec.embed.types = match cfg.source {
        Source::HuggingFace => Some(cfg.size("type_vocab_size")?),
        Source::Gguf => cfg.optional_size("type_vocab_size")?,
    };
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("bert.embeddings.word_embeddings", "token_embd"),
    To("bert.embeddings.token_type_embeddings", "token_types"),
    To("bert.emb_ln", "token_embd_norm"),
    Split("bert.encoder.layers.{}.attn.Wqkv", QKV),
    To("bert.encoder.layers.{}.attn.out_proj", "blk.{}.attn_output"),
    To("bert.encoder.layers.{}.norm1", "blk.{}.ffn_norm"),
    To("bert.encoder.layers.{}.mlp.fc11", "blk.{}.ffn_up"),
    To("bert.encoder.layers.{}.mlp.fc12", "blk.{}.ffn_gate"),
    To("bert.encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down"),
    Next("bert.encoder.layers.{}.norm2", "blk.{}.attn_norm", "output_norm"),
    Ignore("bert.pooler.dense"),
    Ignore("cls.*"),
];

const GGUF_NAMES: &[Rename] = &[
    Split("blk.{}.attn_qkv", QKV),
    To("blk.{}.attn_output_norm", "blk.{}.ffn_norm"),
    Next("blk.{}.layer_output_norm", "blk.{}.attn_norm", "output_norm"),
];
