//! Gemma 3n (text). Gemma Team 2025. Four residual streams, a low-rank residual beside attention,
//! inputs of each token to each layer, sparse gates in the first layers; the last layers read the
//! keys and values of earlier ones.
use super::Family;
use super::Rename::{self, *};
use super::common::inputs::{INPUTS, ends, gate, shared};
use super::common::names::DECODER;
use super::common::{Common, inverse_root, scaling};
use crate::config::{Config, ConfigError, Source};
use crate::spec::*;
use serde_json::{Value, json};

pub static GEMMA3N: Family = Family {
    name: "gemma3n",
    hf: &["gemma3n_text"],
    gguf: &["gemma3n"],
    spec,
    names: &[NAMES, INPUTS, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "tie_word_embeddings": true, "vocab_size": 262_400, "hidden_size": 2048,
        "intermediate_size": 16_384, "num_hidden_layers": 35, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32_768,
        "rope_theta": 1e6, "sliding_window": 512, "final_logit_softcapping": 30.0,
        "vocab_size_per_layer_input": 262_144, "hidden_size_per_layer_input": 256,
        "num_kv_shared_layers": 15, "laurel_rank": 64,
    }));
    let c = Common::read(cfg)?;
    let n = cfg.size_or("altup_num_inputs", 4)?;
    if n < 2 || cfg.count_or("altup_active_idx", 0)? != 0 {
        return Err(cfg.refuse("altup_num_inputs", "at least two streams, the first being active"));
    }
    if !cfg.flag("altup_correct_scale", true)? {
        return Err(cfg.refuse("altup_correct_scale", "true"));
    }
    let reaches = cfg.reaches(c.layers, |i| !(i + 1).is_multiple_of(5))?;
    let attention =
        Attention { scale: 1.0, qk_norm: c.qk_norm(), v_norm: Some(c.eps), ..c.biased(cfg)? };
    let widths = cfg.by_layer("intermediate_size", c.layers)?;
    let act = cfg.act("hidden_activation", Act::GeluTanh)?;
    let sparsity = sparsity(cfg, c.layers)?;
    let norm = c.rms();
    let laurel = Op::Laurel(Laurel { rank: cfg.size("laurel_rank")?, norm });
    let shared = shared(cfg, &reaches)?;
    let mut spec = c.model((0..c.layers).map(|i| {
        let rope = Some(RopeId((reaches[i] != Reach::All).into()));
        let attention =
            Attention { reach: reaches[i], rope, kv_from: shared[i], ..attention.clone() };
        let attention = Part { post: Some(norm), ..Op::Attention(attention).into() };
        let mlp = Mlp { d_ff: widths[i], sparsity: sparsity[i], ..c.gated(act) };
        let beside = vec![attention, laurel.clone().into()];
        let then = Then::Scale(inverse_root(2.0));
        let weight = Norm { kind: NormKind::None, ..norm };
        vec![
            Branch { pre: Some(norm), then, ..Branch::bare(beside) },
            Branch::sandwich(norm, Op::Mlp(mlp)),
            Branch { pre: Some(weight), skip: Skip::Others, ..gate(norm, act) },
        ]
    }));
    spec.altup = Some(AltUp { streams: n, norm, scale: 1.0 / c.d_model as f32 });
    let local = Rope {
        theta: cfg.positive_or("rope_local_base_freq", 1e4)?,
        scaling: scaling(cfg, "rope_local_scaling")?,
        ..c.rope.clone()
    };
    ends(cfg, &c, local, &mut spec)?;
    Ok(spec)
}

/// By layer, how many standard deviations a gate must stand out.
fn sparsity(cfg: &Config, layers: usize) -> Result<Vec<Option<f32>>, ConfigError> {
    let (key, expected) = cfg.pick(
        ("activation_sparsity_pattern", "a share below one a layer"),
        ("activation_sparsity_scale", "a number, or nothing, a layer"),
    );
    let of = |v: &Value| match (v.as_f64(), cfg.source) {
        (Some(share), Source::HuggingFace) => {
            (0.0..1.0).contains(&share).then(|| (share > 0.0).then(|| quantile(share as f32)))
        }
        (Some(scale), Source::Gguf) => Some(Some(scale as f32)),
        (None, _) => v.is_null().then_some(None),
    };
    let all = match cfg.get(key) {
        None => {
            let sparse = if layers > 10 { 10 } else { 0 };
            return Ok((0..layers).map(|i| (i < sparse).then(|| quantile(0.95))).collect());
        }
        Some(Value::Array(all)) => all.iter().map(of).collect(),
        Some(one) => of(one).map(|one| vec![one; layers]),
    };
    let all: Option<Vec<_>> = all;
    all.filter(|all| all.len() == layers).ok_or_else(|| cfg.refuse(key, expected))
}

/// The number that a share `p` of a normal distribution lies below, in the steps of PyTorch's.
fn quantile(p: f32) -> f32 {
    let share = f64::from(2.0 * p - 1.0);
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..100 {
        let z = (low + high) / 2.0;
        if libm::erf(z) < share { low = z } else { high = z }
    }
    low as f32 * std::f32::consts::SQRT_2
}

const NAMES: &[Rename] = &[
    Stack("model.altup_projections.{e}", "altup_proj"),
    Stack("model.altup_unembed_projections.{e}", "altup_unembd_proj"),
    To("model.layers.{}.altup.router_norm", "blk.{}.altup_router_norm"),
    To("model.layers.{}.altup.modality_router", "blk.{}.altup_router"),
    To("model.layers.{}.altup.prediction_coefs", "blk.{}.altup_predict_coef"),
    To("model.layers.{}.altup.correction_coefs", "blk.{}.altup_correct_coef"),
    To("model.layers.{}.altup.correct_output_scale", "blk.{}.altup_correct_scale.weight"),
    To("model.layers.{}.laurel.linear_left", "blk.{}.laurel_l"),
    To("model.layers.{}.laurel.linear_right", "blk.{}.laurel_r"),
    To("model.layers.{}.laurel.post_laurel_norm", "blk.{}.laurel_post_norm"),
];
