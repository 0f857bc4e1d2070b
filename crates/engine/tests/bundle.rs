//! A bundle gives the bits of what it was made of, in every precision and on every tier, and is as
//! long as the sum over the spec.
mod rig;

use rig::{LIMITS, Rig, assert_bits, goldens};
use rinfer_engine::backend::{Kv, Limits, LoadError, Quant, Resident};
use rinfer_engine::bundle::{self, Making};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::error::Error;
use rinfer_engine::load::{Load, Opened};
use rinfer_engine::size::Memory;
use rinfer_formats::{Bundle, Checkpoint, Weights};
use rinfer_kernels::{Kernels, TIERS};
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::{Golden, chat, shared};
use serde_json::{Value, json};
use std::io::Cursor;
use std::path::{Path, PathBuf};

const QUANTS: [Quant; 7] =
    [Quant::Native, Quant::F32, Quant::Bf16, Quant::F16, Quant::Int8, Quant::Int8Int8, Quant::Int4];

fn making(quant: Quant) -> Making {
    Making { quant, threads: 2, name: None, license: None }
}

/// A folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("rinfer-bundle-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder");
    dir
}

fn load(opened: &Opened, limits: &Limits, tier: &'static Kernels) -> Rig {
    let weights = opened.weights().expect("weights");
    let executor = Cpu::new(2, tier).executor(&opened.spec, &*weights, limits);
    Rig { executor: executor.expect("a model"), vocab: opened.spec.vocab }
}

