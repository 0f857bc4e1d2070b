//! The registry: one line a family.
use crate::backend::LoadError;
use crate::config::{Config, ConfigError};
use crate::spec::{Attention, Layer, ModelSpec, Moe, Op, Reach, Renormalise, Router, Score};

mod afmoe;
mod bailing;
mod bailing_hybrid;
mod bamba;
mod bert;
mod bloom;
mod cohere;
pub mod common;
mod deepseek;
mod deepseek_sparse;
mod ernie_moe;
mod exaone;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma3n;
mod gemma4;
mod glm;
mod glm4_moe;
mod gpt;
mod gpt_oss;
mod granite;
mod granite_hybrid;
mod granite_moe;
mod hunyuan;
mod internlm;
mod jamba;
mod kimi_linear;
mod lfm2;
mod llama;
mod llama4;
mod llama_like;
mod mamba;
mod minicpm3;
mod minimax;
mod mixtral;
mod modernbert;
mod nanochat;
mod nemotron_h;
mod neox;
mod nomic_bert;
mod olmo;
mod olmo_hybrid;
mod olmoe;
mod phi3;
mod phimoe;
mod qwen;
mod qwen_hybrid;
mod qwen_moe;
mod recurrent_gemma;
mod smollm;
mod stablelm;
mod starcoder2;
mod ungated;
mod zamba2;

/// Every family, one line each.
pub static FAMILIES: &[&Family] = &[
    &llama::LLAMA,
    &llama::MISTRAL,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
    &gemma3n::GEMMA3N,
    &gemma4::GEMMA4,
    &bloom::BLOOM,
    &bloom::MPT,
    &cohere::COHERE,
    &cohere::COHERE2,
    &exaone::EXAONE4,
    &hunyuan::HUNYUAN,
    &hunyuan::HUNYUAN_MOE,
    &nanochat::NANOCHAT,
    &olmo::OLMO,
    &olmo::OLMO2,
    &smollm::SMOLLM3,
    &stablelm::STABLELM,
    &mixtral::MIXTRAL,
    &mixtral::MINIMAX_M2,
    &qwen_moe::QWEN2_MOE,
    &qwen_moe::QWEN3_MOE,
    &qwen_moe::MELLUM,
    &glm4_moe::GLM4_MOE,
    &glm4_moe::DOTS1,
    &glm4_moe::EXAONE_MOE,
    &olmoe::OLMOE,
    &olmoe::FLEX_OLMO,
    &granite_moe::GRANITE_MOE,
    &bailing::BAILING_MOE,
    &ernie_moe::ERNIE4_5_MOE,
    &gpt_oss::GPT_OSS,
    &llama4::LLAMA4,
    &afmoe::AFMOE,
    &phimoe::PHIMOE,
    &llama_like::BAICHUAN,
    &llama_like::ERNIE4_5,
    &llama_like::HELIUM,
    &llama_like::EXAONE,
    &internlm::INTERNLM,
    &internlm::INTERNLM2,
    &internlm::INTERNLM3,
    &llama_like::SEED_OSS,
    &gpt::GPT2,
    &gpt::STARCODER,
    &gpt::OPT,
    &neox::GPT_J,
    &neox::GPT_NEOX,
    &neox::PHI,
    &falcon::FALCON,
    &glm::GLM,
    &glm::GLM4,
    &glm::CHATGLM,
    &granite::GRANITE,
    &granite::MINICPM,
    &ungated::ARCEE,
    &ungated::NEMOTRON,
    &ungated::APERTUS,
    &phi3::PHI3,
    &starcoder2::STARCODER2,
    &deepseek::DEEPSEEK_V2,
    &deepseek::DEEPSEEK_V3,
    &deepseek_sparse::DEEPSEEK_V32,
    &deepseek::GLM4_MOE_LITE,
    &deepseek_sparse::GLM_MOE_DSA,
    &deepseek::MISTRAL4,
    &minicpm3::MINICPM3,
    &mamba::MAMBA,
    &mamba::MAMBA2,
    &nemotron_h::NEMOTRON_H,
    &bamba::BAMBA,
    &granite_hybrid::GRANITE_HYBRID,
    &olmo_hybrid::OLMO_HYBRID,
    &recurrent_gemma::RECURRENT_GEMMA,
    &lfm2::LFM2,
    &lfm2::LFM2_MOE,
    &qwen_hybrid::QWEN3_5,
    &qwen_hybrid::QWEN3_5_MOE,
    &qwen_hybrid::QWEN3_NEXT,
    &jamba::JAMBA,
    &falcon_h1::FALCON_H1,
    &minimax::MINIMAX,
    &kimi_linear::KIMI_LINEAR,
    &bailing_hybrid::BAILING_HYBRID,
    &zamba2::ZAMBA2,
    &bert::BERT,
    &bert::ROBERTA,
    &nomic_bert::NOMIC_BERT,
    &modernbert::MODERNBERT,
];

