//! EXAONE 4. LG AI Research 2025, arXiv:2507.11407. Branches normed after them, queries and keys by
//! head; where there are local layers, these alone rotate.
use super::Family;
use super::common::names::{DECODER, POST_NORMS};
use super::common::{Common, slides};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static EXAONE4: Family = Family {
    name: "exaone4",
    hf: &["exaone4"],
    gguf: &["exaone4"],
    spec: exaone4,
    names: &[POST_NORMS, DECODER],
    gguf_names: &[],
};

fn exaone4(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"rms_norm_eps": 1e-5, "sliding_window": 4096}));
    let c = Common::read(cfg)?;
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    Ok(c.model(attentions(cfg, &c)?.into_iter().map(|attention| {
        vec![
            Branch::post(c.rms(), Op::Attention(attention)),
            Branch::post(c.rms(), Op::Mlp(mlp.clone())),
        ]
    })))
}

fn attentions(cfg: &Config, c: &Common) -> Result<Vec<Attention>, ConfigError> {
    let reaches = cfg.reaches(c.layers, slides(cfg, 4)?)?;
    let local = cfg.optional_size("sliding_window")?.is_some();
    let attention = Attention { qk_norm: c.qk_norm(), ..c.biased(cfg)? };
    let of = |reach| {
        let rope = attention.rope.filter(|_| !local || reach != Reach::All);
        Attention { reach, rope, ..attention.clone() }
    };
    Ok(reaches.into_iter().map(of).collect())
}
