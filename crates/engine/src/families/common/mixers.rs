//! State-space mixers, as hybrids' configs and names have them.
use crate::config::{Config, ConfigError, Source};
use crate::families::Rename::{self, *};
use crate::spec::{Mamba1, Mamba2, Norm};
use serde_json::json;

/// What Hugging Face's keys of a Mamba are called.
pub struct Keys {
    /// Numbers that a channel remembers.
    pub state: &'static str,
    /// Width of the convolution.
    pub conv: &'static str,
    /// Whether that has a bias.
    pub conv_bias: &'static str,
    /// Whether the projections have.
    pub bias: &'static str,
    /// Channels, for one of the model's width.
    pub expand: &'static str,
    /// Channels, where they are said themselves.
    pub inner: &'static str,
    /// Heads.
    pub heads: &'static str,
    /// Elements to a head.
    pub head_dim: &'static str,
    /// Groups of heads.
    pub groups: &'static str,
    /// Width of the compressed step.
    pub rank: &'static str,
    /// What the convolution's output and the gate go through.
    pub act: &'static str,
}

/// The keys of pure Mambas.
pub const PURE: Keys = Keys {
    state: "state_size",
    conv: "conv_kernel",
    conv_bias: "use_conv_bias",
    bias: "use_bias",
    expand: "expand",
    inner: "intermediate_size",
    heads: "num_heads",
    head_dim: "head_dim",
    groups: "n_groups",
    rank: "time_step_rank",
    act: "hidden_act",
};

/// The keys of most hybrids.
pub const HYBRID: Keys = Keys {
    state: "mamba_d_state",
    conv: "mamba_d_conv",
    conv_bias: "mamba_conv_bias",
    bias: "mamba_proj_bias",
    expand: "mamba_expand",
    inner: "mamba_d_ssm",
    heads: "mamba_n_heads",
    head_dim: "mamba_d_head",
    groups: "mamba_n_groups",
    rank: "mamba_dt_rank",
    act: "hidden_act",
};

/// GGUF's keys, of which all are there; biases it leaves to the tensors.
const GGUF: Keys = Keys {
    state: "ssm_state_size",
    conv: "ssm_conv_kernel",
    inner: "ssm_inner_size",
    heads: "ssm_time_step_rank",
    head_dim: "",
    groups: "ssm_group_count",
    rank: "ssm_time_step_rank",
    ..PURE
};

impl Keys {
    fn of<'a>(&'a self, c: &Config) -> &'a Keys {
        if c.source == Source::Gguf { &GGUF } else { self }
    }
    /// Channels, of which the model's width is multiplied without a key of their own.
    fn inner(&self, c: &Config) -> Result<usize, ConfigError> {
        match c.optional_size(self.inner)? {
            Some(inner) => Ok(inner),
            None => Ok(c.size("hidden_size")? * c.size_or(self.expand, 2)?),
        }
    }
    /// Reads a Mamba, whose compressed step, B and C are normed by `norm`.
    ///
    /// # Errors
    /// What is missing, and what no model can have.
    pub fn mamba1(&self, c: &Config, norm: Option<Norm>) -> Result<Mamba1, ConfigError> {
        let k = self.of(c);
        c.only_silu(k.act)?;
        let dt_rank = match c.get(k.rank).and_then(serde_json::Value::as_str) {
            Some("auto") => c.size("hidden_size")?.div_ceil(16),
            _ => c.size(k.rank)?,
        };
        Ok(Mamba1 {
            inner: k.inner(c)?,
            state: c.size(k.state)?,
            conv: c.size_or(k.conv, 4)?,
            dt_rank,
            conv_bias: c.flag(k.conv_bias, true)?,
            bias: c.flag(k.bias, false)?,
            norm,
        })
    }
    /// Reads a Mamba-2, whose output is normed by `norm` after its gate.
    ///
    /// # Errors
    /// What is missing, and what no model can have.
    pub fn mamba2(&self, c: &Config, norm: Option<Norm>) -> Result<Mamba2, ConfigError> {
        let k = self.of(c);
        c.only_silu(k.act)?;
        let heads = c.size(k.heads)?;
        let head_dim = match c.get(k.head_dim).and_then(serde_json::Value::as_u64) {
            Some(_) => c.size(k.head_dim)?,
            None => k.inner(c)? / heads,
        };
        let groups = c.size_or(k.groups, 1)?;
        if head_dim == 0 || !heads.is_multiple_of(groups) {
            return Err(c.refuse(k.heads, "a multiple of the groups, and no more than channels"));
        }
        Ok(Mamba2 {
            heads,
            head_dim,
            groups,
            state: c.size(k.state)?,
            conv: c.size_or(k.conv, 4)?,
            conv_bias: c.flag(k.conv_bias, true)?,
            bias: c.flag(k.bias, false)?,
            norm,
            norm_before_gate: false,
            dt_limit: limits(c)?,
            scales: [1.0; 5],
        })
    }
}

/// GGUF says a hybrid's numbers of K/V heads and widths of MLPs layer by layer, zero where there is
/// none: the same with the largest of each, and the lists as `kv_heads_by_layer` and `d_ff_by_layer`.
pub fn by_layer(c: &Config) -> Config {
    let lists =
        [("num_key_value_heads", "kv_heads_by_layer"), ("intermediate_size", "d_ff_by_layer")];
    lists.iter().fold(c.clone(), |c, (key, list)| match c.sizes(key).unwrap_or_default() {
        all if all.is_empty() => c,
        all => c.with(json!({*key: all.iter().max(), *list: all})),
    })
}

