//! `rinfer inspect`: what a model is and what it takes, without loading its weights.
use super::{Environment, Loading, put};
use rinfer_engine::bundle::license;
use rinfer_engine::language::Language;
use rinfer_engine::load::{Load, Opened};
use rinfer_engine::size;
use rinfer_engine::spec::Head;
use rinfer_text::chat::{Message, Role};
use rinfer_text::template::DateTime;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Show what a model is and what it takes: rinfer inspect model.gguf
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loading: Loading,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let load = args.loading.load(env);
    let opened = env.open_adapted(args.model.as_deref(), &load.adapters)?;
    let mut report = Map::new();
    report.insert("model".into(), json!(opened.name));
    let licence = license(&opened)?;
    report.insert("licence".into(), json!(licence.as_deref().unwrap_or("not stated")));
    if let Some(about) = &opened.about {
        let made = json!({"name": about.name, "made by": about.made_by, "quant": about.quant});
        report.insert("bundle".into(), made);
    }
    report.insert("architecture".into(), architecture(&opened));
    report.insert("types".into(), types(&opened));
    if args.tensors {
        report.insert("tensors".into(), tensors(&opened));
    }
    // A model whose tokenizer can't be read can still be looked at.
    match opened.language() {
        Ok(language) => {
            report.insert("tokenizer".into(), tokenizer(&language));
            report.insert("template".into(), template(&language));
            report.insert("sampling".into(), json!(super::options::describe(&language.sampling)));
        }
        Err(error) => _ = report.insert("tokenizer".into(), json!({"error": error.to_string()})),
    }
    report.insert("memory".into(), memory(&opened, &load)?);
    let report = Value::Object(report);
    if args.json {
        return put(&format!("{report:#}\n"));
    }
    let mut text = String::new();
    print(&report, 0, &mut text);
    put(&text)
}

fn architecture(opened: &Opened) -> Value {
    let spec = &opened.spec;
    let parameters: usize = super::tensors(opened).map(|t| t.shape.iter().product::<usize>()).sum();
    let makes = match spec.head {
        Head::Lm { .. } => "texts".to_owned(),
        Head::Pool { scores: true, .. } => "scores of pairs of texts".to_owned(),
        Head::Pool { .. } => format!("vectors of texts, of {} elements", spec.width()),
    };
    json!({
        "makes": makes, "family": opened.family.name, "layers": spec.layers.len(), "width": spec.d_model,
        "vocabulary": spec.vocab, "context": spec.context, "parameters": parameters,
    })
}

/// Tensors and bytes of each type.
fn types(opened: &Opened) -> Value {
    let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for tensor in super::tensors(opened) {
        let (count, bytes) = types.entry(tensor.kind).or_default();
        *count += 1;
        *bytes += tensor.bytes;
    }
    let each = types
        .into_iter()
        .map(|(name, (count, bytes))| (name.to_owned(), json!({"tensors": count, "bytes": bytes})));
    Value::Object(each.collect())
}

fn tensors(opened: &Opened) -> Value {
    let each = super::tensors(opened)
        .map(|t| (t.name.to_owned(), json!(format!("{} {:?}", t.kind, t.shape))));
    Value::Object(each.collect())
}

fn tokenizer(language: &Language) -> Value {
    let t = &language.tokenizer;
    let named = |id: u32| format!("{id} {}", t.token(id).unwrap_or_default());
    json!({
        "tokens": t.vocab_size(),
        "begin": language.bos.map(|id| named(id.0)),
        "end": language.end.iter().map(|id| named(id.0)).collect::<Vec<_>>(),
    })
}

/// Renders what conversations consist of, and says what of it the template takes.
fn template(language: &Language) -> Value {
    if let Err(none) = &language.template {
        return json!(none.to_string());
    }
    let say = |role, text: &str| Message::new(role, text);
    let user = say(Role::User, "Hello");
    let turns = vec![user.clone(), say(Role::Assistant, "Hi"), say(Role::User, "Bye")];
    let system = vec![say(Role::System, "Be brief"), user.clone()];
    let check = |messages: Vec<Message>| language.render(messages, DateTime::from_unix(0));
    let said = |messages| match check(messages) {
        Ok(ids) => json!(format!("ok, {} tokens", ids.len())),
        Err(error) => json!(error.to_string()),
    };
    let reused = match (check(vec![user.clone()]), check(turns.clone())) {
        (Ok(first), Ok(all)) => {
            let common = first.iter().zip(&all).take_while(|(a, b)| a == b).count();
            json!(format!("{common} of the first turn's {} tokens", first.len()))
        }
        _ => Value::Null,
    };
    let begins = check(vec![user.clone()])
        .map_or(0, |ids| ids.iter().filter(|id| language.bos == Some(**id)).count());
    json!({
        "one message": said(vec![user]), "with a system message": said(system),
        "several turns": said(turns), "begin tokens": begins, "second turn reuses": reused,
    })
}

fn memory(opened: &Opened, load: &Load) -> anyhow::Result<Value> {
    let fit = opened.takes(load)?;
    let (limits, m) = (&fit.limits, fit.takes);
    let writes = matches!(opened.spec.head, Head::Lm { .. });
    let fits = match opened.limits(load) {
        _ if !writes => json!(fit.fits()),
        Ok(limits) if limits.resident.is_some() => json!("a part of the weights at a time"),
        loads => json!(loads.is_ok()),
    };
    Ok(json!({
        "context": limits.context,
        "sequences": limits.slots,
        "weights bytes": m.weights,
        "state bytes": m.state,
        "state bytes a token": size::position(&opened.spec, limits.kv),
        "state bytes a sequence": size::sequence(&opened.spec, limits),
        "scratch bytes": m.scratch,
        "total bytes": m.total(),
        "available bytes": fit.room,
        "fits": fits,
        "largest context": fit.most,
    }))
}

/// An indented outline, with bytes in binary units too.
fn print(value: &Value, depth: usize, out: &mut String) {
    let Value::Object(object) = value else { return };
    for (key, value) in object {
        *out += &format!("{:width$}{key:<22}", "", width = depth * 2);
        match value {
            Value::Object(_) => {
                out.truncate(out.trim_end().len());
                out.push('\n');
                print(value, depth + 1, out);
            }
            Value::String(text) => *out += &format!(" {text}\n"),
            Value::Null => *out += " none\n",
            Value::Array(all) => {
                let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
                *out += &format!(" {}\n", all.join(", "));
            }
            number => {
                let mib = value.as_f64().unwrap_or(0.0) / f64::from(1 << 20);
                let unit = if key.contains("bytes") && mib >= 1.0 {
                    format!(" ({mib:.1} MiB)")
                } else {
                    String::new()
                };
                *out += &format!(" {number}{unit}\n");
            }
        }
    }
}
