//! Nemotron-H: one operation a layer, Mamba-2, attention without positions, an MLP or experts.
//! NVIDIA 2025, arXiv:2504.03624.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::by_sigmoid;
use super::common::mixers::{Keys, MAMBA2_GGUF, PURE, by_layer, mamba2};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static NEMOTRON_H: Family = Family {
    name: "nemotron_h",
    hf: &["nemotron_h"],
    gguf: &["nemotron_h", "nemotron_h_moe"],
    spec,
    names: &[NAMES, mamba2!("backbone.layers.{}.mixer.")],
    gguf_names: &[GGUF, MAMBA2_GGUF],
};

const KEYS: Keys = Keys {
    state: "ssm_state_size",
    heads: "mamba_num_heads",
    head_dim: "mamba_head_dim",
    bias: "mamba_proj_bias",
    act: "mamba_hidden_act",
    ..PURE
};

/// What a layer does.
enum Kind {
    Mamba,
    Attention,
    Mlp,
    Moe,
}

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &by_layer(cfg)
        .with_defaults(json!({
            "layer_norm_epsilon": 1e-5, "time_step_min": 0.001, "head_dim": 128, "num_key_value_heads": 8,
        }))
        .with_aliases(&[
            ("layer_norm_epsilon", "rms_norm_eps"),
            ("layer_norm_eps", "rms_norm_eps"),
        ]);
    // transformers 5 counts the list instead of saying how many.
    let layers = cfg.texts("layers_block_type")?.len();
    let cfg = &match layers {
        0 => cfg.with_defaults(json!({})),
        _ => cfg.with_defaults(json!({ "num_hidden_layers": layers })),
    };
    let c = Common::read(cfg)?;
    let mut mixer = KEYS.mamba2(cfg, Some(c.rms()))?;
    // The class takes what steps are initialised from for their bound.
    mixer.dt_limit = (cfg.float_or("time_step_min", 0.0)?, f32::INFINITY);
    let attention = Attention { rope: None, ..c.biased(cfg)? };
    let mlp = c.plain(cfg.act("mlp_hidden_act", Act::Relu2)?, cfg.flag("mlp_bias", false)?);
    let moe = experts(cfg, &c, &mlp)?;
    let layers = kinds(cfg, c.layers)?.into_iter().map(|kind| {
        let op = match kind {
            Kind::Mamba => Op::Mamba2(mixer.clone()),
            Kind::Attention => Op::Attention(attention.clone()),
            Kind::Mlp => Op::Mlp(mlp.clone()),
            Kind::Moe => Op::Moe(moe.clone().ok_or_else(|| cfg.refuse(EXPERTS, "experts"))?),
        };
        Ok(vec![Branch::pre(c.rms(), op)])
    });
    let layers: Vec<Layer> = layers.collect::<Result<_, ConfigError>>()?;
    Ok(ModelSpec { ropes: Vec::new(), ..c.model(layers.into_iter()) })
}

/// What a config calls their number.
const EXPERTS: &str = "n_routed_experts";

/// Experts without gates, and one that every row visits.
fn experts(cfg: &Config, c: &Common, mlp: &Mlp) -> Result<Option<Moe>, ConfigError> {
    if cfg.optional_size(cfg.pick(EXPERTS, "num_local_experts"))?.is_none() {
        return Ok(None);
    }
    if cfg.optional_size("moe_latent_size")?.is_some() {
        return Err(cfg.refuse("moe_latent_size", "nothing: experts of compressed inputs"));
    }
    let moe = c.moe(cfg, mlp.act, by_sigmoid(cfg)?)?;
    let expert = Mlp { d_ff: moe.expert.d_ff, ..mlp.clone() };
    let shared = "moe_shared_expert_intermediate_size";
    let shared = cfg.count_or(cfg.pick(shared, "shared_expert_intermediate_size"), 0)?;
    Ok(Some(Moe { expert, ..moe }.and_shared(shared)))
}

/// By a letter a layer, by a word a layer, or by which of GGUF's numbers are not zero.
fn kinds(cfg: &Config, layers: usize) -> Result<Vec<Kind>, ConfigError> {
    let cfg = cfg.with_aliases(&[("layers_block_type", "layer_types")]);
    let (words, pattern) = (cfg.texts("layer_types")?, cfg.text("hybrid_override_pattern")?);
    let experts = cfg.optional_size("num_local_experts")?.is_some();
    let (kv_heads, d_ff) = (cfg.sizes("kv_heads_by_layer")?, cfg.sizes("d_ff_by_layer")?);
    let kinds: Option<Vec<Kind>> = if !words.is_empty() {
        words.iter().map(|word| kind(word)).collect()
    } else if let Some(pattern) = pattern {
        pattern.chars().map(|letter| kind(letter.encode_utf8(&mut [0; 4]))).collect()
    } else {
        let of = |(heads, width): (&usize, &usize)| match (heads, width) {
            (0, 0) => Kind::Mamba,
            (0, _) if experts => Kind::Moe,
            (0, _) => Kind::Mlp,
            _ => Kind::Attention,
        };
        Some(kv_heads.iter().zip(&d_ff).map(of).collect())
    };
    let expected = format!("{layers} of linear_attention, full_attention, mlp and moe");
    kinds.filter(|k| k.len() == layers).ok_or_else(|| cfg.refuse("layer_types", &expected))
}

fn kind(name: &str) -> Option<Kind> {
    match name {
        "M" | "linear_attention" | "mamba" => Some(Kind::Mamba),
        "*" | "full_attention" | "attention" => Some(Kind::Attention),
        "-" | "mlp" => Some(Kind::Mlp),
        "E" | "moe" => Some(Kind::Moe),
        _ => None,
    }
}

const NAMES: &[Rename] = &[
    To("backbone.embeddings", "token_embd"),
    To("backbone.norm_f", "output_norm"),
    To("lm_head", "output"),
    To("backbone.layers.{}.norm", "blk.{}.attn_norm"),
    To("backbone.layers.{}.norm", "blk.{}.ffn_norm"),
    To("backbone.layers.{}.mixer.q_proj", "blk.{}.attn_q"),
    To("backbone.layers.{}.mixer.k_proj", "blk.{}.attn_k"),
    To("backbone.layers.{}.mixer.v_proj", "blk.{}.attn_v"),
    To("backbone.layers.{}.mixer.o_proj", "blk.{}.attn_output"),
    To("backbone.layers.{}.mixer.up_proj", "blk.{}.ffn_up"),
    To("backbone.layers.{}.mixer.down_proj", "blk.{}.ffn_down"),
    To("backbone.layers.{}.mixer.gate", "blk.{}.ffn_gate_inp"),
    To("backbone.layers.{}.mixer.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"),
    Stack("backbone.layers.{}.mixer.experts.{e}.up_proj", "blk.{}.ffn_up_exps"),
    Stack("backbone.layers.{}.mixer.experts.{e}.down_proj", "blk.{}.ffn_down_exps"),
    To("backbone.layers.{}.mixer.shared_experts.up_proj", "blk.{}.ffn_up_shexp"),
    To("backbone.layers.{}.mixer.shared_experts.down_proj", "blk.{}.ffn_down_shexp"),
];

const GGUF: &[Rename] = &[To("blk.{}.attn_norm", "blk.{}.ffn_norm")];
