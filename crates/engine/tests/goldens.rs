//! Every golden under goldens/ against transformers' logits: a new one runs without being named.
mod rig;

use rig::{LIMITS, Rig, distance, goldens};
use rinfer_engine::backend::{Kv, Limits, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::size::{self, Memory};
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_kernels::Kernels;
use rinfer_testkit::Golden;
use std::sync::Arc;

/// The bound of `goldens/FORMAT.md`'s authors: typical faults are fifty times larger.
const TOLERANCE: f32 = 1e-3;

fn check(golden: &Golden) -> Result<f32, String> {
    let mut rig = Rig::golden(golden, &LIMITS);
    let mut worst = 0f32;
    for i in 0..2 {
        let (ids, logits, greedy, _) = golden.prompt(i);
        worst = worst.max(distance(&rig.run(&ids, ids.len()), &logits));
        if worst.is_nan() || worst > TOLERANCE {
            return Err(format!("prompt {i} differs by {worst}"));
        }
        let picked = rig.greedy(&ids, greedy.len());
        if picked != greedy {
            return Err(format!("prompt {i} goes on {picked:?}, expected {greedy:?}"));
        }
    }
    Ok(worst)
}

#[test]
fn f32_equals_transformers() {
    let mut wrong = Vec::new();
    for golden in goldens() {
        match check(&golden) {
            Ok(worst) => println!("{:20} {worst:.1e}", golden.name),
            Err(e) => wrong.push(format!("{}: {e}", golden.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tensors whose types and shapes are known, and nothing else.
struct Headers<'a>(&'a Checkpoint<'a>);

impl Weights for Headers<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        panic!("{name} was read")
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.0.describe(name)
    }
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        self.0.order(name)
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
}

/// I10, E4: what is planned, from headers alone, is what is held, of every architecture.
#[test]
fn e4_memory_is_the_sum() {
    let precisions = [
        Quant::F32,
        Quant::Native,
        Quant::Bf16,
        Quant::F16,
        Quant::Int8,
        Quant::Int8Int8,
        Quant::Int4,
    ];
    for golden in goldens() {
        let weights = rig::Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let model = Checkpoint::open(config, &weights).expect("a model");
        for (quant, kv) in precisions.into_iter().zip(Kv::ALL.into_iter().cycle()) {
            let limits = Limits { quant, kv, ..LIMITS };
            let planned = Memory::of(&model.spec, &Headers(&model), &limits, 2);
            let cpu = Cpu::new(2, Kernels::best());
            let held = cpu.executor(&model.spec, &model, &limits).expect("a model").memory();
            assert_eq!(planned, held, "{}, {quant:?}, {kv:?}", golden.name);
        }
    }
}

/// Of batches that are not made to be measured, too.
#[test]
fn scratch_of_many_rows_is_the_sum() {
    for golden in goldens() {
        let weights = rig::Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let model = Checkpoint::open(config, &weights).expect("a model");
        for threads in [1, 3] {
            let limits = Limits { batch: 999, kv: Kv::Q8, ..LIMITS };
            let planned = Memory::of(&model.spec, &Headers(&model), &limits, threads);
            let cpu = Cpu::new(threads, Kernels::best());
            let held = cpu.executor(&model.spec, &model, &limits).expect("a model").memory();
            assert_eq!(planned, held, "{}, {threads} threads", golden.name);
        }
    }
}

/// What a sequence takes, and what each of its positions does, make up the state.
#[test]
fn state_is_of_sequences_and_positions() {
    for golden in goldens() {
        let weights = rig::Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let spec = Checkpoint::open(config, &weights).expect("a model").spec;
        // As many positions as no window is short of.
        let limits = Limits { positions: 1 << 24, ..LIMITS };
        let sum = limits.slots * size::sequence(&spec, &limits)
            + limits.positions * size::position(&spec, limits.kv);
        assert_eq!(size::state(&spec, &limits), sum, "{}", golden.name);
    }
}
