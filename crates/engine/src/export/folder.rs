//! A Hugging Face folder as a GGUF file: canonical tensors, which are GGUF's, and what the spec says in
//! GGUF's keys.
//!
//! The header is read back before a weight is written. It must be the same model but for the order in
//! which rows lie, which is then theirs.
use super::keys::{self, Made, Way};
use super::{From, Plan, Stored, kind, shapes, types, vocab};
use crate::backend::Quant;
use crate::config::{Config, Source};
use crate::cpu::types::facts;
use crate::error::{Error, Result};
use crate::load::Opened;
use crate::spec::{DeltaNet, ModelSpec, Op, Reach, Rope, RopeLayout, Scaling};
use crate::weights::moved::Moved;
use crate::weights::{Checkpoint, Filed};
use rinfer_formats::gguf::write::{Item, Planned, header};
use rinfer_formats::gguf::{Gguf, takes_windows};
use rinfer_formats::{Checkpoint as Files, DType, Folder, Weights};
use serde_json::Value;
use std::path::Path;

/// What is written of `folder`.
pub(super) fn plan<'a>(folder: &'a Folder, opened: &'a Opened, quant: Quant) -> Result<Plan<'a>> {
    let refuse = |problem: String| Error::Export { file: opened.name.clone(), problem };
    let spec = &opened.spec;
    let family = opened.family;
    let architecture = family.written(spec).ok_or_else(|| {
        let family = family.name;
        refuse(format!("the family {family} is not written yet; pack it as .rinf instead"))
    })?;
    if let Some(what) = unheeded(spec, &architecture) {
        let problem = format!("{what}; pack it as .rinf instead");
        return Err(refuse(problem));
    }
    let config = Config::new(folder.config().clone(), Source::HuggingFace);
    let checkpoint = Checkpoint::open(config, opened).map_err(|cause| opened.at(cause))?;
    let filed = checkpoint.filed();
    let dtype = |filed: &Filed| {
        let (dtype, _) = checkpoint.describe(&filed.pieces.first()?.name)?;
        Some(stored(&filed.name, &filed.shape, dtype))
    };
    let tensors: Vec<Planned> = { filed.iter() }
        .map(|filed| Planned {
            name: filed.name.clone(),
            dtype: dtype(filed).unwrap_or(DType::F32),
            shape: shapes::of(spec, filed),
        })
        .collect();
    let head = Head::of(opened, folder, &architecture, &tensors)?;
    let moved = Moved::between(family, spec, &head.spec);
    let moved = moved.map_err(|why| refuse(format!("{why}; pack it as .rinf instead")))?;
    let named: Vec<(&str, Vec<usize>, DType)> =
        tensors.iter().map(|t| (t.name.as_str(), t.shape.clone(), t.dtype)).collect();
    let types = types(&named, (quant, opened.is_adapted()), &facts(spec))?;
    let mut metadata = vec![
        ("general.architecture".to_owned(), Item::str(&architecture)),
        ("general.type".to_owned(), Item::str("model")),
        ("general.name".to_owned(), Item::str(&called(&opened.name))),
    ];
    metadata.extend(head.keys);
    metadata.extend(kind(quant, &named));
    metadata.extend(vocab::of(folder, opened, spec.vocab)?);
    let mut all: Vec<Stored> = head.made.into_iter().map(Stored::made).collect();
    for (filed, planned) in filed.into_iter().zip(&tensors) {
        let dtype = types.get(&*planned.name).copied().unwrap_or(planned.dtype);
        all.push(entry(filed, Planned { dtype, ..planned.clone() }, &moved));
    }
    if let Some(odd) = all.iter().find(|t| t.planned.dtype.format().ggml.is_none()) {
        let (name, found) = (&odd.planned.name, odd.planned.dtype.name());
        return Err(refuse(format!("'{name}' is {found}, a type that GGUF has not: take f32")));
    }
    Ok(Plan { metadata, tensors: all, weights: Box::new(checkpoint), name: &opened.name })
}

/// What GGUF's keys say and its readers compute otherwise, if the model has such.
fn unheeded(spec: &ModelSpec, architecture: &str) -> Option<String> {
    let windows = spec.attentions().any(|a| matches!(a.reach, Reach::Window(_)));
    if windows && !takes_windows(architecture) {
        return Some(format!(
            "its layers have windows, which readers of {architecture} files do not heed"
        ));
    }
    let best =
        |op: &Op| matches!(op, Op::Moe(moe) if moe.router.groups.is_some_and(|g| g.best != 2));
    let groups = "its groups of experts go by their best one, and readers take their best two";
    spec.ops().any(best).then(|| groups.to_owned())
}

/// A tensor, with the rows that its pieces give it.
pub(super) fn entry(filed: Filed, planned: Planned, moved: &Moved) -> Stored {
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
    Stored { planned, from: From::Rows { pieces, stack, order, columns } }
}

/// A header that is read back as the model.
struct Head {
    keys: Vec<(String, Item)>,
    made: Made,
    /// The model as it is read back: the same, but for layouts.
    spec: ModelSpec,
}

impl Head {
    /// The one that says least.
    fn of(
        opened: &Opened,
        folder: &Folder,
        architecture: &str,
        tensors: &[Planned],
    ) -> Result<Head> {
        let config = folder.config();
        let config = config.get("text_config").unwrap_or(config);
        let stated = config.get("intermediate_size").and_then(Value::as_u64);
        let read = |way: Way| -> std::result::Result<Head, String> {
            let stated = stated.map(|width| width as usize);
            let (mut keys, made) = keys::of(architecture, &opened.spec, stated, way);
            keys.extend(sections(architecture, config));
            let spec = read_back(architecture, &keys, &made, tensors)?;
            match difference(&opened.spec, &spec) {
                None => Ok(Head { keys, made, spec }),
                Some(difference) => Err(difference),
            }
        };
        let whole = match Way::all().find_map(|way| read(way).ok()) {
            Some(head) => Ok(head),
            None => read(Way::WHOLE),
        };
        whole.map_err(|difference| Error::Export {
            file: opened.name.clone(),
            problem: format!(
                "GGUF's keys can't say all that the model is: read back, {difference}; pack it as .rinf \
                 instead"
            ),
        })
    }
}

