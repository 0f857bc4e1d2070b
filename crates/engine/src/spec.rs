//! A model as data: what to compute, resolved per layer, with no code in it.
//!
//! A backend never sees a family name. It walks `layers` and meets only the
//! seven `Op` kinds, so a new family that composes them costs no backend code.
pub use crate::rope::{Rope, RopeLayout, Scaling};

/// A whole decoder (or encoder) stack. Every field is final: no defaults are
/// applied and no closures are called after `Family::spec` returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Rows of the token embedding and of the logits.
    pub vocab: usize,
    /// Longest trained position, in tokens.
    pub context: usize,
    /// How tokens enter the stream.
    pub embed: Embed,
    /// Distinct rotary tables; layers name one by index, so two layers that
    /// share a table share memory.
    pub ropes: Vec<Rope>,
    /// In order.
    pub layers: Vec<Layer>,
    /// Applied to the stream after the last layer.
    pub final_norm: Option<Norm>,
    /// What becomes of the stream.
    pub head: Head,
}

/// One layer: residual branches applied in order to the residual stream.
pub type Layer = Vec<Branch>;

/// `x += scale · post(Σ op(pre(x)))`.
///
/// Pre-norm, post-norm, sandwich and parallel blocks are all this one shape:
/// pre-norm has `pre`, OLMo-2 has only `post`, Gemma has both, Cohere and
/// Phi-2 put attention and MLP into one branch's `ops`.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Of the stream, before the operations.
    pub pre: Option<Norm>,
    /// Side by side on one input; their outputs are summed in this order.
    pub ops: Vec<Op>,
    /// Of the sum.
    pub post: Option<Norm>,
    /// Multiplies what joins the stream.
    pub scale: f32,
}

/// One operation from `[rows, d_model]` to `[rows, d_model]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Softmax attention.
    Attention(Attention),
    /// Latent attention.
    Mla(Mla),
    /// Linear attention with the delta rule.
    DeltaNet(DeltaNet),
    /// State-space model.
    Mamba2(Mamba2),
    /// Gated convolution.
    ShortConv(ShortConv),
    /// Feed-forward network.
    Mlp(Mlp),
    /// Mixture of experts.
    Moe(Moe),
}

/// Grouped-query softmax attention. Ainslie et al. 2023, arXiv:2305.13245.
#[derive(Debug, Clone, PartialEq)]
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
    /// Keys visible to a query, counting itself; `None` is unlimited.
    pub window: Option<usize>,
    /// Whether a query sees only its own and earlier positions.
    pub causal: bool,
    /// Norms of queries and keys before the rotation.
    pub qk_norm: Option<QkNorm>,
    /// Whether the query, key and value projections add a bias.
    pub qkv_bias: bool,
    /// Whether the output projection adds a bias.
    pub out_bias: bool,
    /// `o · sigmoid(gate)` before the output projection (Qwen3-Next).
    pub out_gate: bool,
    /// Learned logit per head in the softmax denominator (gpt-oss).
    pub sinks: bool,
    /// `cap · tanh(score / cap)` before the mask (Gemma 2).
    pub softcap: Option<f32>,
    /// Layer whose K/V this one reads instead of writing its own (Gemma 3n).
    pub kv_from: Option<usize>,
}

/// Multi-head latent attention. DeepSeek-V2, arXiv:2405.04434.
#[derive(Debug, Clone, PartialEq)]
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
    /// The rotary table.
    pub rope: RopeId,
}

/// Gated delta rule. Yang et al. 2024, arXiv:2412.06464.
#[derive(Debug, Clone, PartialEq)]
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
    /// What the state forgets by.
    pub decay: Decay,
}

/// What a delta-rule state forgets by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decay {
    /// One factor a head.
    PerHead,
    /// One factor a key channel (Kimi delta attention).
    PerChannel,
}

/// State-space duality. Dao & Gu 2024, arXiv:2405.21060.
#[derive(Debug, Clone, PartialEq)]
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
    /// Whether the output is normed before its gate, or after.
    pub norm_before_gate: bool,
}

/// Gated short convolution (LFM2).
#[derive(Debug, Clone, PartialEq)]
pub struct ShortConv {
    /// Width of the causal convolution.
    pub width: usize,
}

