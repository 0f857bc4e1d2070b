//! Delta nets, as hybrids' configs have them.
use crate::config::{Config, ConfigError};
use crate::spec::*;

/// Reads the delta net of `linear_*` keys, or of GGUF's; its output is normed, then gated by silu.
///
/// # Errors
/// What is missing, and what no model can have.
pub fn delta_net(c: &Config, norm: Norm) -> Result<DeltaNet, ConfigError> {
    let key = |hf, gguf| c.size(c.pick(hf, gguf));
    let (k_key, v_key) = ("linear_num_key_heads", "linear_num_value_heads");
    let (k_heads, v_heads) = (key(k_key, "ssm_group_count")?, key(v_key, "ssm_time_step_rank")?);
    let v_dim = match c.get("ssm_inner_size") {
        Some(_) => c.size("ssm_inner_size")? / v_heads,
        None => c.size("linear_value_head_dim")?,
    };
    if !v_heads.is_multiple_of(k_heads) || v_dim == 0 {
        return Err(c.refuse(v_key, "a multiple of linear_num_key_heads"));
    }
    Ok(DeltaNet {
        k_heads,
        v_heads,
        k_dim: key("linear_key_head_dim", "ssm_state_size")?,
        v_dim,
        conv: c.size_or(c.pick("linear_conv_kernel_dim", "ssm_conv_kernel"), 4)?,
        interleaved: false,
        decay: Decay::PerHead,
        decay_rank: 0,
        beta: 1.0,
        norm,
        gate: Gate::Silu,
        gate_rank: 0,
    })
}