/// The model that a header makes.
fn read_back(
    architecture: &str,
    keys: &[(String, Item)],
    made: &Made,
    tensors: &[Planned],
) -> std::result::Result<ModelSpec, String> {
    let named = ("general.architecture".to_owned(), Item::str(architecture));
    let metadata: Vec<_> = [named].into_iter().chain(keys.iter().cloned()).collect();
    let first: Vec<Stored> = made.iter().cloned().map(Stored::made).collect();
    let all = first.iter().map(|t| &t.planned).chain(tensors);
    let all: Vec<Planned> =
        all.cloned().map(|t| Planned { dtype: plain_type(t.dtype), ..t }).collect();
    let mut bytes = header(&metadata, &all).map_err(|e| e.to_string())?;
    for tensor in &first {
        bytes.extend(tensor.bytes());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    let gguf = Gguf::begun(Path::new("the file"), bytes).map_err(|e| e.to_string())?;
    let opened = Opened::of("the file".to_owned(), Files::Gguf(gguf));
    opened.map(|opened| opened.spec).map_err(|e| e.to_string())
}

/// Types do not matter to what a model is, and not all have a number.
fn plain_type(dtype: DType) -> DType {
    if dtype.format().ggml.is_none() { DType::F32 } else { dtype }
}

/// How many frequencies go by which of three positions: of text, which has one, of no matter, but some
/// readers ask.
fn sections(architecture: &str, config: &Value) -> Option<(String, Item)> {
    let rope = config.get("rope_parameters").or(config.get("rope_scaling"))?;
    let listed = rope.get("mrope_section")?.as_array()?;
    let mut all: Vec<i32> = listed.iter().filter_map(|n| Some(n.as_u64()? as i32)).collect();
    all.resize(4, 0);
    Some((format!("{architecture}.rope.dimension_sections"), Item::i32s(all.into_iter())))
}

/// What people call the model: its folder.
fn called(path: &str) -> String {
    let path = Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// How llama.cpp's converter stores a tensor: what is no matrix, and what is small, as f32.
fn stored(name: &str, shape: &[usize], dtype: DType) -> DType {
    const WIDE: [&str; 8] = [
        ".ffn_gate_inp",
        ".ssm_conv1d",
        ".shortconv.conv",
        "_norm.weight",
        "position_embd",
        "altup_correct_coef",
        "altup_predict_coef",
        ".indexer.proj",
    ];
    let wide = shape.len() < 2 || !name.ends_with(".weight");
    if wide || WIDE.iter().any(|part| name.contains(part)) { DType::F32 } else { dtype }
}

/// How a model read back differs from what was written, if it does: by more than layouts.
fn difference(ours: &ModelSpec, theirs: &ModelSpec) -> Option<String> {
    let (a, b) = (plain(ours), plain(theirs));
    if a != b {
        let [a, b] = [&a, &b].map(|spec| serde_json::to_value(spec).unwrap_or_default());
        return Some(odd("", &a, &b).unwrap_or_else(|| "a number is another".to_owned()));
    }
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * a.abs() + 1e-20;
    let (a, b) = (turns(ours), turns(theirs));
    let same = a.len() == b.len() && a.iter().zip(&b).all(near);
    (!same).then(|| "its rotary frequencies are others".to_owned())
}

/// Where two values first differ, and how.
fn odd(at: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().zip(b).find_map(|((key, a), (_, b))| odd(&format!("{at}.{key}"), a, b))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut all = a.iter().zip(b).enumerate();
            all.find_map(|(i, (a, b))| odd(&format!("{at}[{i}]"), a, b))
        }
        _ if a == b => None,
        _ => {
            let short = |value: &Value| {
                let text = value.to_string();
                if text.len() > 60 {
                    format!("{}…", text.chars().take(60).collect::<String>())
                } else {
                    text
                }
            };
            Some(format!("{} is {}, not {}", at.trim_start_matches('.'), short(b), short(a)))
        }
    }
}

/// What tables turn by, and multiply by.
fn turns(spec: &ModelSpec) -> Vec<f32> {
    let all = |rope: &Rope| {
        let mut all = [rope.frequencies(), vec![rope.attention()]].concat();
        if let Some((from, long)) = rope.beyond() {
            all.extend(long.frequencies());
            all.extend([long.attention(), from as f32]);
        }
        all
    };
    spec.ropes.iter().flat_map(all).collect()
}

/// Without what is the same in other words, or in another order.
fn plain(spec: &ModelSpec) -> ModelSpec {
    let rope = |rope: &Rope| Rope {
        theta: 0.0,
        scaling: Scaling::None,
        layout: RopeLayout::Halves,
        ..rope.clone()
    };
    let mut plain = ModelSpec { ropes: spec.ropes.iter().map(rope).collect(), ..spec.clone() };
    let parts = plain.layers.iter_mut().flatten().flat_map(|branch| &mut branch.parts);
    for part in parts {
        match &mut part.op {
            Op::DeltaNet(DeltaNet { interleaved, .. }) => *interleaved = false,
            Op::Mamba2(m) => {
                // No step is as long.
                if m.dt_limit.1 >= 1e30 {
                    m.dt_limit.1 = f32::INFINITY;
                }
                m.norm_before_gate &= m.norm.is_some();
            }
            _ => {}
        }
    }
    plain
}
