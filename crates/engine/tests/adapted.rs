//! Adapters over bundles, and in bundles and files that are written with them.
#![expect(clippy::unwrap_used, reason = "a failed write fails the test")]
mod adapters;
mod rig;

use adapters::random;
use rig::{LIMITS, NATIVE, Rig, assert_bits, distance};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::error::Error;
use rinfer_engine::load::{Load, Opened};
use rinfer_engine::lora::Adapter;
use rinfer_engine::{bundle, export, size};
use rinfer_formats::DType;
use rinfer_kernels::Kernels;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::{Golden, chat, safetensors, shared};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("adapted").join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn open(path: &Path, adapters: &[Adapter]) -> Opened {
    Opened::open(path).and_then(|opened| opened.adapted(adapters)).expect("a model")
}

fn run(opened: &Opened, limits: &Limits, ids: &[i32]) -> Vec<f32> {
    let weights = opened.weights().expect("weights");
    let executor = Cpu::new(2, Kernels::best()).executor(&opened.spec, &*weights, limits);
    let mut rig = Rig { executor: executor.expect("a model"), vocab: opened.spec.vocab };
    rig.run(ids, ids.len())
}

fn bundled(opened: &Opened, quant: Quant, path: PathBuf) -> PathBuf {
    let making = bundle::Making { quant, threads: 2, name: None, license: None };
    bundle::save(opened, &making, &path).expect("a bundle");
    path
}

fn filed(opened: &Opened, quant: Quant, path: PathBuf) -> PathBuf {
    let making = export::Making { quant, threads: 2, split: None, context: None };
    export::save(opened, &making, &path).expect("a file");
    path
}

/// A model with adapters gives the same bits where they are merged before it is written, and where they
/// are merged into its bundle.
fn check(source: &Path, adapters: &[Adapter], ids: &[i32], root: &Path, files: bool) {
    let (plain, with) = (open(source, &[]), open(source, adapters));
    let (want, vocab) = (run(&with, &NATIVE, ids), plain.spec.vocab);
    let check = |path: &Path, adapters: &[Adapter], what: &str| {
        let found = run(&open(path, adapters), &NATIVE, ids);
        assert_bits(&found, &want, vocab, &format!("{}: {what}", source.display()));
    };
    if files {
        check(&filed(&with, Quant::Native, root.join("with.gguf")), &[], "a file");
    }
    check(&bundled(&with, Quant::Native, root.join("with.rinf")), &[], "a bundle");
    let base = bundled(&plain, Quant::Native, root.join("plain.rinf"));
    check(&base, adapters, "over a bundle");
    let again = bundled(&open(&base, adapters), Quant::Native, root.join("again.rinf"));
    check(&again, &[], "a bundle of a bundle");
}

