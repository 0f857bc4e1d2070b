//! Decoders whose MLP has no gate: the squared ReLU of Arcee and Nemotron 3 and 4, which norms
//! layers by 1 + w, and Apertus's xIELU. So et al. 2021, arXiv:2109.08668; Parmar et al. 2024,
//! arXiv:2402.16819; Huang & Schlag 2024, arXiv:2411.13010.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::names::DECODER;
use super::common::ropes::class_rope;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static ARCEE: Family = Family {
    name: "arcee",
    hf: &["arcee"],
    gguf: &["arcee"],
    spec: arcee,
    names: &[DECODER],
    gguf_names: &[],
};
pub static NEMOTRON: Family = Family {
    name: "nemotron",
    hf: &["nemotron"],
    gguf: &["nemotron"],
    spec: nemotron,
    names: &[NEMOTRON_NAMES, DECODER],
    gguf_names: &[],
};
pub static APERTUS: Family = Family {
    name: "apertus",
    hf: &["apertus"],
    gguf: &["apertus"],
    spec: apertus,
    names: &[APERTUS_NAMES, DECODER],
    gguf_names: &[],
};

fn arcee(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"rms_norm_eps": 1e-5}));
    let c = Common::read(cfg)?.permuted(cfg);
    plain(cfg, &c, c.biased(cfg)?)
}

fn nemotron(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg
        .with_aliases(&[("norm_eps", "layer_norm_eps")])
        .with_defaults(json!({"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5}));
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    plain(cfg, &c, c.biased(cfg)?)
}

fn plain(cfg: &Config, c: &Common, attention: Attention) -> Result<ModelSpec, ConfigError> {
    let mlp = c.plain(cfg.act("hidden_act", Act::Relu2)?, cfg.flag("mlp_bias", false)?);
    Ok(c.decoder((0..c.layers).map(|_| attention.clone()), &mlp))
}

fn apertus(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    cfg.only(&[("qk_norm", json!(true)), ("post_norm", json!(false))])?;
    if cfg.pick(cfg.text("hidden_act")?, None).is_some_and(|act| act != "xielu") {
        return Err(cfg.refuse("hidden_act", "xielu"));
    }
    let cfg = &class_rope(
        &cfg.with_defaults(json!({"rms_norm_eps": 1e-5})),
        12e6,
        &json!({
            "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        }),
    )?
    .with_defaults(json!({"rope_theta": 12e6}));
    let c = Common::read(cfg)?;
    let attention = Attention { qk_norm: c.qk_norm(), ..c.biased(cfg)? };
    let bias = cfg.flag("mlp_bias", false)?;
    let numbers = |name| {
        let found = cfg.floats(name)?;
        let expected = format!("{} numbers", c.layers);
        if found.len() == c.layers { Ok(found) } else { Err(cfg.refuse(name, &expected)) }
    };
    let (positive, negative) = (numbers("act_fn_alpha_p")?, numbers("act_fn_alpha_n")?);
    let (beta, bound) = (numbers("act_fn_beta")?, numbers("act_fn_eps")?);
    Ok(c.model((0..c.layers).map(|i| {
        let act = Act::XIelu {
            positive: softplus(positive[i]),
            negative: beta[i] + softplus(negative[i]),
            beta: beta[i],
            bound: bound[i],
        };
        vec![
            Branch::pre(c.norm, Op::Attention(attention.clone())),
            Branch::pre(c.norm, Op::Mlp(c.plain(act, bias))),
        ]
    })))
}

/// `ln(1 + e^x)`
fn softplus(x: f32) -> f32 {
    libm::log1p(libm::exp(f64::from(x))) as f32
}

const NEMOTRON_NAMES: &[Rename] = &[
    PlusOne("model.norm", "output_norm"),
    PlusOne("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    PlusOne("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
];

/// The activations' parameters are read with the hyper-parameters.
const APERTUS_NAMES: &[Rename] = &[
    To("model.layers.{}.attention_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.feedforward_layernorm", "blk.{}.ffn_norm"),
    Ignore("model.layers.{}.mlp.act_fn.*"),
];
