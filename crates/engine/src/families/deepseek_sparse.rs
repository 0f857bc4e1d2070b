//! DeepSeek-V3.2 and GLM-5: DeepSeek-V3 whose queries attend to the keys that an indexer chooses.
//! DeepSeek-AI 2025, arXiv:2512.02556.
use super::Family;
use super::common::latent::indexer;
use super::deepseek::{DEEPSEEK_V3, v3};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static DEEPSEEK_V32: Family =
    Family { name: "deepseek_v32", hf: &["deepseek_v32"], spec: v32, ..DEEPSEEK_V3 };
pub static GLM_MOE_DSA: Family =
    Family { name: "glm_moe_dsa", hf: &["glm_moe_dsa"], spec: glm_dsa, ..DEEPSEEK_V3 };

/// The indexer's heads rotate by halves.
fn v32(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let mut spec = v3(cfg)?;
    let halves = Rope { layout: RopeLayout::Halves, ..spec.ropes[0].clone() };
    spec.ropes.push(halves);
    let indexer = indexer(cfg, RopeId(1))?;
    attend(&mut spec, |_| Keys::Chosen(indexer.clone()));
    Ok(spec)
}

/// Layers without an indexer go by the choice of the last one before them.
fn glm_dsa(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"rms_norm_eps": 1e-5, "n_group": 1, "topk_group": 1}));
    cfg.only(&[("indexer_rope_interleave", json!(true))])?;
    let mut spec = v3(cfg)?;
    let (choosing, indexer) = (choosing(cfg, spec.layers.len())?, indexer(cfg, RopeId(0))?);
    attend(&mut spec, |i| if choosing[i] { Keys::Chosen(indexer.clone()) } else { Keys::AsBefore });
    Ok(spec)
}

/// Which layers have an indexer.
fn choosing(cfg: &Config, layers: usize) -> Result<Vec<bool>, ConfigError> {
    let (types, pattern) = (cfg.texts("indexer_types")?, cfg.text("index_topk_pattern")?);
    let (key, choosing) = if !types.is_empty() {
        if !types.iter().all(|t| t == "full" || t == "shared") {
            return Err(cfg.refuse("indexer_types", "a list of full or shared"));
        }
        ("indexer_types", types.iter().map(|t| t == "full").collect())
    } else if let Some(pattern) = pattern {
        if !pattern.chars().all(|c| c == 'F' || c == 'S') {
            return Err(cfg.refuse("index_topk_pattern", "F or S for each layer"));
        }
        ("index_topk_pattern", pattern.chars().map(|c| c == 'F').collect())
    } else {
        let offset = cfg.count_or("index_skip_topk_offset", 2)?;
        let every = cfg.count_or("index_topk_freq", 1)?.max(1);
        let full = |i: usize| (i + 1).saturating_sub(offset).is_multiple_of(every);
        ("index_topk_freq", (0..layers).map(full).collect::<Vec<_>>())
    };
    if choosing.len() != layers || !choosing[0] {
        return Err(cfg.refuse(key, &format!("{layers} layers, the first of them full")));
    }
    Ok(choosing)
}

/// Has layer `i` attend to `keys(i)`.
fn attend(spec: &mut ModelSpec, keys: impl Fn(usize) -> Keys) {
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        for part in layer.iter_mut().flat_map(|b| &mut b.parts) {
            if let Op::Mla(m) = &mut part.op {
                m.keys = keys(i);
            }
        }
    }
}
