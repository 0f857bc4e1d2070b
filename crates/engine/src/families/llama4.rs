//! Llama 4 (text): layers that attend in chunks, with norms of heads after their rotation, and
//! layers without positions, with a temperature; experts whose input is weighed. Meta 2025.
use super::Rename::{self, *};
use super::common::experts::{by_softmax, sparse_layers};
use super::common::names::DECODER;
use super::common::{Common, rotating};
use super::{Cut, Family};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::{Value, json};

pub static LLAMA4: Family = Family {
    name: "llama4",
    hf: &["llama4_text", "llama4"],
    gguf: &["llama4"],
    spec,
    names: &[NAMES, DECODER],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "head_dim": 128, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "num_local_experts": 16,
        "num_experts_per_tok": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_key_value_heads": 8, "attention_chunk_size": 8192,
    }));
    let mut c = Common::read(cfg)?;
    c.rope.layout = RopeLayout::Pairs;
    let act = cfg.act("hidden_act", Act::Silu)?;
    let router = Router { score: Score::Sigmoid, weighs_input: true, ..by_softmax(false) };
    let moe = c.moe(cfg, act, router)?;
    let width = moe.expert.d_ff;
    let moe = moe.and_shared(width);
    let mlp = Mlp { d_ff: cfg.size_or("intermediate_size_mlp", c.d_ff)?, ..c.gated(act) };
    let step = cfg.size_or("interleave_moe_layer_step", 1)?;
    let listed = cfg.sizes("moe_layers")?;
    let sparse = sparse_layers(cfg, c.layers, |i| {
        if listed.is_empty() { (i + 1).is_multiple_of(step) } else { listed.contains(&i) }
    })?;
    Ok(c.sparse_decoder(attentions(cfg, &c, &moe)?.into_iter(), &mlp, &moe, &sparse))
}

fn attentions(cfg: &Config, c: &Common, moe: &Moe) -> Result<Vec<Attention>, ConfigError> {
    // GGUF does not say; the size with 128 experts has no norms.
    let normed = cfg.flag("use_qk_norm", true)? || cfg.pick(false, moe.experts != 128);
    let norm = Norm { weight: false, ..c.rms() };
    let qk_norm = QkNorm { norm, over: NormOver::Head, after_rope: true };
    let chunk = cfg.pick(cfg.optional_size("attention_chunk_size")?, Some(8192));
    let local = Attention {
        reach: chunk.map_or(Reach::All, Reach::Chunk),
        qk_norm: normed.then_some(qk_norm),
        ..c.biased(cfg)?
    };
    let temperature = Temperature {
        beta: cfg.float_or("attn_scale", 0.1)?,
        period: cfg.positive_or("floor_scale", 8192.0)?,
        offset: 1.0,
    };
    // A number in some releases.
    let key = "attn_temperature_tuning";
    let tuned = match cfg.get(key).is_some_and(Value::is_number) {
        true => cfg.count_or(key, 1)? > 0,
        false => cfg.flag(key, true)?,
    };
    let global =
        Attention { rope: None, temperature: tuned.then_some(temperature), ..c.biased(cfg)? };
    let rotates = rotating(cfg, c.layers, 4)?.into_iter();
    Ok(rotates.map(|rotates| if rotates { local.clone() } else { global.clone() }).collect())
}

/// Experts are stored as columns.
const NAMES: &[Rename] = &[
    To("model.layers.{}.feed_forward.router", "blk.{}.ffn_gate_inp"),
    Cut(
        "model.layers.{}.feed_forward.experts.gate_up_proj",
        Cut::Columns,
        &["blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"],
    ),
    Cut(
        "model.layers.{}.feed_forward.experts.down_proj",
        Cut::Columns,
        &["blk.{}.ffn_down_exps.weight"],
    ),
    To("model.layers.{}.feed_forward.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp"),
    To("model.layers.{}.feed_forward.shared_expert.up_proj", "blk.{}.ffn_up_shexp"),
    To("model.layers.{}.feed_forward.shared_expert.down_proj", "blk.{}.ffn_down_shexp"),
    To("model.layers.{}.feed_forward.gate_proj", "blk.{}.ffn_gate"),
    To("model.layers.{}.feed_forward.up_proj", "blk.{}.ffn_up"),
    To("model.layers.{}.feed_forward.down_proj", "blk.{}.ffn_down"),
];
