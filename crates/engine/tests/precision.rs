//! `--quant` and `--kv`: how far each precision is from f32, and what it refuses.
mod rig;

use rig::{LIMITS, Memory, NATIVE, Rig, divergence, goldens, open_gguf};
use rinfer_engine::backend::{Kv, Limits, LoadError, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::spec::Op;
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::gguf::recipe::{Facts, RECIPES, Recipe};
use rinfer_formats::quant::{dequantise, quantise};
use rinfer_formats::{DType, Gguf, Tensor, Weights};
use rinfer_kernels::Kernels;
use rinfer_testkit::{Golden, shared};
use std::collections::HashMap;

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
    for (name, least, most) in [("q8_0", 1e-5, 5e-3), ("q6_k", 1e-5, 5e-3), ("q4_k_m", 1e-4, 0.5)] {
        check(recipe(name), least, most);
    }
}

fn recipe(name: &str) -> Quant {
    Quant::Gguf(Recipe::of_name(name).expect("a recipe"))
}

/// Loading converts as a file of that recipe is converted: the same logits, bit for bit.
#[test]
fn recipes_are_files() {
    let path = shared::goldens().join("gguf_quant/llama256.Q4_K_M.gguf");
    let gguf = Gguf::open(&path).expect("a GGUF file");
    let model = open_gguf(&gguf);
    let wide = Wide(&model);
    let Op::Attention(a) = &model.spec.layers[0][0].parts[0].op else { panic!("no attention") };
    let facts = Facts { layers: model.spec.layers.len(), experts: 0, shared: a.heads / a.kv_heads };
    for recipe in RECIPES {
        let types = Quant::Gguf(recipe);
        let named: Vec<_> =
            wide.names().into_iter().map(|n| (n, wide.get(n).expect("a tensor").shape)).collect();
        let chosen = recipe.types(named.iter().map(|(n, s)| (*n, &**s)), &facts);
        let file = Converted(&wide, chosen);
        let ids: Vec<i32> = (1..20).collect();
        let run = |weights: &dyn Weights, quant| {
            let limits = Limits { quant, ..NATIVE };
            let executor = Cpu::new(2, Kernels::best()).executor(&model.spec, weights, &limits);
            let executor = executor.expect("a loadable model");
            Rig { executor, vocab: model.spec.vocab }.run(&ids, ids.len())
        };
        let (loaded, native) = (run(&wide, types), run(&file, Quant::Native));
        assert_eq!(loaded, native, "{}", recipe.name);
    }
}

/// Tensors widened to f32.
struct Wide<'a>(&'a Checkpoint<'a>);
impl Weights for Wide<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let tensor = self.0.get(name)?;
        let mut values = vec![0.0; tensor.shape.iter().product()];
        dequantise(tensor.dtype, &tensor.bytes, &mut values).expect("weights");
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Some(Tensor { dtype: DType::F32, bytes: bytes.into(), ..tensor })
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
}

/// The same, in some types.
struct Converted<'a>(&'a Wide<'a>, HashMap<&'a str, DType>);
impl Weights for Converted<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let tensor = self.0.get(name)?;
        let Some(&dtype) = self.1.get(name) else { return Some(tensor) };
        let values: Vec<f32> =
            tensor.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let mut bytes = Vec::new();
        quantise(dtype, &values, &mut bytes).expect("a written type");
        Some(Tensor { dtype, bytes: bytes.into(), ..tensor })
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
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
    let quants = [Quant::Bf16, Quant::F16, Quant::Int8, Quant::Int8Int8, Quant::Int4];
    for quant in quants.into_iter().chain([recipe("q5_0")]) {
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
    let error = load(&model, recipe("q4_0")).expect_err("refused").to_string();
    assert!(error.contains("beyond the range of Q4_0"), "{error}");
}
