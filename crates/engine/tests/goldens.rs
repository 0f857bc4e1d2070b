//! Every golden under goldens/ against transformers' logits: a new one runs without being named.
mod rig;

use rig::{LIMITS, NATIVE, Rig, distance, goldens};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::size::Memory;
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::Kernels;
use rinfer_testkit::Golden;

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

/// I10: what is planned is what is held.
#[test]
fn memory_is_the_sum() {
    for golden in goldens() {
        for limits in [LIMITS, NATIVE] {
            let weights = rig::Memory(golden.weights.clone());
            let config = Config::new(golden.config.clone(), Source::HuggingFace);
            let model = Checkpoint::open(config, &weights).expect("a model");
            let planned = Memory::of(&model.spec, &model, &limits, 2);
            let cpu = Cpu::new(2, Kernels::best());
            let held = cpu.executor(&model.spec, &model, &limits).expect("a model").memory();
            assert_eq!(planned, held, "{}", golden.name);
        }
    }
}