/// For each layer whether it attends: by `layer_types`, by [`by_layer`], or else by `otherwise`.
///
/// # Errors
/// Types that are of no layer of a hybrid.
pub fn attends(
    c: &Config,
    layers: usize,
    otherwise: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, ConfigError> {
    let others = ["linear_attention", "mamba", "recurrent", "conv"];
    let kv_heads = c.sizes("kv_heads_by_layer")?;
    Ok(match typed(c, layers, &["full_attention", "attention"], &others)? {
        Some(types) => types,
        None if kv_heads.len() == layers => kv_heads.iter().map(|heads| *heads > 0).collect(),
        None => (0..layers).map(otherwise).collect(),
    })
}

/// For each layer whether its type is among `some` rather than `others`; none where none are stated.
///
/// # Errors
/// Types that are neither, or not one a layer.
pub fn typed(
    c: &Config,
    layers: usize,
    some: &[&str],
    others: &[&str],
) -> Result<Option<Vec<bool>>, ConfigError> {
    let c = c.with_aliases(&[("layers_block_type", "layer_types")]);
    let types = c.texts("layer_types")?;
    let known = types.iter().all(|t| some.iter().chain(others).any(|known| known == t));
    if types.is_empty() {
        return Ok(None);
    }
    if !known || types.len() != layers {
        let expected = format!("{layers} of {}", [some, others].concat().join(", "));
        return Err(c.refuse("layer_types", &expected));
    }
    Ok(Some(types.iter().map(|t| some.contains(&t.as_str())).collect()))
}

/// Bounds of the step; Python writes an infinite one as no JSON number.
fn limits(c: &Config) -> Result<(f32, f32), ConfigError> {
    match c.floats("time_step_limit")?[..] {
        [] => Ok((0.0, f32::INFINITY)),
        [least, most] => Ok((least, most)),
        _ => Err(c.refuse("time_step_limit", "two numbers")),
    }
}

/// The names of a Mamba-2's tensors, which begin so.
macro_rules! mamba2 {
    ($at:literal) => {
        &[
            $crate::families::Rename::Split(
                concat!($at, "in_proj"),
                &["blk.{}.ssm_in_z", "blk.{}.ssm_in_x", "blk.{}.ssm_in_dt"],
            ),
            $crate::families::Rename::To(concat!($at, "conv1d"), "blk.{}.ssm_conv1d"),
            $crate::families::Rename::NegExp(concat!($at, "A_log"), "blk.{}.ssm_a"),
            $crate::families::Rename::To(concat!($at, "D"), "blk.{}.ssm_d"),
            $crate::families::Rename::To(concat!($at, "dt_bias"), "blk.{}.ssm_dt.bias"),
            $crate::families::Rename::To(concat!($at, "norm"), "blk.{}.ssm_norm"),
            $crate::families::Rename::To(concat!($at, "out_proj"), "blk.{}.ssm_out"),
        ]
    };
}
pub(crate) use mamba2;

/// The names of a Mamba's tensors, which begin so.
macro_rules! mamba1 {
    ($at:literal) => {
        &[
            $crate::families::Rename::Split(
                concat!($at, "in_proj"),
                &["blk.{}.ssm_in_x", "blk.{}.ssm_in_z"],
            ),
            $crate::families::Rename::Split(
                concat!($at, "x_proj"),
                &["blk.{}.ssm_x_dt", "blk.{}.ssm_x_b", "blk.{}.ssm_x_c"],
            ),
            $crate::families::Rename::To(concat!($at, "conv1d"), "blk.{}.ssm_conv1d"),
            $crate::families::Rename::To(concat!($at, "dt_proj"), "blk.{}.ssm_dt"),
            $crate::families::Rename::NegExp(concat!($at, "A_log"), "blk.{}.ssm_a"),
            $crate::families::Rename::To(concat!($at, "D"), "blk.{}.ssm_d"),
            $crate::families::Rename::To(concat!($at, "out_proj"), "blk.{}.ssm_out"),
            $crate::families::Rename::To(concat!($at, "dt_layernorm"), "blk.{}.ssm_dt_norm"),
            $crate::families::Rename::To(concat!($at, "b_layernorm"), "blk.{}.ssm_b_norm"),
            $crate::families::Rename::To(concat!($at, "c_layernorm"), "blk.{}.ssm_c_norm"),
        ]
    };
}
pub(crate) use mamba1;

/// What GGUF keeps together of a Mamba's tensors.
pub const MAMBA1_GGUF: &[Rename] = &[
    Split("blk.{}.ssm_in", &["blk.{}.ssm_in_x", "blk.{}.ssm_in_z"]),
    Split("blk.{}.ssm_x", &["blk.{}.ssm_x_dt", "blk.{}.ssm_x_b", "blk.{}.ssm_x_c"]),
];
/// What GGUF keeps together of a Mamba-2's tensors, or by groups.
pub const MAMBA2_GGUF: &[Rename] = &[
    Split("blk.{}.ssm_in", &["blk.{}.ssm_in_z", "blk.{}.ssm_in_x", "blk.{}.ssm_in_dt"]),
    Flat("blk.{}.ssm_norm", "blk.{}.ssm_norm"),
];
