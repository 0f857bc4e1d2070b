//! DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash and Mistral 4: latent attention and many small experts.
//! DeepSeek-AI 2024, arXiv:2405.04434, arXiv:2412.19437; Kimi 2025, arXiv:2507.20534.
use super::Family;
use super::common::Common;
use super::common::experts::{
    EXPERTS, after_dense, by_sigmoid, by_softmax, in_groups, sparse_layers,
};
use super::common::latent::{GGUF_LATENT, LATENT, latent_heads};
use super::common::names::{DECODER, GGUF_PREDICTING, PREDICTING};
use super::common::ropes::{class_rope, mistral_yarn};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static DEEPSEEK_V2: Family = Family {
    name: "deepseek_v2",
    hf: &["deepseek_v2"],
    gguf: &["deepseek2"],
    spec: v2,
    names: &[PREDICTING, LATENT, EXPERTS, DECODER],
    gguf_names: &[GGUF_PREDICTING, GGUF_LATENT],
};
pub static DEEPSEEK_V3: Family = Family {
    name: "deepseek_v3",
    hf: &["deepseek_v3", "kimi_k2"],
    gguf: &[],
    spec: v3,
    ..DEEPSEEK_V2
};
pub static GLM4_MOE_LITE: Family =
    Family { name: "glm4_moe_lite", hf: &["glm4_moe_lite"], spec: glm_lite, ..DEEPSEEK_V3 };
pub static MISTRAL4: Family =
    Family { name: "mistral4", hf: &["mistral4"], spec: mistral4, ..DEEPSEEK_V3 };

fn v2(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    if cfg.float_or("attention_temperature_scale", 0.0)? != 0.0 {
        return Err(cfg.refuse("attention_temperature_scale", "nothing"));
    }
    if cfg.text("scoring_func")? == Some("sigmoid") {
        return v3(cfg);
    }
    cfg.only(&[("scoring_func", json!("softmax"))])?;
    // A GGUF file states groups where there are any, and no method.
    let method = cfg.pick("greedy", "group_limited_greedy");
    let cfg = &cfg.with_defaults(json!({"topk_method": method, "n_shared_experts": 2}));
    let grouped = match cfg.text("topk_method")? {
        Some("greedy") => false,
        None | Some("group_limited_greedy") => true,
        _ => return Err(cfg.refuse("topk_method", "greedy or group_limited_greedy")),
    };
    let (count, top) = (cfg.size_or("n_group", 1)?, cfg.size_or("topk_group", 1)?);
    let router = Router {
        scale: cfg.float_or("routed_scaling_factor", 1.0)?,
        groups: (grouped && count > 1).then_some(Groups { count, top, best: 1 }),
        // transformers leaves the weights as they are, whatever the config says.
        ..by_softmax(cfg.pick(false, cfg.flag("norm_topk_prob", false)?))
    };
    let c = read(cfg)?;
    let latents = vec![c.latent(cfg)?; c.layers];
    model(cfg, &c, router, latents, &after_dense(cfg, c.layers)?)
}

/// Experts by their sigmoids.
pub fn v3(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
        "n_shared_experts": 1,
    }));
    let c = read(cfg)?;
    let latents = vec![c.latent(cfg)?; c.layers];
    model(cfg, &c, by_sigmoid(cfg)?, latents, &after_dense(cfg, c.layers)?)
}

fn glm_lite(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "rms_norm_eps": 1e-5, "routed_scaling_factor": 1.8, "n_shared_experts": 1,
    }));
    let c = read(cfg)?;
    let sparse = sparse_layers(cfg, c.layers, |i| i > 0)?;
    let latents = vec![c.latent(cfg)?; c.layers];
    model(cfg, &c, by_sigmoid(cfg)?, latents, &sparse)
}

fn mistral4(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &class_rope(cfg, 1e4, &mistral_yarn(128.0, 8192))?
        .with_defaults(json!({"n_shared_experts": 1}));
    let c = read(cfg)?;
    cfg.only(&[("scoring_func", json!("softmax"))])?;
    let router = Router { score: Score::Softmax, select_bias: false, ..in_groups(cfg)? };
    let beta = cfg.float_or("rope_scaling.llama_4_scaling_beta", 0.0)?;
    let original = "rope_scaling.original_max_position_embeddings";
    let period = cfg.positive_or(original, c.context as f32)?;
    let temperature = (beta != 0.0).then_some(Temperature { beta, period, offset: 0.0 });
    let latents = vec![Mla { temperature, ..c.latent(cfg)? }; c.layers];
    model(cfg, &c, router, latents, &after_dense(cfg, c.layers)?)
}

fn read(cfg: &Config) -> Result<Common, ConfigError> {
    let cfg = &latent_heads(cfg)?;
    let mut c = Common::read(cfg)?;
    c.rope = c.latent_rope(cfg)?;
    c.drop_predicting(cfg)?;
    Ok(c)
}

fn model(
    cfg: &Config,
    c: &Common,
    router: Router,
    latents: Vec<Mla>,
    sparse: &[bool],
) -> Result<ModelSpec, ConfigError> {
    let act = cfg.act("hidden_act", Act::Silu)?;
    let mlp = c.gated(act);
    let moe = c.moe(cfg, act, router)?.and_shared_by(cfg, "n_shared_experts")?;
    let feed = |sparse| if sparse { Op::Moe(moe.clone()) } else { Op::Mlp(mlp.clone()) };
    Ok(c.latent_decoder(latents, sparse.iter().copied().map(feed)))
}
