//! Every golden with a wrong key or tensor, as a folder and as a GGUF file: one error, or a model that
//! runs; never a panic.
mod rig;

use rig::{LIMITS, Memory, Rig, goldens};
use rinfer_engine::backend::{Limits, LoadError, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::spec::ModelSpec;
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::Gguf;
use rinfer_kernels::Kernels;
use rinfer_testkit::Golden;
use rinfer_testkit::gguf::GgufGolden;
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

/// The same of a GGUF file, whose every error is one line that names what it is about.
fn attempt_gguf(what: &str, bytes: Vec<u8>, model: Option<&ModelSpec>) {
    println!("{what}");
    let of = |gguf: &Gguf| -> Result<(), String> {
        let json = gguf.config().map_err(|e| e.to_string())?;
        let found = Checkpoint::open(Config::new(json, Source::Gguf), gguf);
        let found = match found {
            Err(LoadError::Unsupported(_)) => return Ok(()),
            found => found.map_err(|e| e.to_string())?,
        };
        if model == Some(&found.spec) {
            return Ok(());
        }
        let limits = Limits { slots: 1, context: 64, positions: 64, batch: 8, ..LIMITS };
        match Cpu::new(1, Kernels::best()).executor(&found.spec, &found, &limits) {
            Err(LoadError::Unsupported(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(executor) => {
                let vocab = found.spec.vocab;
                Rig { executor, vocab }.run(&[0, vocab as i32 - 1], 1);
                Ok(())
            }
        }
    };
    let result = Gguf::parse("file", bytes).map_err(|e| e.to_string()).and_then(|gguf| of(&gguf));
    if let Err(error) = result {
        assert!(error.contains('\'') && !error.contains('\n'), "{what}: {error}");
    }
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

/// Where a key's type and value lie in a file: it is looked for, since no reader says.
fn value_at(bytes: &[u8], key: &str) -> usize {
    let counted = [&(key.len() as u64).to_le_bytes()[..], key.as_bytes()].concat();
    let at = bytes.windows(counted.len()).position(|window| window == counted);
    at.expect("the key") + counted.len()
}

#[test]
fn gguf_keys() {
    let numbers = [0u64, 1, 3, u64::MAX, f64::NAN.to_bits(), u64::from(1e30f32.to_bits())];
    let folder = rinfer_testkit::shared::goldens().join("gguf");
    let mut seen = 0;
    for path in std::fs::read_dir(folder).expect("goldens").map(|e| e.expect("an entry").path()) {
        let file = GgufGolden::load(&path).bytes;
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let gguf = Gguf::parse(&path, file.clone()).expect("a GGUF file");
        let spec = rig::open_gguf(&gguf).spec;
        for key in gguf.metadata().keys().filter(|key| !key.starts_with("tokenizer.ggml.t")) {
            let at = value_at(&file, key);
            let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four"));
            // Of a list the first and the last element.
            let (kind, count) = match number(at) {
                9 => (number(at + 4), number(at + 8) as usize),
                kind => (kind, 1),
            };
            let width = match kind {
                0 | 1 | 7 => 1,
                4..=6 => 4,
                10..=12 => 8,
                _ => continue,
            };
            let first = if number(at) == 9 { at + 16 } else { at + 4 };
            let places = [first, first + (count.max(1) - 1) * width];
            for (value, place) in numbers.iter().flat_map(|n| places.map(|place| (n, place))) {
                let mut changed = file.clone();
                changed[place..place + width].copy_from_slice(&value.to_le_bytes()[..width]);
                attempt_gguf(&format!("{name}: {key} = {value:x}"), changed, Some(&spec));
                if count == 1 {
                    break;
                }
            }
            // As a number of another type, and by another name: then it is not there.
            let mut other = file.clone();
            other[first - 4 - if number(at) == 9 { 8 } else { 0 }] = if kind == 6 { 4 } else { 6 };
            if width == 4 {
                attempt_gguf(&format!("{name}: {key} of another type"), other, Some(&spec));
            }
            let mut absent = file.clone();
            absent[at - 1] = b'?';
            attempt_gguf(&format!("{name}: no {key}"), absent, Some(&spec));
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen} keys");
}

/// What a router's logits go through is the architecture's own, and files that say so agree.
#[test]
fn gguf_routers() {
    let check = |name: &str, fits: &[u32]| {
        let path = rinfer_testkit::shared::goldens().join("gguf").join(name);
        let file = GgufGolden::load(&path).bytes;
        let architecture = Gguf::parse(&path, file.clone()).expect("a file");
        let architecture = architecture.architecture().expect("a name").to_owned();
        for number in 0..5u32 {
            let key = format!("{architecture}.expert_gating_func");
            let bytes = with_key(&file, &key, number);
            let gguf = Gguf::parse(&path, bytes).expect("a file");
            let json = gguf.config().expect("keys");
            let found = Checkpoint::open(Config::new(json, Source::Gguf), &gguf);
            let error = found.err().map(|e| e.to_string());
            let expect = format!("config key 'expert_gating_func': found {number}, expected");
            match fits.contains(&number) || number == 0 {
                true => assert_eq!(error, None, "{name}: {number}"),
                false => assert!(error.is_some_and(|e| e.starts_with(&expect)), "{name}: {number}"),
            }
        }
    };
    check("qwen3_moe.bf16", &[1, 3]);
    check("mixtral.bf16", &[1, 3]);
    check("gpt_oss.bf16", &[1, 3]);
    check("olmoe.bf16", &[1]);
    check("minimax_m2.bf16", &[2]);
    check("glm4_moe.bf16", &[2]);
    check("lfm2_moe.bf16", &[2]);
    check("llama4_text.bf16", &[2]);
}

/// A file with one more key, or another value of one that it has.
fn with_key(file: &[u8], key: &str, value: u32) -> Vec<u8> {
    let counted = [&(key.len() as u64).to_le_bytes()[..], key.as_bytes()].concat();
    let mut out = file.to_vec();
    if let Some(at) = file.windows(counted.len()).position(|window| window == counted) {
        out[at + counted.len() + 4..][..4].copy_from_slice(&value.to_le_bytes());
        return out;
    }
    // Between the header and the first key; data moves by whole alignments, with a key of padding.
    let keys = u64::from_le_bytes(file[16..24].try_into().expect("eight"));
    let pad = |name: &str, kind: u32, value: &[u8]| {
        let name = [&(name.len() as u64).to_le_bytes()[..], name.as_bytes()].concat();
        [&name[..], &kind.to_le_bytes(), value].concat()
    };
    let mut more = pad(key, 4, &value.to_le_bytes());
    let short = pad("padding", 8, &0u64.to_le_bytes()).len();
    let fill = (32 - (more.len() + short) % 32) % 32;
    let text = [&(fill as u64).to_le_bytes()[..], &vec![b'.'; fill]].concat();
    more.extend(pad("padding", 8, &text));
    out[16..24].copy_from_slice(&(keys + 2).to_le_bytes());
    out.splice(24..24, more);
    out
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