/// What a family is: how its hyper-parameters become a spec, and what its tensors are called.
pub struct Family {
    /// For people.
    pub name: &'static str,
    /// `model_type` values of config.json.
    pub hf: &'static [&'static str],
    /// `general.architecture` values of GGUF.
    pub gguf: &'static [&'static str],
    /// The pure function from hyper-parameters to a model.
    pub spec: fn(&Config) -> Result<ModelSpec, ConfigError>,
    /// Hugging Face's names to canonical names: of these tables' rules that fit, the first that makes
    /// something the model needs.
    pub names: &'static [&'static [Rename]],
    /// The same of GGUF's names, which are the canonical ones where no rule fits.
    pub gguf_names: &'static [&'static [Rename]],
}

/// How a tensor becomes canonical ones. `{}` is the layer, `{e}` the expert or adapter, `{past}` a layer
/// after the model's last, a final `*` anything; names stand without their `.weight` or `.bias`,
/// and may lack a first `model.` or `transformer.`.
#[derive(Clone, Copy, Debug)]
pub enum Rename {
    /// The same data.
    To(&'static str, &'static str),
    /// The same data as one vector.
    Flat(&'static str, &'static str),
    /// The same data, of the layer after; of the last layer, the name that stands last.
    Next(&'static str, &'static str, &'static str),
    /// Rows of one tensor are several, in this order; the spec gives the sizes. Rows are along the
    /// last axis but one, of vectors and biases along the last.
    Split(&'static str, &'static [&'static str]),
    /// The same in another order.
    Cut(&'static str, Cut, &'static [&'static str]),
    /// Rows of the first, together with those of the second and so on, are those of several.
    Join(&'static [&'static str], &'static [&'static str]),
    /// `{e}` runs over experts, stacked on a new first axis.
    Stack(&'static str, &'static str),
    /// As `To`, adding one to every element of a weight (Gemma's norms).
    PlusOne(&'static str, &'static str),
    /// As `To`, mapping a to -exp(a) (Mamba's A_log).
    NegExp(&'static str, &'static str),
    /// As `To`, mapping every element.
    Map(&'static str, fn(f32) -> f32, &'static str),
    /// Present in checkpoints, not used by us.
    Ignore(&'static str),
}

/// In which order a tensor holds the rows of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// One after the other.
    Rows,
    /// One after the other, as columns: stored `[in, out]`.
    Columns,
    /// One after the other within each head.
    Heads(Per),
    /// One row of each in turn.
    Alternate,
    /// One column of each in turn: stored `[in, out]`.
    AlternateColumns,
    /// Within each head rows that make its keys, then rows that make its values: two stacks of a
    /// matrix a head, the keys' with rows and columns swapped.
    KeysValues,
}

/// Whose heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// An attention's key and value heads.
    KvHead,
    /// An attention's query heads.
    Head,
    /// A delta net's key heads.
    KeyHead,
}

/// The family of a checkpoint: by `model_type` (a GGUF file's architecture), or else by
/// `architectures`.
///
/// # Errors
/// The name that no family has, and the names that would do.
pub fn find(config: &Config) -> Result<&'static Family, LoadError> {
    let model_type = config.text("model_type")?;
    let classes = config.texts("architectures")?;
    let classes = || classes.iter().map(|c| plain(c.split("For").next().unwrap_or(c)));
    let by_type =
        |f: &&&Family| model_type.is_some_and(|t| f.hf.contains(&t) || f.gguf.contains(&t));
    let by_class = |f: &&&Family| classes().any(|c| f.hf.iter().any(|t| plain(t) == c));
    let found = FAMILIES.iter().find(by_type).or_else(|| FAMILIES.iter().find(by_class));
    found.copied().ok_or_else(|| {
        let named =
            model_type.map(str::to_owned).or_else(|| config.texts("architectures").ok()?.pop());
        unknown(config, named.unwrap_or_else(|| "nothing".into()))
    })
}

/// Holds a spec against keys that not every family reads: `layer_types`, and GGUF's number of what a
/// router's logits go through.
///
/// # Errors
/// If a layer is of another kind, or an attention has another reach, than is said there, or layers
/// are not as many; if a router scores by something else.
pub fn agree(config: &Config, spec: &ModelSpec) -> Result<(), ConfigError> {
    let types = config.texts("layer_types")?;
    let fits = |layer: &Layer, kind: &str| {
        let ops = || layer.iter().flat_map(|b| &b.parts).map(|part| &part.op);
        let attends = ops().any(|op| matches!(op, Op::Attention(_) | Op::Mla(_)));
        let named = matches!(kind, "full_attention" | "sliding_attention" | "chunked_attention");
        let reaches = ops().all(|op| match op {
            Op::Attention(Attention { reach: Reach::All, .. }) => {
                matches!(kind, "full_attention" | "attention" | "hybrid")
            }
            Op::Attention(Attention { reach: Reach::Window(_), .. }) => kind == "sliding_attention",
            Op::Attention(Attention { reach: Reach::Chunk(_), .. }) => kind == "chunked_attention",
            _ => true,
        });
        reaches && (attends || !named)
    };
    let mut layers = spec.layers.iter().zip(&types);
    let all = types.len() == spec.layers.len() && layers.all(|(layer, kind)| fits(layer, kind));
    if !all && !types.is_empty() {
        return Err(config.refuse("layer_types", "the kind that the other keys give each layer"));
    }
    let causal = config.flag("causal_attention", true)?;
    if spec.attentions().any(|attention| attention.causal && !causal) {
        return Err(config.refuse("causal_attention", "true: of this architecture"));
    }
    let key = "expert_gating_func";
    let number = config.count_or(key, 0)?;
    let scored = spec.ops().all(|op| match op {
        Op::Moe(Moe { router, .. }) => scores(router).contains(&number),
        _ => true,
    });
    let expected =
        "the router's of this architecture: 1 is softmax, 2 sigmoid, 3 softmax of the chosen";
    if number == 0 || scored { Ok(()) } else { Err(config.refuse(key, expected)) }
}

/// GGUF's numbers of a router: a softmax of all, divided by the sum of the chosen, is one of these.
fn scores(router: &Router) -> &'static [usize] {
    match (router.score, router.renormalise) {
        (Score::Sigmoid, _) => &[2],
        (Score::Softmax, Renormalise::No) | (Score::Sparsemixer { .. }, _) => &[1],
        (Score::Softmax | Score::SoftmaxOfTopK, _) => &[1, 3],
    }
}

/// `Qwen2`, `qwen2` and `qwen-2` alike.
fn plain(tag: &str) -> String {
    let tag = tag.strip_suffix("_text").unwrap_or(tag);
    tag.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn unknown(config: &Config, found: String) -> LoadError {
    let all: Vec<&str> = FAMILIES.iter().flat_map(|f| config.pick(f.hf, f.gguf)).copied().collect();
    let stem = plain(found.split("For").next().unwrap_or(&found));
    let near = all.iter().map(|t| (distance(&plain(t), &stem), *t)).min();
    let nearest = near.filter(|(d, _)| 2 * d < stem.len()).map(|(_, t)| t);
    LoadError::Architecture { found, nearest, supported: all.join(", ") }
}

/// Levenshtein's, over bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let swap = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = swap.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
