//! Softmax attention as data: grouped-query, latent, sparse.
use super::{Adapter, Norm, RopeId};
use serde::{Deserialize, Serialize};

/// Grouped-query softmax attention. Ainslie et al. 2023, arXiv:2305.13245.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Attention {
    /// Query heads; head `h` reads K/V head `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements to a head, of queries, keys and values alike.
    pub head_dim: usize,
    /// Multiplies q·k before the softmax.
    pub scale: f32,
    /// The rotary table; none is NoPE.
    pub rope: Option<RopeId>,
    /// How far a query sees.
    pub reach: Reach,
    /// Whether a query sees only its own and earlier positions; else it sees as many later ones too,
    /// and a sequence is one batch's.
    pub causal: bool,
    /// Norms of queries and keys.
    pub qk_norm: Option<QkNorm>,
    /// Norm of each value head, without a weight; this is its epsilon.
    pub v_norm: Option<f32>,
    /// Whether values are what keys are before their norm and rotation.
    pub v_from_k: bool,
    /// Queries, keys and values are cut off at ± this before the rotation, after their norms if these
    /// come before it too.
    pub clip: Option<f32>,
    /// Whether the query, key and value projections add a bias.
    pub qkv_bias: bool,
    /// Whether the output projection adds a bias.
    pub out_bias: bool,
    /// `o · sigmoid(gate)` before the output projection.
    pub out_gate: Option<OutGate>,
    /// Whether a learned logit per head joins the softmax's denominator.
    pub sinks: bool,
    /// `cap · tanh(score / cap)` before the mask.
    pub softcap: Option<f32>,
    /// A penalty for distance, in place of rotation.
    pub alibi: Option<Alibi>,
    /// Multiplies a query by its position.
    pub temperature: Option<Temperature>,
    /// Index, among all of the model's attentions in order, of the one whose keys and values this
    /// one reads instead of writing its own.
    pub kv_from: Option<usize>,
    /// What is added to each of the query, key and value projections.
    pub adapter: Option<Adapter>,
}

/// Which earlier positions a query sees, its own among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reach {
    /// All.
    All,
    /// The last so many.
    Window(usize),
    /// Those whose position divided by this is its own's.
    Chunk(usize),
}

impl Reach {
    /// How many positions a query sees at most.
    pub fn most(self) -> Option<usize> {
        match self {
            Reach::All => None,
            Reach::Window(n) | Reach::Chunk(n) => Some(n),
        }
    }
}

/// A norm of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct QkNorm {
    /// The norm; its weights are `attn_q_norm` and `attn_k_norm`.
    pub norm: Norm,
    /// What is normed together.
    pub over: NormOver,
    /// Whether the rotation comes first.
    pub after_rope: bool,
}

/// What a norm of queries or keys goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NormOver {
    /// Each head by itself; all share `head_dim` weights.
    Head,
    /// Each head by itself, each with `head_dim` weights of its own.
    EachHead,
    /// All heads together; as many weights as the projection has rows.
    Whole,
}

/// A learned gate of an attention's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OutGate {
    /// `attn_gate` is `[heads · head_dim, d_model]`.
    PerChannel,
    /// `attn_gate` is `[heads, d_model]`.
    PerHead,
}

/// Head `h` of `H` adds `slope(h) · (key position - query position)` to its scores.
/// Press et al. 2021, arXiv:2108.12409.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Alibi {
    /// By head.
    pub slopes: Vec<f32>,
}

/// A query at position `p` is multiplied by `1 + beta · ln(1 + floor((p + offset) / period))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Temperature {
    /// Growth.
    pub beta: f32,
    /// Positions to a step.
    pub period: f32,
    /// Added to the position.
    pub offset: f32,
}

impl Temperature {
    /// What a query at a position is multiplied by.
    pub fn at(&self, pos: usize) -> f32 {
        let steps = ((pos as f32 + self.offset) / self.period).floor();
        1.0 + self.beta * libm::logf(1.0 + steps)
    }
}

/// Multi-head latent attention. DeepSeek-V2, arXiv:2405.04434.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Mla {
    /// Query heads.
    pub heads: usize,
    /// Width of the compressed query; 0: a direct query projection.
    pub q_rank: usize,
    /// Width of the compressed keys and values.
    pub kv_rank: usize,
    /// Elements of a query or key head that do not rotate.
    pub nope_dim: usize,
    /// Elements of a query head, and of the one shared key, that rotate.
    pub rope_dim: usize,
    /// Elements of a value head.
    pub v_dim: usize,
    /// Multiplies q·k before the softmax.
    pub scale: f32,
    /// The rotary table; none is NoPE.
    pub rope: Option<RopeId>,
    /// Of the compressed queries, keys and values.
    pub norm: Norm,
    /// Whether the projections that compress and the output projection add a bias.
    pub bias: bool,
    /// Multiplies a query by its position.
    pub temperature: Option<Temperature>,
    /// `o · sigmoid(gate)` before the output projection.
    pub out_gate: Option<OutGate>,
    /// Which keys a query attends to.
    pub keys: Keys,
}

/// Which keys of those before it a query attends to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Keys {
    /// All.
    All,
    /// Those that its indexer chooses.
    Chosen(Indexer),
    /// Those that the last indexer before this operation chose.
    AsBefore,
}

/// A small attention that chooses keys. DeepSeek-V3.2, arXiv:2512.02556.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Indexer {
    /// Query heads; there is one key head.
    pub heads: usize,
    /// Elements to a head, the first of which rotate.
    pub head_dim: usize,
    /// Keys chosen for a query.
    pub top_k: usize,
    /// The rotary table.
    pub rope: RopeId,
    /// Of the keys.
    pub norm: Norm,
}
