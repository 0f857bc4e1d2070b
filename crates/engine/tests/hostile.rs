//! Every golden with a wrong key or tensor: one error, or a model that runs; never a panic.
mod rig;

use rig::{LIMITS, Memory, Rig, goldens};
use rinfer_engine::backend::{Limits, LoadError, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::spec::ModelSpec;
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::Kernels;
use rinfer_testkit::Golden;
use rinfer_testkit::safetensors::Entry;
use serde_json::{Value, json};

/// Loads what opens and runs two tokens of it, unless it is the very same `model`.
fn attempt(
    config: &Value,
    weights: &Memory,
    quant: Quant,
    model: Option<&ModelSpec>,
) -> Result<(), LoadError> {
    let found = Checkpoint::open(Config::new(config.clone(), Source::HuggingFace), weights)?;
    if model == Some(&found.spec) {
        return Ok(());
    }
    let limits = Limits { slots: 1, context: 64, positions: 64, batch: 8, quant, ..LIMITS };
    let executor = Cpu::new(1, Kernels::best()).executor(&found.spec, &found, &limits)?;
    let vocab = found.spec.vocab;
    Rig { executor, vocab }.run(&[0, vocab as i32 - 1], 1);
    Ok(())
}

/// Where every value of a config lies; of a list, the last.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, v)| (key.clone(), v)).collect(),
        Value::Array(list) => {
            list.last().map(|v| ((list.len() - 1).to_string(), v)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    for (key, inner) in inner {
        let at = format!("{at}/{key}");
        places(inner, &at, all);
        all.push(at);
    }
}

#[test]
fn keys() {
    let values = [
        json!(null),
        json!(0),
        json!(-1),
        json!(3),
        json!(u64::MAX),
        json!(1e300),
        json!("wrong"),
        json!([]),
        json!([1]),
        json!(true),
    ];
    let check = |g: &Golden, weights: &Memory, spec: &ModelSpec, at: &str, value: &Value| {
        let mut config = g.config.clone();
        *config.pointer_mut(at).expect("a place") = value.clone();
        println!("{}: {at} = {value}", g.name);
        match attempt(&config, weights, Quant::F32, Some(spec)) {
            Err(LoadError::Unsupported(_)) | Ok(()) => {}
            Err(error) => assert!(error.to_string().contains('\''), "{error}"),
        }
    };
    for g in goldens() {
        let weights = Memory(g.weights.clone());
        let config = Config::new(g.config.clone(), Source::HuggingFace);
        let spec = Checkpoint::open(config, &weights).expect("a model").spec;
        let mut all = Vec::new();
        places(&g.config, "", &mut all);
        // What may be anything is not read.
        let read = |at: &&String| {
            let mut config = g.config.clone();
            *config.pointer_mut(at).expect("a place") = json!({});
            attempt(&config, &weights, Quant::F32, Some(&spec)).is_err()
        };
        for at in all.iter().filter(read) {
            values.iter().for_each(|value| check(&g, &weights, &spec, at, value));
            if let Some(Value::Array(list)) = g.config.pointer(at) {
                let longer = list.iter().chain(list.last()).cloned().collect();
                check(&g, &weights, &spec, at, &Value::Array(longer));
                let shorter = list.iter().skip(1).cloned().collect();
                check(&g, &weights, &spec, at, &Value::Array(shorter));
            }
        }
    }
}

fn filled(of: f32, shape: Vec<usize>) -> Entry {
    let count = shape.iter().product();
    let bytes = std::iter::repeat_n(of.to_le_bytes(), count).flatten().collect();
    Entry { dtype: "F32".into(), shape, bytes }
}

#[test]
fn tensors() {
    let numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 0.0, 0.5];
    let quants = [Quant::F32, Quant::F16, Quant::Bf16, Quant::Int8, Quant::Int8Int8, Quant::Int4];
    let reshape: [fn(&mut Vec<usize>); 6] = [
        |s| s.iter_mut().take(1).for_each(|n| *n += 1),
        |s| s.iter_mut().take(1).for_each(|n| *n -= 1),
        |s| s.iter_mut().take(1).for_each(|n| *n = 0),
        |s| s.push(2),
        Vec::clear,
        |s| s.reverse(),
    ];
    for g in goldens() {
        let check = |what: &str, quant, change: &dyn Fn(&mut Memory)| {
            let mut weights = Memory(g.weights.clone());
            change(&mut weights);
            println!("{}: {what}", g.name);
            match attempt(&g.config, &weights, quant, None) {
                Err(LoadError::Range { .. } | LoadError::Config(_)) | Ok(()) => {}
                Err(error) => assert!(error.to_string().contains("tensor '"), "{error}"),
            }
        };
        // One of each kind: of the last layer, and the last expert.
        let kind = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
        let names: std::collections::BTreeMap<_, _> =
            g.weights.keys().map(|name| (kind(name), name.clone())).collect();
        // A number and a shape each, in turn.
        for (turn, name) in names.values().enumerate() {
            let shape = &g.weights[name].shape;
            let put = |w: &mut Memory, entry| drop(w.0.insert(name.clone(), entry));
            check(&format!("no {name}"), Quant::F32, &|w| drop(w.0.remove(name)));
            let integers = |w: &mut Memory| {
                put(w, Entry { dtype: "I32".into(), ..filled(0.0, shape.clone()) });
            };
            check(&format!("{name} of integers"), Quant::F32, &integers);
            let (number, quant) = (numbers[turn % 6], quants[turn / 6 % 6]);
            let what = format!("{name} of {number} in {quant:?}");
            check(&what, quant, &|w| put(w, filled(number, shape.clone())));
            let mut other = shape.clone();
            reshape[turn % 6](&mut other);
            let what = format!("{name} of {other:?}");
            check(&what, Quant::F32, &|w| put(w, filled(0.1, other.clone())));
        }
    }
}