/// Bundles an open model and compares: the bits, the plan of memory, and whether it is whole.
fn check(source: &Opened, quant: Quant, dir: &Path, tiers: &[&'static Kernels]) {
    let path = dir.join("model.rinf");
    let limits = Limits { kv: Kv::F16, quant, ..LIMITS };
    let length = match bundle::save(source, &making(quant), &path) {
        // Some goldens are quantised, or have numbers beyond f16.
        Err(Error::Load {
            cause: LoadError::Quantised { .. } | LoadError::Range { .. }, ..
        }) => {
            let weights = source.weights().expect("weights");
            assert!(Cpu::new(2, tiers[0]).executor(&source.spec, &*weights, &limits).is_err());
            return;
        }
        saved => saved.expect("a bundle"),
    };
    assert_eq!(length, std::fs::metadata(&path).expect("a file").len());
    let made = Opened::open(&path).expect("a bundle");
    let Checkpoint::Bundle(file) = &made.files else { panic!("no bundle") };
    file.verify().expect("a whole bundle");
    assert_eq!((&made.spec, made.family.name), (&source.spec, source.family.name));
    let ids = [1, 9, 200, 7, 31, 77, 9, 1, 255, 3].map(|id: i32| id % source.spec.vocab as i32);
    let native = Limits { quant: Quant::Native, ..limits.clone() };
    let expected = load(source, &limits, tiers[0]).run(&ids, 4);
    for tier in tiers {
        let found = load(&made, &native, tier).run(&ids, 4);
        assert_bits(&found, &expected, source.spec.vocab, &format!("{quant:?} on {}", tier.name));
    }
    let (a, b) = (source.weights().expect("weights"), made.weights().expect("weights"));
    let of = |weights: &dyn Weights, limits| Memory::of(&source.spec, weights, limits, 2);
    assert_eq!(of(&*a, &limits), of(&*b, &native));
    assert_eq!(load(&made, &native, tiers[0]).executor.memory(), of(&*b, &native));
}

#[test]
fn goldens_give_their_bits() {
    let dir = folder("goldens");
    for golden in goldens() {
        println!("{}", golden.name);
        let source = dir.join("source");
        chat::write_model(&golden, &source);
        let source = Opened::open(&source).expect("a model");
        QUANTS.into_iter().for_each(|quant| check(&source, quant, &dir, &[Kernels::best()]));
    }
    std::fs::remove_dir_all(dir).expect("the folder");
}

#[test]
fn one_serves_every_tier() {
    let dir = folder("tiers");
    chat::write_model(&Golden::load(&shared::goldens().join("qwen3")), &dir);
    let source = Opened::open(&dir).expect("a model");
    let tiers: Vec<&'static Kernels> = TIERS.iter().copied().filter(|t| (t.usable)()).collect();
    assert!(tiers.len() > 1);
    QUANTS.into_iter().for_each(|quant| check(&source, quant, &dir, &tiers));
    std::fs::remove_dir_all(dir).expect("the folder");
}

#[test]
fn gguf_goldens_give_their_bits() {
    let dir = folder("gguf");
    let both = |path: &Path| {
        let source = Opened::open(path).expect("a model");
        let quants = [Quant::Native, Quant::F32];
        quants.into_iter().for_each(|quant| check(&source, quant, &dir, &[Kernels::best()]));
    };
    let paths = |name: &str| {
        let entries = std::fs::read_dir(shared::goldens().join(name)).expect("goldens");
        entries.map(|entry| entry.expect("an entry").path())
    };
    // Their vocabularies are made up, and some merges make nothing of them.
    let without_merges = |mut bytes: Vec<u8>| {
        let key = b"tokenizer.ggml.merges";
        if let Some(at) = bytes.windows(key.len()).position(|w| w == key) {
            bytes[at + key.len() - 1] = b'_';
        }
        let file = dir.join("source.gguf");
        std::fs::write(&file, bytes).expect("a file");
        both(&file);
    };
    paths("gguf").for_each(|path| without_merges(GgufGolden::load(&path).bytes));
    let quantised = paths("gguf_quant").filter(|p| p.extension().is_some_and(|e| e == "gguf"));
    quantised.for_each(|path| without_merges(std::fs::read(&path).expect("a file")));
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// Columns in an order of their own among them.
#[test]
fn quantised_folders_give_their_bits() {
    let dir = folder("quantised");
    let cases = std::fs::read_dir(shared::goldens().join("quant")).expect("goldens");
    for case in cases {
        let golden = Golden::load(&case.expect("an entry").path());
        println!("{}", golden.name);
        let source = dir.join(&golden.name);
        chat::write_model(&golden, &source);
        let source = Opened::open(&source).expect("a model");
        let quants = [Quant::Native, Quant::F32];
        quants.into_iter().for_each(|quant| check(&source, quant, &dir, &[Kernels::best()]));
    }
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// Whatever is in memory, the numbers are the same.
#[test]
fn weights_that_come_and_go_give_the_same_bits() {
    let dir = folder("flow");
    for name in ["llama3", "qwen3_moe", "mixtral", "gemma2", "deepseek_v3", "qwen3_next"] {
        chat::write_model(&Golden::load(&shared::goldens().join(name)), &dir);
        let path = dir.join("model.rinf");
        let source = Opened::open(&dir).expect("a model");
        bundle::save(&source, &making(Quant::Native), &path).expect("a bundle");
        let made = Opened::open(&path).expect("a bundle");
        let whole = Limits { quant: Quant::Native, ..LIMITS };
        let ids = [1, 9, 200, 7, 31, 77, 9, 1].map(|id: i32| id % source.spec.vocab as i32);
        let expected = load(&made, &whole, Kernels::best()).run(&ids, 3);
        let all = Memory::of(&made.spec, &*made.weights().expect("weights"), &whole, 2).weights;
        for bytes in [0, all / 4, all / 2, all] {
            let resident = Resident { bytes, scarce: bytes < all / 2 };
            let limits = Limits { resident: Some(resident), ..whole.clone() };
            let mut rig = load(&made, &limits, Kernels::best());
            for chunk in [3, 1] {
                let found = rig.run(&ids, chunk);
                assert_bits(&found, &expected, source.spec.vocab, &format!("{name} in {bytes}"));
            }
        }
    }
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// Real files: their bits, their tokens, and a bundle of a bundle, which is the same one.
#[test]
fn files_give_their_bits() {
    for name in ["smollm2-135m-instruct-q4_1.gguf", "gemma3-270m-q4_k_m.gguf"] {
        let Some(model) = shared::model(name) else { continue };
        let dir = folder(name);
        let source = Opened::open(&model).expect("a model");
        check(&source, Quant::Native, &dir, &[Kernels::best()]);
        let made = Opened::open(dir.join("model.rinf")).expect("a bundle");
        let (a, b) = (source.language().expect("a language"), made.language().expect("a language"));
        let text = "Hello  world's 1234\n\t日本語 <|im_start|>";
        assert_eq!(a.encode(text), b.encode(text));
        assert_eq!((&a.end, a.bos, &a.sampling), (&b.end, b.bos, &b.sampling));
        assert_eq!(a.template.is_ok(), b.template.is_ok());
        let mut again = Cursor::new(Vec::new());
        bundle::write(&made, &making(Quant::Native), &mut again, 0).expect("a bundle");
        assert!(again.into_inner() == std::fs::read(dir.join("model.rinf")).expect("the bundle"));
        std::fs::remove_dir_all(dir).expect("the folder");
    }
}

fn tiny(dir: &Path, quant: Quant) -> Vec<u8> {
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), dir);
    let source = Opened::open(dir).expect("a model");
    let mut out = Cursor::new(Vec::new());
    bundle::write(&source, &making(quant), &mut out, 0).expect("a bundle");
    out.into_inner()
}

#[test]
fn what_it_says_and_what_it_refuses() {
    let dir = folder("says");
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("README.md"), "---\nlicense: mit\n---\n").expect("a card");
    let path = dir.join("tiny.rinf");
    std::fs::write(&path, tiny(&dir, Quant::Int8)).expect("a file");
    let opened = Opened::open(&path).expect("a bundle");
    let about = opened.about.as_ref().expect("a bundle");
    assert_eq!((about.license.as_deref(), &*about.quant), (Some("mit"), "int8"));
    let language = opened.language().expect("a language");
    assert_eq!(language.sampling.top_k, 50);
    assert_eq!(language.end.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 2, 4]);
    let limits = |quant| opened.limits(&Load { quant, ..Load::default() }).map(drop);
    limits(Quant::Native).expect("as it is");
    limits(Quant::Int8).expect("as it is");
    let error = limits(Quant::F32).expect_err("another precision").to_string();
    assert!(error.contains("quant f32") && error.contains("int8"), "{error}");
    // A batch beyond all room is planned, not made.
    let many = Load { batch: 1 << 16, memory: Some(64 << 20), ..Load::default() };
    let error = opened.limits(&many).map(drop).expect_err("too many rows").to_string();
    assert!(error.contains("64 MiB are available"), "{error}");
    let again = bundle::save(&opened, &making(Quant::Int4), &dir.join("b.rinf"));
    assert!(again.expect_err("another precision").to_string().contains("int8"));
    // A model is not written over, a bundle may be.
    let gguf = Opened::open(&dir).expect("a folder");
    let error = bundle::save(&gguf, &making(Quant::Native), &dir).expect_err("a folder");
    assert!(error.to_string().contains("is the model itself"), "{error}");
    bundle::save(&opened, &making(Quant::Native), &path).expect("a bundle of itself");
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// The same bundle with another description of the model, its checksums right.
fn with_model(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    with(bytes, None, change)
}

/// And with a file more.
fn with(bytes: &[u8], file: Option<(&str, &[u8])>, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let from = Bundle::parse("a", bytes.to_vec()).expect("a bundle");
    let mut out = Cursor::new(Vec::new());
    let mut writer = rinfer_formats::bundle::Writer::new(&mut out, 0).expect("memory");
    for file in &from.header().files {
        writer.file(&file.name, &from.file(&file.name).expect("a file")).expect("memory");
    }
    if let Some((name, bytes)) = file {
        writer.file(name, bytes).expect("memory");
    }
    for t in &from.header().tensors {
        let (dtype, _) = from.describe(&t.name).expect("a tensor");
        let bytes = &bytes[t.section.range()];
        let fill = |put: &mut dyn FnMut(&[u8]) -> std::io::Result<()>| put(bytes);
        writer.tensor((&t.name, dtype), t.layout.clone(), &t.shape, fill).expect("memory");
    }
    let mut model = from.model().clone();
    change(&mut model);
    writer.finish(model).expect("memory");
    out.into_inner()
}

#[test]
fn what_was_forged_is_named() {
    let dir = folder("forged");
    let bytes = tiny(&dir, Quant::Native);
    let path = dir.join("forged.rinf");
    let check = |at: &str, value: Value, says: &[&str]| {
        let forged = with_model(&bytes, |model| {
            *model.pointer_mut(at).expect("a place") = value.clone();
        });
        std::fs::write(&path, forged).expect("a file");
        let error = Opened::open(&path).and_then(|opened| opened.language()).err();
        let error = error.unwrap_or_else(|| panic!("{at} may be {value}")).to_string();
        says.iter().for_each(|word| assert!(error.contains(word), "{at} = {value}: {error}"));
        assert!(error.contains("forged.rinf"), "{error}");
    };
    let heads = "/spec/layers/0/0/parts/0/op/attention";
    let place = ["spec.layers.0", "heads in equal groups"];
    check(&format!("{heads}/kv_heads"), json!(0), &place);
    check(&format!("{heads}/kv_heads"), json!(3), &place);
    check(&format!("{heads}/rope"), json!(9), &place);
    check("/spec/ropes/0/dim", json!(15), &["spec.ropes.0", "even"]);
    check("/family", json!("none"), &["family", "'none'", "llama"]);
    check("/spec/vocab", json!(1u64 << 40), &["spec.vocab", "1099511627776", "16777216"]);
    check("/spec/d_model", json!(65), &["token_embd.weight", "65"]);
    check("/spec/d_model", json!("wide"), &["not understood", "wide"]);
    check("/spec/head", json!({"other": 1}), &["not understood", "other"]);
    check("/language/sampling/top_p", json!(7.0), &["top_p is 7", "0 to 1"]);
    check("/spec", json!({}), &["not understood", "missing field"]);
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// An order is of its matrix's inputs, or of the stream, and names nothing beyond.
#[test]
fn forged_orders_are_named() {
    let dir = folder("orders");
    let bytes = tiny(&dir, Quant::Native);
    let path = dir.join("forged.rinf");
    for (name, order, fits) in [
        ("blk.0.attn_output", (0..64).rev().collect::<Vec<u32>>(), true),
        ("blk.0.attn_output", (1..65).collect(), false),
        ("blk.0.attn_output", (0..63).collect(), false),
        ("blk.0.ffn_up", vec![], false),
        ("blk.0.attn_norm", (0..65).collect(), false),
        ("output_norm", vec![u32::MAX; 64], false),
    ] {
        let order: Vec<u8> = order.into_iter().flat_map(u32::to_le_bytes).collect();
        let name = format!("{name}.order");
        std::fs::write(&path, with(&bytes, Some((&name, &order)), |_| ())).expect("a file");
        let opened = Opened::open(&path);
        assert_eq!(opened.is_ok(), fits, "{name}");
        if let Err(error) = opened {
            let (error, of) = (error.to_string(), name.trim_end_matches(".order"));
            assert!(error.contains(of) && error.contains("forged.rinf"), "{error}");
        }
    }
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// Where every whole number of a spec lies; of a list, the first and the last.
fn numbers(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| numbers(value, &format!("{at}/{key}"), all));
        }
        Value::Array(list) => {
            let ends = [0, list.len().saturating_sub(1)];
            ends.iter().filter(|i| **i < list.len()).for_each(|i| {
                numbers(&list[*i], &format!("{at}/{i}"), all);
            });
        }
        value if value.is_u64() => all.push(at.to_owned()),
        _ => {}
    }
}

