//! What the threads are called together for: once for an attention, and once for an MLP.
mod rig;

use rig::{LIMITS, Memory, NATIVE, Rig, goldens};
use rinfer_engine::batch::Want;
use rinfer_engine::config::{Config, Source};
use rinfer_engine::spec::{ModelSpec, Op, Skip};
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::Kernels;

/// The attentions and MLPs, if each goes from the stream to the stream by itself or beside the other.
fn branches(spec: &ModelSpec) -> Option<u64> {
    let mut count = 0;
    for branch in spec.layers.iter().flatten() {
        let plain = |part: &rinfer_engine::spec::Part| {
            matches!(part.op, Op::Attention(_) | Op::Mlp(_))
                && part.post.is_none()
                && part.scale == 1.0
        };
        if branch.skip != Skip::Stream || !branch.parts.iter().all(plain) {
            return None;
        }
        count += branch.parts.len() as u64;
    }
    Some(count).filter(|_| spec.altup.is_none() && spec.embed.per_layer.is_none())
}

#[test]
fn a_dense_layer_is_two_runs() {
    let mut models = 0;
    for golden in goldens() {
        let weights = Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let checkpoint = Checkpoint::open(config, &weights).expect("a model");
        let Some(branches) = branches(&checkpoint.spec) else { continue };
        models += 1;
        for limits in [LIMITS, NATIVE] {
            let mut rig = Rig::load(&checkpoint, &limits, 2, Kernels::best());
            let slot = rig.open();
            // A prompt of many rows, a step, and a chunk of few rows.
            for len in [40, 1, 5] {
                let ids: Vec<i32> = (3..3 + len).collect();
                let before = rig.executor.runs();
                rig.forward(&[(slot, &ids, Want::Last)]);
                // And the head.
                let (runs, name) = (rig.executor.runs() - before, &golden.name);
                assert_eq!(runs, branches + 1, "{name}, {len} rows");
            }
        }
    }
    assert!(models >= 30, "{models} models of attentions and MLPs alone");
}
