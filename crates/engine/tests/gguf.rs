//! The goldens' GGUF copies: as exact as their sources, and quantised ones against the logits of
//! their dequantised weights.
mod rig;

use rig::{LIMITS, NATIVE, Rig, distance, divergence, open_gguf};
use rinfer_engine::spec::{Groups, Op};
use rinfer_formats::Gguf;
use rinfer_kernels::Kernels;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::safetensors;
use rinfer_testkit::shared::goldens;
use std::path::PathBuf;

const TOLERANCE: f32 = 1e-3;

/// What 8-bit activations and f16 keys and values may cost: mean KL divergence over all positions
/// of these tiny random models, whose logits have a standard deviation of 2.
const NATIVE_DIVERGENCE: f64 = 2e-3;

fn folder(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(goldens().join(name)).expect("goldens");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn files_equal_their_sources() {
    for path in folder("gguf") {
        let GgufGolden { golden, bytes } = GgufGolden::load(&path);
        let gguf = Gguf::parse(&path, bytes).expect("a GGUF file");
        let mut rig = Rig::load(&open_gguf(&gguf), &LIMITS, 2, Kernels::best());
        for i in 0..2 {
            let (ids, logits, greedy, _) = golden.prompt(i);
            let worst = distance(&rig.run(&ids, ids.len()), &logits);
            assert!(worst <= TOLERANCE, "{}: prompt {i} differs by {worst}", path.display());
            assert_eq!(rig.greedy(&ids, greedy.len()), greedy, "{}", path.display());
        }
    }
}

#[test]
fn quantised_files() {
    let mut seen = 0;
    for path in folder("gguf_quant") {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !name.ends_with(".gguf") {
            continue;
        }
        seen += 1;
        let golden = std::fs::read(path.with_extension("golden.safetensors")).expect("a golden");
        let golden = safetensors::read(&golden);
        let gguf = Gguf::open(&path).expect("a GGUF file");
        let model = open_gguf(&gguf);
        let mut exact = Rig::load(&model, &LIMITS, 2, Kernels::best());
        let mut native = Rig::load(&model, &NATIVE, 2, Kernels::best());
        let (mut sum, mut rows) = (0.0, 0);
        for i in 0..2 {
            let get = |kind: &str| &golden[&format!("{kind}_{i}")];
            let (ids, logits) = (get("input_ids").i32(), get("logits").f32());
            let worst = distance(&exact.run(&ids, ids.len()), &logits);
            assert!(worst <= TOLERANCE, "{name}: prompt {i} differs by {worst}");
            assert_eq!(exact.greedy(&ids, 24), get("greedy").i32(), "{name}: prompt {i}");
            let found = native.run(&ids, ids.len());
            let vocab = native.vocab;
            let pairs = logits.chunks(vocab).zip(found.chunks(vocab));
            sum += pairs.map(|(p, q)| divergence(p, q)).sum::<f64>();
            rows += ids.len();
        }
        let mean = sum / rows as f64;
        println!("{name:25} {mean:.1e}");
        assert!(mean <= NATIVE_DIVERGENCE, "{name}: a divergence of {mean}");
    }
    assert!(seen > 10);
}

/// No key says how groups of experts are chosen: DeepSeek-V2's by their best, as it was trained.
#[test]
fn groups_go_by_their_best() {
    let path = goldens().join("gguf/deepseek_v2.bf16");
    let mut bytes = GgufGolden::load(&path).bytes;
    for (key, count) in [("expert_group_count", 4u32), ("expert_group_used_count", 2)] {
        let key = format!("deepseek2.{key}");
        let key = key.as_bytes();
        let at = bytes.windows(key.len()).position(|text| text == key).expect("a key");
        // Its type lies between.
        bytes[at + key.len() + 4..][..4].copy_from_slice(&count.to_le_bytes());
    }
    let gguf = Gguf::parse(&path, bytes).expect("a GGUF file");
    let checkpoint = open_gguf(&gguf);
    let mut mixed = checkpoint.spec.ops().filter_map(|op| match op {
        Op::Moe(moe) => Some(moe.router.groups),
        _ => None,
    });
    assert_eq!(mixed.next(), Some(Some(Groups { count: 4, top: 2, best: 1 })));
}
