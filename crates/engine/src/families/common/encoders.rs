//! What encoders have in common: layers whose norms follow sums, and heads that give a vector or a score.
use super::Common;
use crate::config::{Config, ConfigError, Source};
use crate::spec::*;

/// Layers of which each branch's sum with the stream is normed: that norm is the next branch's own, which
/// reads and keeps what it makes; the last layer's is the model's.
pub fn post_normed(c: &Common, attention: &Attention, mlp: &Mlp) -> ModelSpec {
    let joins = |op| Branch { skip: Skip::Input(1.0), ..Branch::pre(c.norm, op) };
    let attention = Attention { causal: false, ..attention.clone() };
    let mut spec = c.model((0..c.layers).map(|i| {
        let attends = Op::Attention(attention.clone());
        // The first reads what the embedding's norm made.
        let attends = match i {
            0 => Branch::bare(vec![attends.into()]),
            _ => joins(attends),
        };
        vec![attends, joins(Op::Mlp(mlp.clone()))]
    }));
    spec.embed.norm = Some(c.norm);
    spec.head = pooled(Pool::Mean);
    spec
}

/// A vector that is pooled so, and nothing more.
pub fn pooled(how: Pool) -> Head {
    Head::Pool { how, dense: Vec::new(), normalise: false, scores: false }
}

/// How many numbers the model scores a text by, if its class is one that does.
///
/// # Errors
/// What is no number of labels.
pub fn scores(c: &Config) -> Result<Option<usize>, ConfigError> {
    let classes = c.texts("architectures")?;
    if !classes.iter().any(|class| class.ends_with("ForSequenceClassification")) {
        return Ok(None);
    }
    let named = c.get("id2label").and_then(|labels| Some(labels.as_object()?.len()));
    Ok(Some(named.filter(|n| *n > 0).map_or_else(|| c.size_or("num_labels", 2), Ok)?))
}

/// The head that GGUF's `pooling_type`, or else what lies beside a checkpoint gives a model: `pooling`.
///
/// # Errors
/// What is none.
pub fn pool(c: &Config, spec: &mut ModelSpec) -> Result<(), ConfigError> {
    let kind = if c.source == Source::Gguf { c.count_or("pooling_type", 0)? } else { 0 };
    if kind > 0 {
        let how = match kind {
            1 => Pool::Mean,
            2 => Pool::Cls,
            3 => Pool::Last,
            _ => return Err(c.refuse("pooling_type", "1 (mean), 2 (cls) or 3 (last)")),
        };
        let widths = [c.optional_size("dense_2_width")?, c.optional_size("dense_3_width")?];
        let plain = |width| Dense { width, bias: false, act: None, norm: None };
        let dense = widths.into_iter().flatten().map(plain).collect();
        // Its readers do so where nothing else is asked for.
        spec.head = Head::Pool { how, dense, normalise: true, scores: false };
    }
    let (mut dense, normalise) = match &spec.head {
        Head::Pool { scores: true, .. } => return Ok(()),
        Head::Pool { dense, normalise, .. } => (dense.clone(), *normalise),
        Head::Lm { .. } => (Vec::new(), false),
    };
    let Some(how) = c.text("pooling.how")? else { return Ok(()) };
    let how = match how {
        "mean" => Pool::Mean,
        "cls" => Pool::Cls,
        "last" => Pool::Last,
        "max" => Pool::Max,
        _ => return Err(c.refuse("pooling.how", "mean, cls, last or max")),
    };
    if c.get("pooling.widths").is_some() {
        let widths = c.sizes("pooling.widths")?;
        let layers = widths.iter().enumerate().map(|(i, width)| layer(c, i, *width));
        dense = layers.collect::<Result<_, ConfigError>>()?;
    }
    let normalise = c.flag("pooling.normalise", normalise)?;
    spec.head = Head::Pool { how, dense, normalise, scores: false };
    Ok(())
}

/// Dense layer `i`, as [`pool`] finds it.
fn layer(c: &Config, i: usize, width: usize) -> Result<Dense, ConfigError> {
    let at = |key: &str| format!("pooling.dense_{}_{key}", i + 2);
    let act = match c.text(&at("act"))? {
        None | Some("identity") => None,
        Some("tanh") => Some(DenseAct::Tanh),
        Some("gelu") => Some(DenseAct::Gelu),
        Some(_) => return Err(c.refuse(&at("act"), "identity, tanh or gelu")),
    };
    Ok(Dense { width, bias: c.flag(&at("bias"), false)?, act, norm: None })
}
