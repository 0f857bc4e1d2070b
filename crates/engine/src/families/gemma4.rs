//! Gemma 4 (text). Gemma Team 2026. Norms on both sides of a branch, full layers with wider heads of
//! which a part rotates, values without a projection of their own or keys and values of earlier
//! layers, inputs of each token to each layer, experts beside an MLP, and a learned scalar a layer.
use super::Family;
use super::Rename::{self, *};
use super::common::experts::by_softmax;
use super::common::inputs::{INPUTS, ends, gate, shared};
use super::common::names::DECODER;
use super::common::{Common, inverse_root, scaling};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static GEMMA4: Family = Family {
    name: "gemma4",
    hf: &["gemma4_text"],
    gguf: &["gemma4"],
    spec,
    names: &[NAMES, INPUTS, DECODER],
    gguf_names: &[&[Split(
        "blk.{}.ffn_gate_up_exps",
        &["blk.{}.ffn_gate_exps", "blk.{}.ffn_up_exps"],
    )]],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &defaults(cfg);
    let c = Common::read(cfg)?;
    if cfg.text("use_bidirectional_attention")? == Some("all") {
        return Err(cfg.refuse("use_bidirectional_attention", "null or vision"));
    }
    let mut reaches = cfg.reaches(c.layers, |i| !(i + 1).is_multiple_of(6))?;
    reaches.last_mut().into_iter().for_each(|last| *last = Reach::All);
    let shapes = shapes(cfg, &c, &reaches)?;
    let (norm, act) = (c.rms(), cfg.act("hidden_activation", Act::GeluTanh)?);
    let attention =
        Attention { scale: 1.0, qk_norm: c.qk_norm(), v_norm: Some(c.eps), ..c.biased(cfg)? };
    let (reused, shared) = (cfg.flag("attention_k_eq_v", false)?, shared(cfg, &reaches)?);
    let widths = cfg.by_layer("intermediate_size", c.layers)?;
    let wide = if cfg.flag("use_double_wide_mlp", false)? { 2 } else { 1 };
    let moe = moe(cfg, &c, act)?;
    let inputs = cfg.optional_size("hidden_size_per_layer_input")?.is_some();
    let mut spec = c.model((0..c.layers).map(|i| {
        let full = reaches[i] == Reach::All;
        let attention = Attention {
            head_dim: shapes[i].0,
            kv_heads: shapes[i].1,
            reach: reaches[i],
            rope: Some(RopeId((!full).into())),
            v_from_k: full && reused,
            kv_from: shared[i],
            ..attention.clone()
        };
        let d_ff = widths[i] * if shared[i].is_some() { wide } else { 1 };
        let mlp = Op::Mlp(Mlp { d_ff, ..c.gated(act) });
        let mut layer = vec![Branch::sandwich(norm, Op::Attention(attention))];
        layer.push(match &moe {
            None => Branch::sandwich(norm, mlp),
            Some(moe) => {
                let part = |op: Op| Part { pre: Some(norm), post: Some(norm), ..op.into() };
                let parts = vec![part(mlp), part(Op::Moe(moe.clone()))];
                Branch { post: Some(norm), ..Branch::bare(parts) }
            }
        });
        layer.extend(inputs.then(|| gate(norm, act)));
        layer.last_mut().into_iter().for_each(|last| last.then = Then::Learned);
        layer
    }));
    let heads = |all: bool| {
        let of = reaches.iter().position(|r| (*r == Reach::All) == all);
        of.map_or(c.head_dim, |i| shapes[i].0)
    };
    spec.ropes[0].dim = heads(true);
    let local = Rope {
        theta: cfg.positive_or("rope_local_base_freq", 1e4)?,
        dim: heads(false),
        scaling: scaling(cfg, "rope_local_scaling")?,
        ..c.rope.clone()
    };
    ends(cfg, &c, local, &mut spec)?;
    Ok(spec)
}

fn defaults(cfg: &Config) -> Config {
    let cfg = cfg.with_defaults(json!({
        "tie_word_embeddings": true, "vocab_size": 262_144, "hidden_size": 2304,
        "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131_072,
        "sliding_window": 512, "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262_144,
    }));
    let ropes = json!({
        "rope_theta": 1e6, "rope_scaling": {"rope_type": "proportional"},
        "partial_rotary_factor": 0.25,
    });
    if cfg.get("rope_theta").is_none() { cfg.with_defaults(ropes) } else { cfg }
}

/// By layer, the elements to a head and the K/V heads: said by kind of layer, or by layer.
fn shapes(cfg: &Config, c: &Common, reaches: &[Reach]) -> Result<Vec<(usize, usize)>, ConfigError> {
    let heads = cfg.by_layer("num_key_value_heads", c.layers)?;
    let by_kind = cfg.pick(cfg.get("per_layer_config").is_none(), false);
    let reused = by_kind && cfg.flag("attention_k_eq_v", false)?;
    let full_heads = if reused { cfg.optional_size("num_global_key_value_heads")? } else { None };
    let full_dim = if by_kind { cfg.size_or("global_head_dim", 512)? } else { c.head_dim };
    let local_dim = cfg.size_or("head_dim_swa", c.head_dim)?;
    let of = |i: usize| {
        let (dim, kv) = match reaches[i] {
            Reach::All => (full_dim, full_heads.unwrap_or(heads[i])),
            _ => (local_dim, heads[i]),
        };
        let own = |key: &str, kind| {
            let at = |digits| format!("per_layer_config.{i:0digits$}.{key}");
            let at = (1..=4).map(at).find(|key| cfg.get(key).is_some());
            at.map_or(Ok(kind), |key| cfg.size(&key))
        };
        let (dim, kv) = (own("head_dim", dim)?, own("num_key_value_heads", kv)?);
        let fits = c.heads.is_multiple_of(kv) && dim.is_multiple_of(2);
        let expected = "divisors of num_attention_heads, and even widths of heads";
        fits.then_some((dim, kv)).ok_or_else(|| cfg.refuse("num_key_value_heads", expected))
    };
    (0..c.layers).map(of).collect()
}

/// The experts beside each MLP.
fn moe(cfg: &Config, c: &Common, act: Act) -> Result<Option<Moe>, ConfigError> {
    let there = cfg.optional_size("num_local_experts")?.is_some();
    let there = cfg.pick(cfg.flag("enable_moe_block", false)?, there);
    let input = RouterInput::Stream { eps: c.eps, scale: inverse_root(c.d_model as f64) };
    let router = Router { input, expert_scale: true, ..by_softmax(true) };
    there.then(|| c.moe(cfg, act, router)).transpose()
}

const NAMES: &[Rename] = &[
    To("model.layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight"),
    To("model.layers.{}.router.proj", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale"),
    To("model.layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale"),
    Split(
        "model.layers.{}.experts.gate_up_proj",
        &["blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"],
    ),
    To("model.layers.{}.experts.down_proj", "blk.{}.ffn_down_exps.weight"),
    To("model.layers.{}.post_feedforward_layernorm_1", "blk.{}.post_ffw_norm_1"),
    To("model.layers.{}.post_feedforward_layernorm_2", "blk.{}.post_ffw_norm_2"),
    To("model.layers.{}.pre_feedforward_layernorm_2", "blk.{}.pre_ffw_norm_2"),
];
