//! `--quant` and `--kv`: how far each precision is from f32, and what it refuses.
mod rig;

use rig::{LIMITS, Memory, NATIVE, Rig, divergence, goldens, open_gguf};
use rinfer_engine::backend::{Kv, Limits, LoadError, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::Gguf;
use rinfer_kernels::Kernels;
use rinfer_testkit::{Golden, shared};

fn golden(name: &str) -> Golden {
    goldens().into_iter().find(|g| g.name == name).expect("a golden")
}

/// The mean divergence from the golden's logits must be between the two: a precision that loses
/// nothing is not in use.
fn check(limits: Limits, least: f64, most: f64) {
    let golden = golden("llama3");
    let mut rig = Rig::golden(&golden, &limits);
    let (ids, logits, ..) = golden.prompt(0);
    let found = rig.run(&ids, 7);
    let pairs = logits.chunks(rig.vocab).zip(found.chunks(rig.vocab));
    let mean = pairs.map(|(p, q)| divergence(p, q)).sum::<f64>() / ids.len() as f64;
    assert!((least..=most).contains(&mean), "{:?} {:?}: {mean}", limits.quant, limits.kv);
}

#[test]
fn divergence_by_precision() {
    let check = |quant, least, most| check(Limits { quant, ..LIMITS }, least, most);
    check(Quant::F32, 0.0, 1e-10);
    check(Quant::F16, 1e-9, 1e-5);
    check(Quant::Bf16, 1e-6, 1e-3);
    check(Quant::Int8, 1e-5, 2e-3);
    check(Quant::Int8Int8, 1e-5, 5e-3);
    check(Quant::Int4, 1e-3, 0.5);
}

#[test]
fn divergence_by_state() {
    let check = |kv, least, most| check(Limits { kv, ..LIMITS }, least, most);
    check(Kv::F16, 1e-12, 1e-6);
    check(Kv::Q8, 1e-6, 5e-4);
}

fn load(model: &Checkpoint<'_>, quant: Quant) -> Result<(), LoadError> {
    let limits = Limits { quant, ..NATIVE };
    Cpu::new(1, Kernels::best()).executor(&model.spec, model, &limits).map(drop)
}

#[test]
fn what_is_quantised_is_not_converted() {
    let path = shared::goldens().join("gguf_quant/llama256.Q4_K_M.gguf");
    let gguf = Gguf::open(&path).expect("a GGUF file");
    let model = open_gguf(&gguf);
    for quant in [Quant::Bf16, Quant::F16, Quant::Int8, Quant::Int8Int8, Quant::Int4] {
        let error = load(&model, quant).expect_err("refused").to_string();
        assert!(error.contains("is Q4_K already"), "{quant:?}: {error}");
    }
    assert!(load(&model, Quant::Native).is_ok() && load(&model, Quant::F32).is_ok());
}

#[test]
fn halves_have_a_range() {
    let mut golden = golden("llama3");
    let entry = golden.weights.get_mut("model.layers.1.mlp.up_proj.weight").expect("a tensor");
    entry.bytes[..4].copy_from_slice(&1e6f32.to_le_bytes());
    let weights = Memory(golden.weights.clone());
    let config = Config::new(golden.config.clone(), Source::HuggingFace);
    let model = Checkpoint::open(config, &weights).expect("a model");
    let error = load(&model, Quant::F16).expect_err("refused").to_string();
    assert!(error.starts_with("tensor 'blk.1.ffn_up.weight' has numbers beyond"), "{error}");
    assert!(load(&model, Quant::Bf16).is_ok());
}