/// `down(act(gate(x)) · up(x))`, or `down(act(up(x)))` without a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    /// Width of the hidden layer.
    pub d_ff: usize,
    /// The activation function.
    pub act: Act,
    /// Whether there is a gate.
    pub gated: bool,
    /// Whether its projections add biases.
    pub bias: bool,
}

/// A router and its experts. Shazeer et al. 2017, arXiv:1701.06538.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
pub struct Router {
    /// What the router's logits become.
    pub score: Score,
    /// Whether the chosen weights are divided by their sum.
    pub renormalise: bool,
    /// Multiplies the weights.
    pub scale: f32,
    /// Whether a bias joins the scores for the choice, not for the weights.
    pub select_bias: bool,
    /// Groups that experts are in; 1 is no grouping.
    pub groups: usize,
    /// Groups that are kept.
    pub top_groups: usize,
}

/// What a router's logits become.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// Softmax over all experts, before the choice.
    Softmax,
    /// Softmax over the chosen.
    SoftmaxOfTopK,
    /// Each expert by itself.
    Sigmoid,
}

/// An expert that every row visits.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// The expert.
    pub mlp: Mlp,
    /// Whether its output is multiplied by a learned sigmoid.
    pub sigmoid_gate: bool,
}

/// An elementwise function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// `x · sigmoid(x)`
    Silu,
    /// GELU's tanh form.
    GeluTanh,
    /// GELU by the error function.
    Gelu,
    /// `max(x, 0)²`
    Relu2,
    /// gpt-oss: clamp, then x·σ(1.702x).
    SiluClamped {
        /// Bound of both factors.
        limit: f32,
    },
}

/// A normalisation over the last axis, with a weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// Which statistic is divided out.
    pub kind: NormKind,
    /// Added to the variance, or to the mean square.
    pub eps: f32,
    /// Whether a bias is added.
    pub bias: bool,
}

/// Which statistic a norm divides out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NormKind {
    /// The root of the mean square.
    Rms,
    /// The mean, and the standard deviation.
    Layer,
}

/// A norm of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QkNorm {
    /// Each head by itself; `head_dim` weights.
    PerHead(Norm),
    /// All heads together; as many weights as the projection has rows.
    WholeVector(Norm),
    /// Each head by itself, no weight.
    L2 {
        /// Added to the mean square.
        eps: f32,
    },
}

/// Index into [`ModelSpec::ropes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RopeId(pub u8);

/// How tokens enter the residual stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Embed {
    /// Multiplies the embedding.
    pub scale: f32,
    /// Applied to it then.
    pub norm: Option<Norm>,
    /// Whether a learned vector a position is added.
    pub learned_positions: bool,
    /// Width of Gemma 3n's per-layer inputs.
    pub per_layer: usize,
}

/// What becomes of the residual stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Logits over the vocabulary.
    Lm {
        /// Whether the token embedding is the projection.
        tied: bool,
        /// Whether the projection adds a bias.
        bias: bool,
        /// Multiplies the logits.
        scale: f32,
        /// `cap · tanh(logit / cap)` then.
        softcap: Option<f32>,
    },
    /// One vector per sequence.
    Pool {
        /// From which rows.
        how: Pool,
        /// Whether it is divided by its length.
        normalise: bool,
    },
}

/// Which rows a sequence's vector is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pool {
    /// The mean of all.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
}

impl ModelSpec {
    /// Every attention, in the order of a forward pass.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        let ops = self.layers.iter().flatten().flat_map(|b| &b.ops);
        ops.filter_map(|op| if let Op::Attention(a) = op { Some(a) } else { None })
    }
}

impl Branch {
    /// The usual pre-norm branch.
    pub fn pre(norm: Norm, op: Op) -> Branch {
        Branch { pre: Some(norm), ops: vec![op], post: None, scale: 1.0 }
    }
    /// Gemma's: a norm on both sides.
    pub fn sandwich(norm: Norm, op: Op) -> Branch {
        Branch { post: Some(norm), ..Branch::pre(norm, op) }
    }
    /// Attention and MLP side by side on one norm.
    pub fn parallel(norm: Norm, ops: Vec<Op>) -> Branch {
        Branch { pre: Some(norm), ops, post: None, scale: 1.0 }
    }
    /// The same, with the branch's share multiplied.
    pub fn scaled(self, scale: f32) -> Branch {
        Branch { scale, ..self }
    }
}
