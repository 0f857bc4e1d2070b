//! What Gemma 3n and 4 share: a token's inputs to each layer, and layers that read the keys and values
//! of earlier ones.
use super::{Common, inverse_root};
use crate::config::{Config, ConfigError};
use crate::families::Rename::{self, *};
use crate::spec::*;

/// What comes before and after the layers; `local` is the rotary table of those with a window.
///
/// # Errors
/// What no model can have.
pub fn ends(
    cfg: &Config,
    c: &Common,
    local: Rope,
    spec: &mut ModelSpec,
) -> Result<(), ConfigError> {
    let root = |n: usize| (n as f64).sqrt();
    spec.embed.scale = root(c.d_model) as f32;
    if let Some(width) = cfg.optional_size("hidden_size_per_layer_input")? {
        // The projection is normed after it was divided by √d; its epsilon is multiplied instead.
        let norm = Norm::rms(c.eps * c.d_model as f32);
        let rows = cfg.size_or("vocab_size_per_layer_input", c.vocab)?;
        let table_scale = (root(width) / root(2)) as f32;
        let scale = inverse_root(2.0);
        spec.embed.per_layer = Some(PerLayer { width, rows, table_scale, norm, scale });
    }
    spec.ropes.push(local);
    let softcap = cfg.optional_positive("final_logit_softcapping")?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale: 1.0, softcap };
    Ok(())
}

/// What lets a token's own input in to a layer.
pub fn gate(norm: Norm, act: Act) -> Branch {
    Branch::post(norm, Op::InputGate(InputGate { act }))
}

/// By layer, whose keys and values it reads: those of the last layer of its kind that is not among
/// the last so many.
///
/// # Errors
/// So many that a kind has no other.
pub fn shared(cfg: &Config, reaches: &[Reach]) -> Result<Vec<Option<usize>>, ConfigError> {
    let key = "num_kv_shared_layers";
    let own = reaches.len().saturating_sub(cfg.count_or(key, 0)?);
    let from = |i: usize| {
        let last = reaches[..own].iter().rposition(|r| *r == reaches[i]);
        last.ok_or_else(|| cfg.refuse(key, "layers of each kind before those that share")).map(Some)
    };
    (0..reaches.len()).map(|i| if i < own { Ok(None) } else { from(i) }).collect()
}

/// Of those inputs, and of norms on both sides of a branch.
pub const INPUTS: &[Rename] = &[
    To("model.embed_tokens_per_layer", "per_layer_token_embd"),
    To("model.per_layer_model_projection", "per_layer_model_proj"),
    To("model.per_layer_projection_norm", "per_layer_proj_norm"),
    To("model.layers.{}.per_layer_input_gate", "blk.{}.inp_gate"),
    To("model.layers.{}.per_layer_projection", "blk.{}.proj"),
    To("model.layers.{}.post_per_layer_input_norm", "blk.{}.post_norm"),
    To("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"),
    To("model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"),
    To("model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"),
];
