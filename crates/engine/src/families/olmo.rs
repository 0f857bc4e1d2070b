//! OLMo 1, 2 and 3. Groeneveld et al. 2024, arXiv:2402.00838; 2025, arXiv:2501.00656.
//! 1 is Llama with layer norms without parameters and bounded queries, keys and values. From 2 on a
//! branch is normed after it instead, as are all queries and all keys together; 3 has local layers,
//! which keep their rotary table when the others' is stretched.
use super::Family;
use super::common::names::{DECODER, POST_NORMS};
use super::common::{Common, scaling, slides};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static OLMO: Family = Family {
    name: "olmo",
    hf: &["olmo"],
    gguf: &[],
    spec: olmo,
    names: &[DECODER],
    gguf_names: &[],
};
pub static OLMO2: Family = Family {
    name: "olmo2",
    hf: &["olmo2", "olmo3"],
    gguf: &["olmo2"],
    spec: olmo2,
    names: &[POST_NORMS, DECODER],
    gguf_names: &[],
};

fn olmo(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let mut c = Common::read(cfg)?;
    c.norm = Norm { weight: false, bias: false, ..Norm::layer(1e-5) };
    let attention = Attention { clip: cfg.optional_positive("clip_qkv")?, ..c.biased(cfg)? };
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    Ok(c.decoder(std::iter::repeat_n(attention, c.layers), &mlp))
}

fn olmo2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let local = cfg.text("model_type")? == Some("olmo3");
    let (window, theta) = if local { (json!(4096), 5e5) } else { (json!(null), 1e4) };
    let cfg = &cfg.with_defaults(json!({
        "rms_norm_eps": 1e-5, "sliding_window": window, "rope_theta": theta,
    }));
    let c = Common::read(cfg)?;
    let reaches = cfg.reaches(c.layers, slides(cfg, 4)?)?;
    let qk_norm = c.qk_norm().map(|norm| QkNorm { over: NormOver::Whole, ..norm });
    let attention = Attention { qk_norm, ..c.biased(cfg)? };
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    let mut spec = c.model(reaches.into_iter().map(|reach| {
        let rope = Some(RopeId((reach != Reach::All).into()));
        vec![
            Branch::post(c.rms(), Op::Attention(Attention { reach, rope, ..attention.clone() })),
            Branch::post(c.rms(), Op::Mlp(mlp.clone())),
        ]
    }));
    spec.ropes.push(Rope {
        theta: cfg.positive_or("rope_local_base_freq", c.rope.theta)?,
        scaling: scaling(cfg, "rope_local_scaling")?,
        ..c.rope.clone()
    });
    Ok(spec)
}
