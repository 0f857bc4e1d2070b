//! Trinity, by Arcee: norms on both sides of a branch, gated attention outputs, local layers that
//! rotate beside full ones that do not, DeepSeek-V3's router. Arcee AI 2025.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::experts::{EXPERTS, by_sigmoid, sparse_layers};
use super::common::names::DECODER;
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static AFMOE: Family = Family {
    name: "afmoe",
    hf: &["afmoe"],
    gguf: &[],
    spec,
    names: &[NAMES, EXPERTS, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "head_dim": 128, "rms_norm_eps": 1e-5, "sliding_window": 1024, "num_dense_layers": 1,
        "num_experts": 64, "num_experts_per_tok": 6, "num_shared_experts": 2,
        "moe_intermediate_size": 1408,
    }));
    cfg.only(&[("route_norm", json!(true))])?;
    let c = Common::read(cfg)?;
    let attention =
        Attention { qk_norm: c.qk_norm(), out_gate: Some(OutGate::PerChannel), ..c.biased(cfg)? };
    let every = cfg.size_or("global_attn_every_n_layers", 4)?;
    let reaches = cfg.reaches(c.layers, |i| !(i + 1).is_multiple_of(every))?;
    let act = cfg.act("hidden_act", Act::Silu)?;
    let scale = cfg.float_or("route_scale", 1.0)?;
    let router = Router { scale, ..by_sigmoid(cfg)? };
    let moe = c.moe(cfg, act, router)?.and_shared_by(cfg, "num_shared_experts")?;
    let dense = cfg.count_or("num_dense_layers", 0)?;
    let sparse = sparse_layers(cfg, c.layers, |i| i >= dense)?;
    let mut spec = c.model(reaches.into_iter().zip(sparse).map(|(reach, sparse)| {
        let rope = attention.rope.filter(|_| reach != Reach::All);
        let attention = Attention { reach, rope, ..attention.clone() };
        let feed = if sparse { Op::Moe(moe.clone()) } else { Op::Mlp(c.gated(act)) };
        vec![Branch::sandwich(c.rms(), Op::Attention(attention)), Branch::sandwich(c.rms(), feed)]
    }));
    if cfg.flag("mup_enabled", false)? {
        spec.embed.scale = (c.d_model as f64).sqrt() as f32;
    }
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.self_attn.gate_proj", "blk.{}.attn_gate"),
    To("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"),
    To("model.layers.{}.pre_mlp_layernorm", "blk.{}.ffn_norm"),
    To("model.layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm"),
    To("model.layers.{}.mlp.router.gate", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.mlp.expert_bias", "blk.{}.exp_probs_b.bias"),
];
