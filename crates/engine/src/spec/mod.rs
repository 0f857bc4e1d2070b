//! A model as data: what to compute, resolved per layer, with no code in it.
//!
//! A backend never sees a family name. It walks `layers` and meets only the
//! kinds of [`Op`], so a new family that composes them costs no backend code.
//!
//! A bundle keeps a spec as JSON and is to be read by later versions too: a field that is added
//! to a type gets a serde default that means what there was before it.
mod attention;
mod mlp;
mod recurrent;
mod streams;

pub use crate::rope::{Rope, RopeLayout, Scaling, Stretch};
pub use attention::{
    Alibi, Attention, Indexer, Keys, Mla, NormOver, OutGate, QkNorm, Reach, Temperature,
};
pub use mlp::{Act, Adapter, Groups, Mlp, Moe, Renormalise, Router, RouterInput, Score, Shared};
pub use recurrent::{Decay, DeltaNet, Gate, Lightning, Mamba1, Mamba2, RgLru, ShortConv};
pub use streams::{AltUp, InputGate, Laurel, PerLayer};

use serde::{Deserialize, Serialize};

/// A whole decoder (or encoder) stack. Every field is final: no defaults are
/// applied and no closures are called after `Family::spec` returned it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct ModelSpec {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Rows of the token embedding and of the logits.
    pub vocab: usize,
    /// Longest trained position, in tokens.
    pub context: usize,
    /// How tokens enter the stream.
    pub embed: Embed,
    /// Further residual streams.
    pub altup: Option<AltUp>,
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

/// `x += scale · post(Σ part(pre(x)))`.
///
/// Pre-norm, post-norm, sandwich and parallel blocks are all this one shape:
/// pre-norm has `pre`, OLMo-2 has only `post`, Gemma has both, Cohere and
/// Phi-2 put attention and MLP into one branch's `parts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Branch {
    /// What it works on.
    pub reads: Reads,
    /// Under which number lie the tensors that it has in common with branches of other layers; none
    /// where they are its layer's own.
    pub shared: Option<usize>,
    /// Of what it reads, before the operations.
    pub pre: Option<Norm>,
    /// Side by side on one input; their outputs are summed in this order.
    pub parts: Vec<Part>,
    /// Of the sum.
    pub post: Option<Norm>,
    /// Multiplies what joins the stream.
    pub scale: f32,
    /// What the branch's share is added to.
    pub skip: Skip,
    /// What becomes of the stream then.
    pub then: Then,
}

/// What a branch works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reads {
    /// The stream.
    Stream,
    /// The stream, and after it what the tokens entered it as: twice as wide.
    StreamAndTokens,
    /// What the last branch that did so set aside.
    Aside,
}

/// What a branch's share is added to, to become the stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Skip {
    /// The stream.
    Stream,
    /// The branch's normed input, times this.
    Input(f32),
    /// Each of the other streams.
    Others,
    /// Nothing, or the stream; the sum is set aside, and the stream stays as it is.
    Aside {
        /// Whether it is the stream.
        stream: bool,
    },
}

/// What the stream is multiplied by after a branch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// A constant.
    Scale(f32),
    /// A learned scalar, the layer's `layer_output_scale`.
    Learned,
}

/// `scale · post(op(pre(x)))`, where `x` is the branch's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Part {
    /// Of the branch's input.
    pub pre: Option<Norm>,
    /// The operation.
    pub op: Op,
    /// Of its output.
    pub post: Option<Norm>,
    /// Multiplies that.
    pub scale: f32,
}

/// One operation from what its branch reads, `[rows, d_model]` or wider, to `[rows, d_model]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Softmax attention.
    Attention(Attention),
    /// Latent attention.
    Mla(Mla),
    /// Linear attention with the delta rule.
    DeltaNet(DeltaNet),
    /// Linear attention with a fixed decay.
    Lightning(Lightning),
    /// Selective state-space model.
    Mamba1(Mamba1),
    /// State-space model by heads.
    Mamba2(Mamba2),
    /// Gated linear recurrence.
    RgLru(RgLru),
    /// Gated convolution.
    ShortConv(ShortConv),
    /// Feed-forward network.
    Mlp(Mlp),
    /// Mixture of experts.
    Moe(Moe),
    /// Learned residual of low rank.
    Laurel(Laurel),
    /// A token's own input to the layer.
    InputGate(InputGate),
    /// One projection.
    Linear,
}

/// A normalisation over the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Norm {
    /// Which statistic is divided out.
    pub kind: NormKind,
    /// Added to the variance, or to the mean square.
    pub eps: f32,
    /// Whether it is multiplied by a learned vector.
    pub weight: bool,
    /// Whether one is added.
    pub bias: bool,
}

/// Which statistic a norm divides out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NormKind {
    /// The root of the mean square.
    Rms,
    /// The mean, and the standard deviation.
    Layer,
    /// None: there is but a weight.
    None,
}

