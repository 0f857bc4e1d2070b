//! MiniCPM3: MiniCPM's scaled streams with latent attention. Hu et al. 2024, arXiv:2404.06395.
use super::Family;
use super::common::Common;
use super::common::latent::{LATENT, latent_heads};
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static MINICPM3: Family = Family {
    name: "minicpm3",
    hf: &["minicpm3"],
    gguf: &[],
    spec,
    names: &[LATENT, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &latent_heads(cfg)?.with_defaults(json!({
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_interleave": false,
        "scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 256,
    }));
    let mut c = Common::read(cfg)?;
    c.rope = c.latent_rope(cfg)?;
    let heads = cfg.with_defaults(json!({"v_head_dim": c.d_model / c.heads}));
    let latents = vec![c.latent(&heads)?; c.layers];
    let mlp = c.gated(cfg.act("hidden_act", Act::Silu)?);
    let mut spec = c.latent_decoder(latents, std::iter::repeat_n(Op::Mlp(mlp), c.layers));
    // Null is a scale of one.
    let deep = (c.layers as f32).sqrt();
    let depth = cfg.positive_or("scale_depth", deep)?;
    for branch in spec.layers.iter_mut().flatten() {
        branch.scale = depth / deep;
    }
    spec.embed.scale = cfg.positive("scale_emb")?;
    let scale = cfg.size_or("dim_model_base", c.d_model)? as f32 / c.d_model as f32;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale, softcap: None };
    Ok(spec)
}
