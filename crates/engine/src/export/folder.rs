//! A Hugging Face folder as a GGUF file: canonical tensors, which are GGUF's, and what the spec says in
//! GGUF's keys.
use super::fold::{EMBEDDING, Factors, OUTPUT};
use super::head::Of;
use super::{From, Plan, Stored, kind, shapes, types, vocab};
use crate::backend::Quant;
use crate::cpu::types::facts;
use crate::embed::Companions;
use crate::error::{Error, Result};
use crate::load::Opened;
use crate::spec::{Attention, Groups, ModelSpec, Op, Reach};
use crate::weights::Filed;
use crate::weights::moved::Moved;
use rinfer_formats::gguf::write::{Item, Planned};
use rinfer_formats::gguf::{FOLDED, takes_windows};
use rinfer_formats::{DType, Folder, Weights};
use std::path::Path;

/// What is written of `folder`, of no more than `context` positions.
pub(super) fn plan<'a>(
    folder: &'a Folder,
    opened: &'a Opened,
    quant: Quant,
    context: Option<usize>,
) -> Result<Plan<'a>> {
    let refuse = |problem: String| Error::Export { file: opened.name.clone(), problem };
    let spec = &within(opened, context)?;
    let family = opened.family;
    let architecture = family.written(spec).ok_or_else(|| {
        refuse(format!("the family {} is not written yet; pack it as .rinf instead", family.name))
    })?;
    if let Some(what) = unheeded(spec, &architecture) {
        let problem = format!("{what}; pack it as .rinf instead");
        return Err(refuse(problem));
    }
    let checkpoint = opened.named()?;
    let mut filed = checkpoint.filed();
    let dtype = |filed: &Filed| {
        let (dtype, _) = checkpoint.describe(&filed.pieces.first()?.name)?;
        Some(stored(&filed.name, &filed.shape, dtype))
    };
    let planned = |filed: &Filed| Planned {
        name: filed.name.clone(),
        dtype: dtype(filed).unwrap_or(DType::F32),
        shape: shapes::of(spec, filed),
    };
    let mut tensors: Vec<Planned> = filed.iter().map(planned).collect();
    let config = folder.config();
    let of = Of { name: &opened.name, spec, config: config.get("text_config").unwrap_or(config) };
    let head = of.head(&architecture, &tensors)?;
    if head.untied {
        filed.extend(filed.iter().find(|filed| filed.name == EMBEDDING).map(second));
        tensors.push(planned(&filed[filed.len() - 1]));
    }
    let moved = Moved::between(family, spec, &head.spec);
    let moved = moved.map_err(|why| refuse(format!("{why}; pack it as .rinf instead")))?;
    let named: Vec<(&str, Vec<usize>, DType)> =
        tensors.iter().map(|t| (t.name.as_str(), t.shape.clone(), t.dtype)).collect();
    let types = types(&named, (quant, opened.is_adapted()), &facts(spec))?;
    let folds = !head.factors.is_empty() && !family.folds();
    let mut metadata = general(&architecture, &called(&opened.name), folds);
    metadata.extend(head.keys.into_iter().chain(kind(quant, &named)));
    let (tokenizer, mut unsaid) = vocab::of(folder, opened, spec.vocab)?;
    unsaid.extend(Companions::of(opened)?.unsaid());
    metadata.extend(tokenizer);
    let mut all: Vec<Stored> = head.made.into_iter().map(Stored::made).collect();
    for (filed, planned) in filed.into_iter().zip(&tensors) {
        let times = times(&filed, &head.factors);
        // Products are rounded when they are to be, not besides.
        let own = if times.is_empty() { planned.dtype } else { DType::F32 };
        let dtype = types.get(&*planned.name).copied().unwrap_or(own);
        all.push(entry(filed, Planned { dtype, ..planned.clone() }, &moved, times));
    }
    if let Some(problem) = unknown_type(&all) {
        return Err(refuse(problem));
    }
    Ok(Plan { metadata, tensors: all, weights: Box::new(checkpoint), name: &opened.name, unsaid })
}

/// What is said of a tensor whose type GGUF has not.
fn unknown_type(all: &[Stored]) -> Option<String> {
    let odd = all.iter().find(|t| t.planned.dtype.format().ggml.is_none())?;
    let (name, found) = (&odd.planned.name, odd.planned.dtype.name());
    Some(format!("'{name}' is {found}, a type that GGUF has not: take f32"))
}

/// What the file is.
fn general(architecture: &str, name: &str, folds: bool) -> Vec<(String, Item)> {
    let all = [("architecture", architecture), ("type", "model"), ("name", name)];
    let all = all.map(|(key, text)| (format!("general.{key}"), Item::str(text)));
    let folded = folds.then(|| (FOLDED.to_owned(), Item::bool(true)));
    all.into_iter().chain(folded).collect()
}

