//! What reaches a layer beside the residual stream: other streams, and a token's own inputs to it.
use super::{Act, Norm};
use serde::{Deserialize, Serialize};

/// Several residual streams, of which layers work on the first. Baykal et al. 2023,
/// arXiv:2301.13310.
///
/// Stream `k > 0` starts as a projection of the first, rescaled to its root mean square. A layer's
/// branches work on `x_0 + Σ_j p_0j·x_j`, the others become `x_k + Σ_j p_kj·x_j`. Before the layer's
/// last branch, whose share [`Skip::Others`](super::Skip::Others) receive, every stream takes
/// `(1 + c_k)·(y - x_0)` of what the branches made, `y`, of the first, `x_0`. `p` and `c` are linear
/// in `tanh(router(norm(x)))`, of the first stream then. In the end projections of all, rescaled
/// like the first, are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct AltUp {
    /// Number of streams; at least two.
    pub streams: usize,
    /// Of a router's input.
    pub norm: Norm,
    /// Multiplies that.
    pub scale: f32,
}

/// `x + norm(right(left(x)))`: a learned residual of low rank. Menghani et al. 2024,
/// arXiv:2411.07501.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Laurel {
    /// Between the two projections.
    pub rank: usize,
    /// Of their product.
    pub norm: Norm,
}

/// What a token gives each layer by itself:
/// `table_scale · table[token] + scale · norm(projection(embedding))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct PerLayer {
    /// Elements to a layer.
    pub width: usize,
    /// Rows of the table; later tokens have the first one's.
    pub rows: usize,
    /// Multiplies the table's row.
    pub table_scale: f32,
    /// Of each layer's share of the projection.
    pub norm: Norm,
    /// Multiplies that.
    pub scale: f32,
}

/// `project(act(gate(x)) · input)`, where `input` is what the token gives this layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct InputGate {
    /// The activation function.
    pub act: Act,
}