/// Index into [`ModelSpec::ropes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct RopeId(pub u8);

/// How tokens enter the residual stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Embed {
    /// Multiplies the embedding.
    pub scale: f32,
    /// A learned vector a kind of text is added then, the first of a pair's or the second's: rows of
    /// `token_types`.
    #[serde(default)]
    pub types: Option<usize>,
    /// A learned vector a position is added then.
    pub positions: Option<Positions>,
    /// Applied to the sum.
    pub norm: Option<Norm>,
    /// What a token gives each layer besides.
    pub per_layer: Option<PerLayer>,
}

/// Learned positions: position `p` adds row `p + offset` of `position_embd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Positions {
    /// Rows of the table.
    pub rows: usize,
    /// Rows before the first position's.
    pub offset: usize,
}

/// What becomes of the residual stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
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
    /// One vector per sequence. Reimers & Gurevych 2019, arXiv:1908.10084.
    Pool {
        /// From which rows.
        how: Pool,
        /// What it goes through then, in order; the first is `dense_2`, as GGUF counts.
        dense: Vec<Dense>,
        /// Whether it is divided by its length.
        normalise: bool,
        /// Whether it is what a text, or a pair of them, is scored by: the layers are `cls` then, and
        /// the last of several `cls.output`.
        scores: bool,
    },
}

/// `norm(act(projection(x)))` of a sequence's vector.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Dense {
    /// Elements of its output.
    pub width: usize,
    /// Whether the projection adds a bias.
    pub bias: bool,
    /// The activation function, if there is one.
    pub act: Option<DenseAct>,
    /// Of the output.
    pub norm: Option<Norm>,
}

/// What a dense layer's output goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DenseAct {
    /// The hyperbolic tangent.
    Tanh,
    /// GELU by the error function.
    Gelu,
}

/// Which rows a sequence's vector is made of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pool {
    /// The mean of all.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
    /// The largest of each element.
    Max,
}

impl ModelSpec {
    /// Every operation, in the order of a forward pass.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.layers.iter().flatten().flat_map(|b| &b.parts).map(|part| &part.op)
    }
    /// Every attention, in the order of a forward pass.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        self.ops().filter_map(|op| if let Op::Attention(a) = op { Some(a) } else { None })
    }
    /// Elements to a row of what a pass gives: logits, or a sequence's vector.
    pub fn width(&self) -> usize {
        match &self.head {
            Head::Lm { .. } => self.vocab,
            Head::Pool { dense, .. } => dense.last().map_or(self.d_model, |dense| dense.width),
        }
    }
    /// Whether the token embedding is the projection to logits.
    pub fn tied(&self) -> bool {
        matches!(self.head, Head::Lm { tied: true, .. })
    }
}

impl Reads {
    /// Of a stream of `d_model`.
    pub fn width(self, d_model: usize) -> usize {
        if self == Reads::StreamAndTokens { 2 * d_model } else { d_model }
    }
}

impl Norm {
    /// A root-mean-square norm with a weight.
    pub fn rms(eps: f32) -> Norm {
        Norm { kind: NormKind::Rms, eps, weight: true, bias: false }
    }
    /// A layer norm with a weight and a bias.
    pub fn layer(eps: f32) -> Norm {
        Norm { kind: NormKind::Layer, eps, weight: true, bias: true }
    }
}

impl From<Op> for Part {
    fn from(op: Op) -> Part {
        Part { pre: None, op, post: None, scale: 1.0 }
    }
}

impl Branch {
    /// Without any norm.
    pub fn bare(parts: Vec<Part>) -> Branch {
        let (scale, skip, then) = (1.0, Skip::Stream, Then::Nothing);
        let reads = Reads::Stream;
        Branch { reads, shared: None, pre: None, parts, post: None, scale, skip, then }
    }
    /// The usual pre-norm branch.
    pub fn pre(norm: Norm, op: Op) -> Branch {
        Branch { pre: Some(norm), ..Branch::bare(vec![op.into()]) }
    }
    /// A norm of the output alone.
    pub fn post(norm: Norm, op: Op) -> Branch {
        Branch { post: Some(norm), ..Branch::bare(vec![op.into()]) }
    }
    /// A norm on both sides.
    pub fn sandwich(norm: Norm, op: Op) -> Branch {
        Branch { post: Some(norm), ..Branch::pre(norm, op) }
    }
    /// Several operations side by side on one norm.
    pub fn parallel(norm: Norm, ops: impl IntoIterator<Item = Op>) -> Branch {
        Branch { pre: Some(norm), ..Branch::bare(ops.into_iter().map(Part::from).collect()) }
    }
    /// The same, with the branch's share multiplied.
    pub fn scaled(self, scale: f32) -> Branch {
        Branch { scale, ..self }
    }
}
