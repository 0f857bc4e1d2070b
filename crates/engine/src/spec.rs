//! A model as data: what to compute, resolved per layer, with no code in it.
//!
//! A backend never sees a family name. It walks `layers` and meets only the
//! seven `Op` kinds, so a new family that composes them costs no backend code.

/// A whole decoder (or encoder) stack. Every field is final: no defaults are
/// applied and no closures are called after `Family::spec` returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    pub d_model: usize,
    pub vocab: usize,
    /// Longest trained position, in tokens.
    pub context: usize,
    pub embed: Embed,
    /// Distinct rotary tables; layers name one by index, so two layers that
    /// share a table share memory.
    pub ropes: Vec<Rope>,
    pub layers: Vec<Layer>,
    pub final_norm: Option<Norm>,
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
    pub pre: Option<Norm>,
    pub ops: Vec<Op>,
    pub post: Option<Norm>,
    pub scale: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    Attention(Attention),
    Mla(Mla),
    DeltaNet(DeltaNet),
    Mamba2(Mamba2),
    ShortConv(ShortConv),
    Mlp(Mlp),
    Moe(Moe),
}

/// Grouped-query softmax attention. Ainslie et al. 2023, arXiv:2305.13245.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Multiplies q·k before the softmax.
    pub scale: f32,
    pub rope: Option<RopeId>,
    /// Keys visible to a query, counting itself; `None` is unlimited.
    pub window: Option<usize>,
    pub causal: bool,
    pub qk_norm: Option<QkNorm>,
    pub qkv_bias: bool,
    pub out_bias: bool,
    /// `o · sigmoid(gate)` before the output projection (Qwen3-Next).
    pub out_gate: bool,
    /// Learned logit per head in the softmax denominator (gpt-oss).
    pub sinks: bool,
    pub softcap: Option<f32>,
    /// Layer whose K/V this one reads instead of writing its own (Gemma 3n).
    pub kv_from: Option<usize>,
}

/// Multi-head latent attention. DeepSeek-V2, arXiv:2405.04434.
#[derive(Debug, Clone, PartialEq)]
pub struct Mla {
    pub heads: usize,
    /// 0: a direct query projection.
    pub q_rank: usize,
    pub kv_rank: usize,
    pub nope_dim: usize,
    pub rope_dim: usize,
    pub v_dim: usize,
    pub scale: f32,
    pub rope: RopeId,
}

/// Gated delta rule. Yang et al. 2024, arXiv:2412.06464.
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaNet {
    pub k_heads: usize,
    pub v_heads: usize,
    pub k_dim: usize,
    pub v_dim: usize,
    pub conv: usize,
    pub decay: Decay,
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decay {
    PerHead,
    /// Kimi delta attention.
    PerChannel,
}

/// State-space duality. Dao & Gu 2024, arXiv:2405.21060.
#[derive(Debug, Clone, PartialEq)]
pub struct Mamba2 {
    pub heads: usize,
    pub head_dim: usize,
    pub state: usize,
    pub groups: usize,
    pub conv: usize,
    pub norm_before_gate: bool,
}

/// Gated short convolution (LFM2).
#[derive(Debug, Clone, PartialEq)]
pub struct ShortConv {
    pub width: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    pub d_ff: usize,
    pub act: Act,
    pub gated: bool,
    pub bias: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Moe {
    pub experts: usize,
    pub top_k: usize,
    pub expert: Mlp,
    pub router: Router,
    pub shared: Option<Shared>,
}
#[derive(Debug, Clone, PartialEq)]
pub struct Router {
    pub score: Score,
    pub renormalise: bool,
    pub scale: f32,
    pub select_bias: bool,
    pub groups: usize,
    pub top_groups: usize,
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    Softmax,
    SoftmaxOfTopK,
    Sigmoid,
}
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    pub mlp: Mlp,
    pub sigmoid_gate: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    Silu,
    GeluTanh,
    Gelu,
    Relu2,
    /// gpt-oss: clamp, then x·σ(1.702x).
    SiluClamped {
        limit: f32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    pub kind: NormKind,
    pub eps: f32,
    pub bias: bool,
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NormKind {
    Rms,
    Layer,
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QkNorm {
    PerHead,
    WholeVector,
    /// No weight.
    L2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RopeId(pub u8);
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    pub theta: f32,
    /// Leading dimensions of a head that rotate.
    pub dim: usize,
    pub layout: RopeLayout,
    pub scaling: Scaling,
    /// M-RoPE section widths; empty for text.
    pub sections: Vec<usize>,
}
/// Which two elements of a head form a rotated pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeLayout {
    /// (i, i + dim/2), as Hugging Face stores it.
    Halves,
    /// (2i, 2i + 1), as GGUF's llama stores it.
    Pairs,
}
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    None,
    Linear {
        factor: f32,
    },
    Llama3 {
        factor: f32,
        low: f32,
        high: f32,
        original: usize,
    },
    /// `attention` multiplies cosines and sines; `truncate` rounds the ramp's ends to integers.
    Yarn {
        factor: f32,
        original: usize,
        beta_fast: f32,
        beta_slow: f32,
        attention: f32,
        truncate: bool,
    },
    LongRope {
        short: Vec<f32>,
        long: Vec<f32>,
        original: usize,
        attention: f32,
    },
    /// Frequencies divided by these, one a pair (GGUF's `rope_freqs`).
    Factors(Vec<f32>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Embed {
    pub scale: f32,
    pub norm: Option<Norm>,
    pub learned_positions: bool,
    /// Width of Gemma 3n's per-layer inputs.
    pub per_layer: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Logits over the vocabulary.
    Lm { tied: bool, bias: bool, scale: f32, softcap: Option<f32> },
    /// One vector per sequence.
    Pool { how: Pool, normalise: bool },
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pool {
    Mean,
    Cls,
    Last,
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
    pub fn scaled(self, scale: f32) -> Branch {
        Branch { scale, ..self }
    }
}
