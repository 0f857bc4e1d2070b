//! ModernBERT: an encoder with norms before its branches, a gated MLP, and windows in most layers, which
//! have a rotary table of their own. Warner et al. 2024, arXiv:2412.13663.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::encoders::{pooled, scores};
use super::common::names::{FUSED, GATE_UP, QKV};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static MODERNBERT: Family = Family {
    name: "modernbert",
    hf: &["modernbert"],
    gguf: &["modern-bert"],
    spec,
    names: &[NAMES],
    gguf_names: &[FUSED, GATE_UP],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = cfg.with_aliases(&[
        ("norm_eps", "layer_norm_eps"),
        ("global_rope_theta", "rope_theta"),
        ("local_rope_theta", "rope_local_base_freq"),
        ("sliding_window", "local_attention"),
        ("sliding_window_pattern", "global_attn_every_n_layers"),
    ]);
    let cfg = &cfg.with_defaults(json!({
        "hidden_size": 768, "num_hidden_layers": 22, "num_attention_heads": 12,
        "intermediate_size": 1152, "vocab_size": 50_368, "max_position_embeddings": 8192,
        "layer_norm_eps": 1e-5, "rope_theta": 160_000.0, "local_attention": 128,
    }));
    let mut c = Common::read(cfg)?;
    c.norm = Norm { bias: cfg.flag("norm_bias", false)?, ..Norm::layer(c.eps) };
    let attention = Attention { causal: false, ..c.biased(cfg)? };
    let bias = cfg.flag("mlp_bias", false)?;
    let mlp = Mlp { bias, ..c.gated(cfg.act("hidden_activation", Act::Gelu)?) };
    let every = cfg.size_or("global_attn_every_n_layers", 3)?;
    // As many to each side.
    let window = Reach::Window(cfg.size("local_attention")? / 2 + 1);
    let mut spec = c.model((0..c.layers).map(|i| {
        let (reach, rope) = if i.is_multiple_of(every) { (Reach::All, 0) } else { (window, 1) };
        let here = Attention { reach, rope: Some(RopeId(rope)), ..attention.clone() };
        // The first reads what the embedding's norm made.
        let pre = Some(c.norm).filter(|_| i > 0);
        let attends = Branch { pre, ..Branch::pre(c.norm, Op::Attention(here)) };
        vec![attends, Branch::pre(c.norm, Op::Mlp(mlp.clone()))]
    }));
    let theta = cfg.positive_or("rope_local_base_freq", 1e4)?;
    spec.ropes.push(Rope { theta, ..c.rope.clone() });
    spec.embed.norm = Some(c.norm);
    spec.head = pooled(Pool::Mean);
    if let Some(labels) = scores(cfg)? {
        let how = match cfg.text("classifier_pooling")? {
            None | Some("cls") => Pool::Cls,
            Some("mean") => Pool::Mean,
            Some(_) => return Err(cfg.refuse("classifier_pooling", "cls or mean")),
        };
        cfg.only(&[("classifier_activation", json!("gelu"))])?;
        let bias = cfg.flag("classifier_bias", false)?;
        let act = Some(DenseAct::Gelu);
        let first = Dense { width: c.d_model, bias, act, norm: Some(c.norm) };
        let dense = vec![first, Dense { width: labels, bias: true, act: None, norm: None }];
        spec.head = Head::Pool { how, dense, normalise: false, scores: true };
    }
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("model.embeddings.tok_embeddings", "token_embd"),
    To("model.embeddings.norm", "token_embd_norm"),
    To("model.layers.{}.attn_norm", "blk.{}.attn_norm"),
    Split("model.layers.{}.attn.Wqkv", QKV),
    To("model.layers.{}.attn.Wo", "blk.{}.attn_output"),
    To("model.layers.{}.mlp_norm", "blk.{}.ffn_norm"),
    Split("model.layers.{}.mlp.Wi", &["blk.{}.ffn_gate", "blk.{}.ffn_up"]),
    To("model.layers.{}.mlp.Wo", "blk.{}.ffn_down"),
    To("model.final_norm", "output_norm"),
    // What scores a text: else it is of other tasks.
    To("head.dense", "cls"),
    To("head.norm", "cls_norm"),
    To("classifier", "cls.output"),
    Ignore("head.dense"),
    Ignore("head.norm"),
    Ignore("decoder"),
];
