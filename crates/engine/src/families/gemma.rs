//! Gemma 1, 2 and 3 (text). Gemma Team 2024, arXiv:2403.08295, arXiv:2408.00118; 2025,
//! arXiv:2503.19786. √d-scaled embeddings, norms by 1 + w, GeGLU, a tied head; from 2 on, norms on
//! both sides of a branch and local layers; 2 caps scores and logits, 3 norms queries and keys and
//! gives local layers a rotary table of their own.
use super::Family;
use super::Rename::{self, *};
use super::common::encoders::pooled;
use super::common::names::DECODER;
use super::common::{Common, inverse_root, scaling, slides};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GEMMA: Family = Family {
    name: "gemma",
    hf: &["gemma"],
    gguf: &["gemma"],
    spec: gemma,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};
pub static GEMMA2: Family = Family {
    name: "gemma2",
    hf: &["gemma2"],
    gguf: &["gemma2"],
    spec: gemma2,
    names: &[NAMES_2, DECODER],
    gguf_names: &[],
};
pub static GEMMA3: Family = Family {
    name: "gemma3",
    hf: &["gemma3_text"],
    gguf: &["gemma3", "gemma-embedding"],
    spec: gemma3,
    ..GEMMA2
};

fn gemma(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    one_way(cfg)?;
    let cfg = &cfg.with_defaults(json!({"head_dim": 256, "max_position_embeddings": 8192}));
    let c = read(cfg)?;
    let attention = c.biased(cfg)?;
    // The first release says "gelu" and means its tanh form.
    let act = match cfg.text("hidden_act")? {
        Some("gelu") => Act::GeluTanh,
        _ => cfg.act("hidden_act", Act::GeluTanh)?,
    };
    let mlp = c.gated(act);
    let mut spec = c.decoder((0..c.layers).map(|_| attention.clone()), &mlp);
    spec.embed.scale = root(&c);
    Ok(spec)
}

fn gemma2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    one_way(cfg)?;
    let cfg = &cfg.with_defaults(json!({
        "head_dim": 256, "max_position_embeddings": 8192, "sliding_window": 4096,
        "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    }));
    let c = read(cfg)?;
    let reaches = cfg.reaches(c.layers, |i| i % 2 == 0)?;
    let rope = vec![RopeId(0); c.layers];
    sandwich(cfg, &c, None, reaches, rope)
}

fn gemma3(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131_072, "sliding_window": 4096, "rope_theta": 1e6,
        "query_pre_attn_scalar": 256,
    }));
    let c = read(cfg)?;
    let reaches = cfg.reaches(c.layers, slides(cfg, 6)?)?;
    let ropes = reaches.iter().map(|r| RopeId((*r != Reach::All).into())).collect();
    let mut spec = sandwich(cfg, &c, c.qk_norm(), reaches, ropes)?;
    spec.ropes.push(Rope {
        theta: cfg.positive_or("rope_local_base_freq", 1e4)?,
        scaling: scaling(cfg, "rope_local_scaling")?,
        ..c.rope.clone()
    });
    if both_ways(cfg)? {
        spec.head = pooled(Pool::Mean);
        let ops = spec.layers.iter_mut().flatten().flat_map(|branch| &mut branch.parts);
        for part in ops {
            let Op::Attention(a) = &mut part.op else { continue };
            a.causal = false;
            // A window counts both sides.
            if let Reach::Window(n) = &mut a.reach {
                *n = *n / 2 + 1;
            }
        }
    }
    Ok(spec)
}

/// Whether all positions see each other: Vera et al. 2025, arXiv:2509.20354.
fn both_ways(cfg: &Config) -> Result<bool, ConfigError> {
    let both = !cfg.flag("causal_attention", true)?;
    cfg.flag("use_bidirectional_attention", both)
}

fn one_way(cfg: &Config) -> Result<(), ConfigError> {
    let both = both_ways(cfg)?;
    if both { Err(cfg.refuse("use_bidirectional_attention", "false")) } else { Ok(()) }
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    Common::read(&cfg.with_defaults(json!({"tie_word_embeddings": true})))
}

fn sandwich(
    cfg: &Config,
    c: &Common,
    qk_norm: Option<QkNorm>,
    reaches: Vec<Reach>,
    ropes: Vec<RopeId>,
) -> Result<ModelSpec, ConfigError> {
    let mlp = c.gated(cfg.act("hidden_activation", Act::GeluTanh)?);
    let attention = Attention {
        qk_norm,
        scale: inverse_root(cfg.positive("query_pre_attn_scalar")?.into()),
        softcap: cfg.optional_positive("attn_logit_softcapping")?,
        ..c.biased(cfg)?
    };
    let mut spec = c.model(reaches.into_iter().zip(ropes).map(|(reach, rope)| {
        let here = Attention { reach, rope: Some(rope), ..attention.clone() };
        vec![
            Branch::sandwich(c.rms(), Op::Attention(here)),
            Branch::sandwich(c.rms(), Op::Mlp(mlp.clone())),
        ]
    }));
    spec.embed.scale = root(c);
    let softcap = cfg.optional_positive("final_logit_softcapping")?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale: 1.0, softcap };
    Ok(spec)
}

/// What embeddings are multiplied by.
fn root(c: &Common) -> f32 {
    (c.d_model as f64).sqrt() as f32
}

const NAMES: &[Rename] = &[
    PlusOne("model.norm", "output_norm"),
    PlusOne("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    PlusOne("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
];

const NAMES_2: &[Rename] = &[
    PlusOne("model.norm", "output_norm"),
    PlusOne("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    PlusOne("model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"),
    PlusOne("model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"),
    PlusOne("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"),
    PlusOne("model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"),
    PlusOne("model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"),
];
