//! Falcon-H1: attention and Mamba-2 side by side in every layer, with multipliers everywhere.
//! Zuo et al. 2025, arXiv:2507.22448.
use super::Family;
use super::Rename::{self, *};
use super::bamba;
use super::common::Common;
use super::common::mixers::{HYBRID, MAMBA2_GGUF, mamba2};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static FALCON_H1: Family = Family {
    name: "falcon_h1",
    hf: &["falcon_h1"],
    gguf: &["falcon-h1"],
    spec,
    names: &[bamba::NAMES, mamba2!("model.layers.{}.mamba.")],
    gguf_names: &[GGUF, MAMBA2_GGUF],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"rms_norm_eps": 1e-5, "max_position_embeddings": 8192}));
    let c = Common::read(cfg)?;
    let by = |key| cfg.float_or(key, 1.0);
    let [gate, down] = several(cfg, "mlp_multipliers")?;
    let norm = cfg.flag("mamba_rms_norm", false)?.then_some(c.rms());
    let into = by("ssm_in_multiplier")?;
    let mixer = Mamba2 {
        norm_before_gate: cfg.flag("mamba_norm_before_gate", true)?,
        scales: several::<5>(cfg, "ssm_multipliers")?.map(|by| into * by),
        ..HYBRID.mamba2(cfg, norm)?
    };
    // What multiplies the input multiplies queries and keys, and so their products twice.
    let (attention, into) = (c.biased(cfg)?, by("attention_in_multiplier")?);
    let scale = attention.scale * into * into * by("key_multiplier")?;
    let mixers = vec![
        Part {
            scale: into * by("attention_out_multiplier")?,
            ..Op::Attention(Attention { scale, ..attention }).into()
        },
        Part { scale: by("ssm_out_multiplier")?, ..Op::Mamba2(mixer).into() },
    ];
    let mlp = Mlp {
        bias: cfg.flag("mlp_bias", false)?,
        gate_scale: gate,
        ..c.gated(cfg.act("hidden_act", Act::Silu)?)
    };
    let layer = vec![
        Branch { pre: Some(c.rms()), ..Branch::bare(mixers) },
        Branch::pre(c.rms(), Op::Mlp(mlp)).scaled(down),
    ];
    let mut spec = c.model((0..c.layers).map(|_| layer.clone()));
    spec.embed.scale = by("embedding_multiplier")?;
    let scale = by("lm_head_multiplier")?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale, softcap: None };
    Ok(spec)
}

/// `N` multipliers, all one where the key is absent.
fn several<const N: usize>(cfg: &Config, key: &str) -> Result<[f32; N], ConfigError> {
    match cfg.floats(key)? {
        all if all.is_empty() => Ok([1.0; N]),
        all => all.try_into().map_err(|_| cfg.refuse(key, &format!("{N} numbers"))),
    }
}

const GGUF: &[Rename] = &[To("blk.{}.ffn_norm", "blk.{}.ffn_norm.weight")];
