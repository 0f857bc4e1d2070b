//! Feed-forward networks and mixtures of them, as data.
use serde::{Deserialize, Serialize};

/// `down(act(gate(x)) · up(x))`, or `down(act(up(x)))` without a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Mlp {
    /// Width of the hidden layer.
    pub d_ff: usize,
    /// The activation function.
    pub act: Act,
    /// Whether there is a gate.
    pub gated: bool,
    /// Whether its projections add biases.
    pub bias: bool,
    /// Multiplies the gate before the activation.
    pub gate_scale: f32,
    /// Keeps only what of the gate exceeds its row's mean by this many standard deviations.
    pub sparsity: Option<f32>,
    /// What is added to the gate's and its partner's projections, of one first product.
    pub adapter: Option<Adapter>,
}

impl Mlp {
    /// With a gate, and nothing else.
    pub fn gated(d_ff: usize, act: Act) -> Mlp {
        let (gate_scale, sparsity, adapter) = (1.0, None, None);
        Mlp { d_ff, act, gated: true, bias: false, gate_scale, sparsity, adapter }
    }
}

/// A product of low rank that is added to a projection's, which others share without it.
/// Hu et al. 2021, arXiv:2106.09685.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Adapter {
    /// Between its two matrices.
    pub rank: usize,
    /// Which it is of all beside those projections.
    pub nth: usize,
}

/// A router and its experts. Shazeer et al. 2017, arXiv:1701.06538.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Moe {
    /// Number of experts.
    pub experts: usize,
    /// Experts that a row visits.
    pub top_k: usize,
    /// One expert.
    pub expert: Mlp,
    /// How they are chosen and weighted.
    pub router: Router,
    /// Visited by every row, in addition.
    pub shared: Option<Shared>,
}

/// How experts are chosen and weighted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Router {
    /// What the router's logits become.
    pub score: Score,
    /// What the chosen weights are divided by.
    pub renormalise: Renormalise,
    /// Multiplies the weights.
    pub scale: f32,
    /// Whether the router's projection adds a bias.
    pub bias: bool,
    /// Whether a bias joins the scores for the choice, not for the weights.
    pub select_bias: bool,
    /// Groups that experts are in, and how many are kept.
    pub groups: Option<Groups>,
    /// Whether a weight multiplies its expert's input, not its output.
    pub weighs_input: bool,
    /// What the router reads.
    pub input: RouterInput,
    /// Whether a learned factor an expert multiplies the weights.
    pub expert_scale: bool,
}

/// What a router's logits become.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Score {
    /// Softmax over all experts, before the choice.
    Softmax,
    /// Softmax over the chosen.
    SoftmaxOfTopK,
    /// Each expert by itself.
    Sigmoid,
    /// SparseMixer's two picks: each a softmax over the logits near the largest.
    /// Liu et al. 2023, arXiv:2310.00811.
    Sparsemixer {
        /// Half of the relative distance from the largest that counts as near.
        jitter: f32,
    },
}

/// What the weights of the chosen experts are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Renormalise {
    /// Nothing.
    No,
    /// Their sum and this.
    Sum {
        /// Against a sum of zero.
        plus: f32,
    },
    /// Their sum, or this if it is more.
    AtLeast {
        /// The least divisor.
        least: f32,
    },
}

/// Experts in consecutive groups of one size, of which only the best are chosen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Groups {
    /// Number of groups.
    pub count: usize,
    /// Groups that are kept.
    pub top: usize,
    /// What a group's score is: the sum of so many of its best.
    pub best: usize,
}

impl Groups {
    /// Whether some are not kept.
    pub fn choose(&self) -> bool {
        self.top < self.count
    }
}

/// What a router reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RouterInput {
    /// What the experts read.
    Same,
    /// The stream, normed without a weight, times a learned vector and a factor.
    Stream {
        /// Of the norm.
        eps: f32,
        /// The factor.
        scale: f32,
    },
}

/// An expert that every row visits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Shared {
    /// The expert.
    pub mlp: Mlp,
    /// Whether its output is multiplied by a learned sigmoid.
    pub sigmoid_gate: bool,
}

/// An elementwise function.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// `x · sigmoid(x)`
    Silu,
    /// GELU's tanh form.
    GeluTanh,
    /// GELU by the error function.
    Gelu,
    /// `max(x, 0)`
    Relu,
    /// `max(x, 0)²`
    Relu2,
    /// `x · sigmoid(1.702 x)` of `x` up to a limit; what it multiplies is clamped and has one added.
    SiluClamped {
        /// Bound of both factors.
        limit: f32,
    },
    /// `beta·x`, and above zero `positive·x²` more, elsewhere `negative·(e^min(x, bound) - 1 - x)`
    /// more. Huang & Schlag 2024, arXiv:2411.13010.
    XIelu {
        /// Curvature above zero.
        positive: f32,
        /// Weight of the exponential at and below zero.
        negative: f32,
        /// Slope at zero.
        beta: f32,
        /// Of the exponent.
        bound: f32,
    },
}