/// The model with no more than so many positions.
fn within(opened: &Opened, context: Option<usize>) -> Result<ModelSpec> {
    let spec = &opened.spec;
    match context {
        Some(n) if n == 0 || n > spec.context => Err(Error::Option {
            option: "context",
            found: n.to_string(),
            problem: format!("the model has 1 to {} positions", spec.context),
        }),
        _ => Ok(ModelSpec { context: context.unwrap_or(spec.context), ..spec.clone() }),
    }
}

/// The head's matrix, of the tokens' vectors.
fn second(embedding: &Filed) -> Filed {
    Filed { name: OUTPUT.to_owned(), ..embedding.clone() }
}

/// By piece, what it is multiplied by; none if nothing is.
fn times(filed: &Filed, factors: &Factors) -> Vec<Vec<f32>> {
    let of = |name: &str| factors.get(name).cloned().unwrap_or_default();
    let all: Vec<Vec<f32>> = match filed.name.as_str() {
        OUTPUT => vec![of(OUTPUT)],
        _ => filed.pieces.iter().map(|piece| of(&piece.name)).collect(),
    };
    if all.iter().all(Vec::is_empty) { Vec::new() } else { all }
}

/// What GGUF's keys say and its readers compute otherwise, if the model has such.
fn unheeded(spec: &ModelSpec, architecture: &str) -> Option<String> {
    let window = |a: &Attention| match a.reach {
        Reach::Window(n) if n < spec.context => Some(n),
        _ => None,
    };
    if let Some(least) = spec.attentions().filter_map(window).min()
        && !takes_windows(architecture)
    {
        return Some(format!(
            "its layers have windows of {least} positions, which GGUF has no key for that readers of \
             {architecture} files heed; --context {least} writes it with as many, where no window matters"
        ));
    }
    let least = |op: &Op| match op {
        Op::Mamba2(m) if m.dt_limit.0 > 0.0 => Some(m.dt_limit.0),
        _ => None,
    };
    if let Some(least) = spec.ops().find_map(least) {
        return Some(format!(
            "its steps are at least {least} long, which GGUF has no key for: with time_step_min 0 in its \
             config.json it is written without, as other converters do"
        ));
    }
    let best = |g: &Groups| g.best != 2 && g.choose();
    let best = |op: &Op| matches!(op, Op::Moe(moe) if moe.router.groups.as_ref().is_some_and(best));
    let groups = "its groups of experts go by their best one, which GGUF has no key for: readers take \
                  the sum of their best two";
    spec.ops().any(best).then(|| groups.to_owned())
}

/// A tensor, with the rows that its pieces give it.
pub(super) fn entry(filed: Filed, planned: Planned, moved: &Moved, times: Vec<Vec<f32>>) -> Stored {
    let stack = (filed.shape.len() == 3).then(|| filed.shape[0]);
    let columns = filed.pieces.first().and_then(|p| moved.columns.get(&p.name)).cloned();
    let changed = filed.pieces.len() > 1 || moved.rows.contains_key(&filed.pieces[0].name);
    let order = changed.then(|| {
        let mut order = Vec::new();
        for (i, piece) in filed.pieces.iter().enumerate() {
            let own = moved.rows.get(&piece.name);
            let count = piece.rows.as_ref().map(Vec::len).or(own.map(Vec::len)).unwrap_or(0);
            order.resize(order.len().max(count), (0, 0));
            for row in 0..count {
                let at = piece.rows.as_ref().map_or(row, |rows| rows[row]);
                if at >= order.len() {
                    order.resize(at + 1, (0, 0));
                }
                order[at] = (i, own.map_or(row, |own| own[row]));
            }
        }
        order
    });
    let pieces = filed.pieces.into_iter().map(|piece| piece.name).collect();
    Stored { planned, from: From::Rows { pieces, stack, order, columns, times } }
}

/// What people call the model: its folder.
fn called(path: &str) -> String {
    let path = Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// How llama.cpp's converter stores a tensor: what is no matrix, and what is small, as f32.
fn stored(name: &str, shape: &[usize], dtype: DType) -> DType {
    const WIDE: [&str; 9] = [
        ".ffn_gate_inp",
        ".ssm_conv1d",
        ".shortconv.conv",
        "_norm.weight",
        "position_embd",
        "token_types",
        "altup_correct_coef",
        "altup_predict_coef",
        ".indexer.proj",
    ];
    let wide = shape.len() < 2 || !name.ends_with(".weight");
    if wide || WIDE.iter().any(|part| name.contains(part)) { DType::F32 } else { dtype }
}