/// The file, whose vocabulary is made up, so that some merges make nothing of it.
fn without_merges(mut bytes: Vec<u8>, path: PathBuf) -> PathBuf {
    let key = b"tokenizer.ggml.merges";
    if let Some(at) = bytes.windows(key.len()).position(|w| w == key) {
        bytes[at + key.len() - 1] = b'_';
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn written_files_give_their_bits() {
    let (root, mut seen) = (folder("gguf"), 0);
    for path in std::fs::read_dir(shared::goldens().join("gguf")).unwrap() {
        let path = path.unwrap().path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with("falcon_h1") {
            continue;
        }
        let GgufGolden { golden, bytes } = GgufGolden::load(&path);
        let file = without_merges(bytes, root.join("source.gguf"));
        let dora = !name.starts_with("gpt2");
        let one = random(&golden, &root.join("one"), 1, dora);
        let other = random(&golden, &root.join("other"), 2, false);
        println!("{name}");
        let adapters = [one, Adapter { scale: -0.5, ..other }];
        check(&file, &adapters, &golden.prompt(0).0, &root, true);
        seen += 1;
    }
    assert!(seen >= 60, "{seen}");
}

#[test]
fn bundles_of_quantised_folders_give_their_bits() {
    for name in ["nf4_nested", "awq_gemm_experts"] {
        let (root, golden) =
            (folder(name), Golden::load(&shared::goldens().join("quant").join(name)));
        chat::write_model(&golden, &root.join("source"));
        let adapters = [of_some(&root.join("source"), &root.join("adapter"))];
        check(&root.join("source"), &adapters, &golden.prompt(0).0, &root, false);
    }
}

/// An adapter of some of a quantised folder's matrices.
fn of_some(folder: &Path, dir: &Path) -> Adapter {
    let opened = Opened::open(folder).expect("a folder");
    let files = opened.files.weights();
    let mut some = Golden::load(&shared::goldens().join("llama3"));
    let entry = some.weights.values().next().expect("a tensor").clone();
    let wanted = |name: &&str| ["0.self_attn.q", "down_proj"].iter().any(|n| name.contains(n));
    let shape = |name: &str| files.describe(name).expect("a tensor").1;
    let entry = |name: &str| safetensors::Entry { shape: shape(name), ..entry.clone() };
    let names = files.names().into_iter().filter(wanted);
    some.weights = names.map(|name| (name.to_owned(), entry(name))).collect();
    random(&some, dir, 9, true)
}

/// PEFT's own, over bundles of folders.
#[test]
fn over_bundles_as_peft() {
    let mut seen = 0;
    for case in std::fs::read_dir(shared::goldens().join("lora")).expect("cases") {
        let case = case.expect("a case").path();
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        let (root, base) = (folder(&name), name.split('.').next().expect("a base"));
        chat::write_model(&Golden::load(&shared::goldens().join(base)), &root.join("source"));
        let source = Opened::open(root.join("source")).expect("a model");
        let path = bundled(&source, Quant::F32, root.join("model.rinf"));
        let at = |i: usize| case.join(i.to_string());
        let adapter = |i| Adapter { path: at(i), scale: if i == 0 { 1.0 } else { 0.5 } };
        let adapters: Vec<Adapter> = (0..2).filter(|i| at(*i).exists()).map(adapter).collect();
        let golden = safetensors::read(&std::fs::read(case.join("golden.safetensors")).unwrap());
        let (ids, logits) = (golden["input_ids"].i32(), golden["logits"].f32());
        let native = Limits { quant: Quant::Native, ..LIMITS };
        let worst = distance(&run(&open(&path, &adapters), &native, &ids), &logits);
        assert!(worst <= 1e-3, "{name}: differs by {worst}");
        seen += 1;
    }
    assert!(seen >= 10);
}

#[test]
fn what_does_not_go_with_a_bundle_is_refused() {
    let root = folder("refused");
    let refused = |path: &Path, adapter: &Adapter, says: &[&str]| {
        let opened = Opened::open(path).expect("a bundle");
        let error =
            opened.adapted(std::slice::from_ref(adapter)).err().expect("refused").to_string();
        assert!(says.iter().all(|text| error.contains(text)), "{error}");
    };
    for name in ["gptq_v1_4bit_g32_sym_desc_alike", "gptq_v1_4bit_g32_asym_desc"] {
        let golden = Golden::load(&shared::goldens().join("quant").join(name));
        chat::write_model(&golden, &root.join(name));
        let adapter = of_some(&root.join(name), &root.join("adapter"));
        let source = Opened::open(root.join(name)).expect("a model");
        let path = bundled(&source, Quant::Native, root.join("ordered.rinf"));
        refused(&path, &adapter, &["in another order", "bundle that with the adapter"]);
    }
    let golden = Golden::load(&shared::goldens().join("llama3"));
    chat::write_model(&golden, &root.join("llama3"));
    let source = Opened::open(root.join("llama3")).expect("a model");
    let path = bundled(&source, Quant::Native, root.join("plain.rinf"));
    let file = Adapter { path: path.clone(), scale: 1.0 };
    refused(&path, &file, &["adapter files go with GGUF files"]);
    let gpt2 = Adapter { path: shared::goldens().join("lora/gpt2.turned/0"), scale: 1.0 };
    refused(&path, &gpt2, &["nothing that a model of", "is made of"]);
}

/// A file whose multipliers are in weights says so, and so does its bundle.
#[test]
fn multipliers_in_weights_are_no_folders() {
    let root = folder("folded");
    let golden = Golden::load(&shared::goldens().join("gemma2"));
    let adapter = random(&golden, &root.join("adapter"), 3, false);
    chat::write_model(&golden, &root.join("source"));
    let source = open(&root.join("source"), &[]);
    let file = filed(&source, Quant::Native, root.join("model.gguf"));
    let bundle = bundled(&open(&file, &[]), Quant::Native, root.join("model.rinf"));
    for path in [file, bundle] {
        let opened = Opened::open(&path).expect("a model").adapted(std::slice::from_ref(&adapter));
        let error = opened.err().expect("refused").to_string();
        assert!(error.contains("the file does not keep; give the base's folder"), "{error}");
    }
    // Of the folder, it is written with them.
    let with = open(&root.join("source"), &[adapter]);
    let ids = golden.prompt(0).0;
    let file = filed(&with, Quant::F32, root.join("with.gguf"));
    let far = distance(&run(&open(&file, &[]), &LIMITS, &ids), &run(&with, &LIMITS, &ids));
    assert!(far < 1e-3, "{far}");
}

/// What is merged is converted where it is asked for; what is quantised and not touched stays.
#[test]
fn what_is_merged_is_converted() {
    let root = folder("converted");
    let bytes = std::fs::read(shared::goldens().join("gguf_quant/llama.Q4_0.gguf")).unwrap();
    let file = without_merges(bytes, root.join("source.gguf"));
    let plain = open(&file, &[]);
    let mut some = Golden::load(&shared::goldens().join("llama3"));
    some.weights.retain(|name, _| name.contains("layers.0.self_attn.v_proj"));
    let name = "blk.0.attn_v.weight";
    let shape = plain.weights().unwrap().describe(name).expect("there").1;
    let entry = some.weights.values_mut().next().expect("a matrix");
    (entry.bytes, entry.shape) = (vec![0; 4 * shape.iter().product::<usize>()], shape);
    let adapter = random(&some, &root.join("adapter"), 5, false);
    let with = open(&file, std::slice::from_ref(&adapter));
    let quant = Quant::all().map(|all| all.2).find(|q| q.name() == "q8_0").expect("a recipe");
    let native = Load { adapters: vec![adapter.clone()], ..Load::default() };
    let limits = |load: &Load| Limits { batch: 8, ..load.limits(&with.spec).expect("limits") };
    let (native, eight) = (limits(&native), limits(&Load { quant, ..native.clone() }));
    let bytes = |limits| size::weights(&with.spec, &*with.weights().unwrap(), limits);
    let matrix = with.weights().unwrap().describe(name).expect("there").1.iter().product::<usize>();
    // Of 32 numbers 32 codes and a half, rather than 32 floats.
    assert_eq!(bytes(&native) - bytes(&eight), 4 * matrix - 34 * matrix / 32);
    let (ids, far) = ([1, 2, 3], |a: &[f32], b: &[f32]| distance(a, b));
    let (exact, near) = (run(&with, &native, &ids), run(&with, &eight, &ids));
    assert!(far(&exact, &near) > 0.0 && far(&exact, &near) < 0.2, "{}", far(&exact, &near));
    // Written, it is the same.
    let bundle = bundled(&with, quant, root.join("with.rinf"));
    let vocab = with.spec.vocab;
    assert_bits(&run(&open(&bundle, &[]), &native, &ids), &near, vocab, "a bundle");
    let path = filed(&with, quant, root.join("with.gguf"));
    let written = open(&path, &[]);
    let dtype = |name: &str| written.files.weights().describe(name).expect("there").0;
    assert_eq!([dtype(name), dtype("blk.0.attn_q.weight")], [DType::Q8_0, DType::Q4_0]);
    assert_bits(&run(&written, &native, &ids), &near, vocab, "a file");
    // Over a bundle too, whose own weights stay as they are.
    let base = bundled(&plain, Quant::Native, root.join("plain.rinf"));
    let over = open(&base, std::slice::from_ref(&adapter));
    assert_bits(&run(&over, &eight, &ids), &near, vocab, "over a bundle");
    // Without adapters, there would be nothing to convert.
    let making = bundle::Making { quant, threads: 2, name: None, license: None };
    let error = bundle::save(&plain, &making, &root.join("none.rinf")).expect_err("refused");
    assert!(matches!(error, Error::Load { .. }), "{error}");
    // Where there is no room, that is what is advised.
    for opened in [&with, &over] {
        let load =
            Load { memory: Some(1 << 10), adapters: vec![adapter.clone()], ..Load::default() };
        let error = opened.limits(&load).expect_err("no room").to_string();
        assert!(error.contains("--quant q8_0"), "{error}");
    }
}