/// Runs two tokens of what opens and loads.
fn attempt(forged: Bundle) {
    let opened = Opened::of("forged.rinf".into(), Checkpoint::Bundle(forged));
    let load = Load { sequences: 1, batch: 8, memory: Some(64 << 20), ..Load::default() };
    let Some((opened, limits)) = opened.and_then(|o| o.limits(&load).map(|l| (o, l))).ok() else {
        return;
    };
    let weights = opened.weights().expect("weights");
    let executor = Cpu::new(1, Kernels::best()).executor(&opened.spec, &*weights, &limits);
    if let Ok(executor) = executor {
        let vocab = opened.spec.vocab;
        let ids = [0, vocab as i32 - 1];
        Rig { executor, vocab }.run(&ids[..limits.context.min(2)], 1);
    }
}

/// Every number of a spec that another was put for: one error, or a model that runs; never a panic.
#[test]
fn forged_specs_do_not_panic() {
    let (dir, mut panics) = (folder("specs"), Vec::new());
    for name in ["llama3", "qwen3_moe", "deepseek_v32", "qwen3_next", "jamba", "gemma3n_text"] {
        let source = dir.join(name);
        chat::write_model(&Golden::load(&shared::goldens().join(name)), &source);
        let source = Opened::open(&source).expect("a model");
        let mut out = Cursor::new(Vec::new());
        bundle::write(&source, &making(Quant::Native), &mut out, 0).expect("a bundle");
        let bytes = out.into_inner();
        let model = Bundle::parse("a", bytes.clone()).expect("a bundle").model().clone();
        let mut all = Vec::new();
        numbers(&model["spec"], "/spec", &mut all);
        all.sort();
        all.dedup();
        for at in &all {
            let own = model.pointer(at).and_then(Value::as_u64).expect("a number");
            for other in [0, 1, 3, own / 2, own + 1, own * 2, 1 << 24] {
                let forged = with_model(&bytes, |model| {
                    *model.pointer_mut(at).expect("a place") = json!(other);
                });
                let forged = Bundle::parse("forged.rinf", forged).expect("a bundle");
                let ran = std::panic::catch_unwind(|| attempt(forged));
                if ran.is_err() {
                    panics.push(format!("{name}: {at} = {other}"));
                }
            }
        }
    }
    assert!(panics.is_empty(), "{}", panics.join("\n"));
    std::fs::remove_dir_all(dir).expect("the folder");
}

/// One that the first version of the format has, in which columns lie in an order: it stays readable.
#[test]
fn the_first_version_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bundles/version-1.rinf");
    let first = std::fs::read(&path).expect("the fixture");
    assert_eq!(first[8..12], 1u32.to_le_bytes());
    let made = Opened::open(&path).expect("a bundle");
    let Checkpoint::Bundle(file) = &made.files else { panic!("no bundle") };
    file.verify().expect("a whole bundle");
    assert!(file.orders().count() > 0);
    let golden = Golden::load(&shared::goldens().join("quant/gptq_v1_4bit_g32_sym_desc_alike"));
    let (ids, logits, ..) = golden.prompt(0);
    let found = load(&made, &rig::NATIVE, Kernels::best()).run(&ids, ids.len());
    let rows = logits.chunks(made.spec.vocab).zip(found.chunks(made.spec.vocab));
    let worst = rows.map(|(p, q)| rig::divergence(p, q)).fold(0.0, f64::max);
    assert!(worst < 2e-3, "{worst}");
    assert_eq!(made.language().expect("a language").sampling.top_k, 50);
}
