//! Mixers with a state of fixed size, as data.
use super::{Act, Norm};
use serde::{Deserialize, Serialize};

/// Gated delta rule. Yang et al. 2024, arXiv:2412.06464; with a decay per channel, Kimi Linear,
/// arXiv:2510.26692.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct DeltaNet {
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads; a multiple of `k_heads`.
    pub v_heads: usize,
    /// Elements of a key head.
    pub k_dim: usize,
    /// Elements of a value head.
    pub v_dim: usize,
    /// Width of the causal convolution.
    pub conv: usize,
    /// Whether value head `h` has key head `h % k_heads`, or `h / (v_heads / k_heads)`.
    pub interleaved: bool,
    /// What the state forgets by.
    pub decay: Decay,
    /// Width of the waist of a decay per channel's projection; 0: a direct one.
    pub decay_rank: usize,
    /// Multiplies `sigmoid(b)`, the share of a new value that is written.
    pub beta: f32,
    /// Of each output head, before its gate.
    pub norm: Norm,
    /// What the gate of the output goes through.
    pub gate: Gate,
    /// Width of the waist of the gate's projection; 0: a direct one.
    pub gate_rank: usize,
}

/// What a delta-rule state forgets by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decay {
    /// One factor a value head: `exp(-exp(A) · softplus(a + dt))`.
    PerHead,
    /// One factor a key channel: `exp(-exp(A) · softplus(f + dt))`.
    PerChannel,
    /// As [`Decay::PerChannel`], `exp(bound · sigmoid(exp(A) · (f + dt)))`.
    PerChannelBounded {
        /// The lowest logarithm; negative.
        bound: f32,
    },
}

/// What a gate goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Gate {
    /// `x · sigmoid(x)`
    Silu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
}

/// Selective scan. Gu & Dao 2023, arXiv:2312.00752.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Mamba1 {
    /// Channels.
    pub inner: usize,
    /// State columns to a channel.
    pub state: usize,
    /// Width of the causal convolution.
    pub conv: usize,
    /// Width of the compressed step.
    pub dt_rank: usize,
    /// Whether the convolution adds a bias.
    pub conv_bias: bool,
    /// Whether the input and output projections add a bias.
    pub bias: bool,
    /// Of the compressed step, B and C.
    pub norm: Option<Norm>,
}

/// State-space duality. Dao & Gu 2024, arXiv:2405.21060.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Mamba2 {
    /// Heads.
    pub heads: usize,
    /// Elements to a head.
    pub head_dim: usize,
    /// State columns to a head's element.
    pub state: usize,
    /// Groups of heads that share B and C.
    pub groups: usize,
    /// Width of the causal convolution.
    pub conv: usize,
    /// Whether the convolution adds a bias.
    pub conv_bias: bool,
    /// Whether the input and output projections add a bias.
    pub bias: bool,
    /// Of the output, group by group; none where only the gate is applied.
    pub norm: Option<Norm>,
    /// Whether the output is normed before its gate, or after.
    pub norm_before_gate: bool,
    /// Bounds of the step after its softplus.
    #[serde(with = "interval")]
    pub dt_limit: (f32, f32),
    /// Multiply the input projection's z, x, B, C and dt.
    pub scales: [f32; 5],
}

impl Mamba2 {
    /// Channels of x and z.
    pub fn inner(&self) -> usize {
        self.heads * self.head_dim
    }
    /// Channels of the convolution: x, B and C.
    pub fn channels(&self) -> usize {
        self.inner() + 2 * self.groups * self.state
    }
}

/// Real-gated linear recurrence. De et al. 2024, arXiv:2402.19427.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct RgLru {
    /// Channels.
    pub width: usize,
    /// Blocks of the block-diagonal gates.
    pub heads: usize,
    /// Width of the causal convolution.
    pub conv: usize,
    /// Of the branch that multiplies the recurrence's output.
    pub act: Act,
}

/// `out(C · conv(B · x))`, of the three thirds of one projection. LFM2, arXiv:2511.23404.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct ShortConv {
    /// Width of the causal convolution.
    pub width: usize,
    /// Whether the projections and the convolution add biases.
    pub bias: bool,
}

/// Linear attention with a fixed decay a head. Lightning Attention, arXiv:2401.04658.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Lightning {
    /// Heads.
    pub heads: usize,
    /// Elements to a head.
    pub head_dim: usize,
    /// By head, what the state is multiplied by at each position is `exp(-slope)`.
    pub slopes: Vec<f32>,
    /// What queries, keys and values go through.
    pub act: Act,
    /// Of the whole output, before its sigmoid gate.
    pub norm: Norm,
}

/// Bounds of which the upper may be infinite, which JSON has not: it is null then.
mod interval {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(bounds: &(f32, f32), to: S) -> Result<S::Ok, S::Error> {
        (bounds.0, Some(bounds.1).filter(|most| most.is_finite())).serialize(to)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<(f32, f32), D::Error> {
        let (least, most) = <(f32, Option<f32>)>::deserialize(from)?;
        Ok((least, most.unwrap_or(f32::INFINITY)))
    }
}
