//! What the threads are called together for: once a layer, whatever it is made of, and for the logits.
mod rig;

use rig::{LIMITS, Memory, NATIVE, Rig, goldens};
use rinfer_engine::batch::Want;
use rinfer_engine::config::{Config, Source};
use rinfer_engine::spec::{Keys, ModelSpec, Op};
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::Kernels;
use std::collections::BTreeSet;

/// Of everything that a layer can be made of.
const KINDS: [&str; 17] = [
    "adapter",
    "attention",
    "attention to chosen keys",
    "delta net",
    "experts",
    "experts and one for all rows",
    "experts and one for all rows, gated",
    "input gate",
    "latent attention",
    "laurel",
    "lightning",
    "linear",
    "mamba",
    "mamba 2",
    "mlp",
    "rg-lru",
    "short convolution",
];

fn kind(op: &Op) -> &'static str {
    match op {
        Op::Attention(a) if a.adapter.is_some() => "adapter",
        Op::Attention(_) => "attention",
        Op::Mla(m) if m.keys != Keys::All => "attention to chosen keys",
        Op::Mla(_) => "latent attention",
        Op::DeltaNet(_) => "delta net",
        Op::Lightning(_) => "lightning",
        Op::Mamba1(_) => "mamba",
        Op::Mamba2(_) => "mamba 2",
        Op::RgLru(_) => "rg-lru",
        Op::ShortConv(_) => "short convolution",
        Op::Mlp(_) => "mlp",
        Op::Moe(m) => match m.shared.as_ref().map(|shared| shared.sigmoid_gate) {
            None => "experts",
            Some(false) => "experts and one for all rows",
            Some(true) => "experts and one for all rows, gated",
        },
        Op::Laurel(_) => "laurel",
        Op::InputGate(_) => "input gate",
        Op::Linear => "linear",
    }
}

/// Runs at most before the first layer and after the last but for the logits: a norm, a product, a norm
/// and a sum make what tokens give each layer; a norm, products and what joins them make further streams,
/// and one of them.
fn beside(spec: &ModelSpec) -> u64 {
    let streams = spec.altup.map_or(0, |altup| 2 * altup.streams as u64 + 1);
    if spec.embed.per_layer.is_some() { streams + 4 } else { streams }
}

#[test]
fn a_layer_is_one_run() {
    let mut kinds = BTreeSet::new();
    for golden in goldens() {
        let weights = Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let checkpoint = Checkpoint::open(config, &weights).expect("a model");
        let spec = &checkpoint.spec;
        kinds.extend(spec.ops().map(kind));
        let least = spec.layers.len() as u64 + 1;
        for limits in [LIMITS, NATIVE] {
            let mut rig = Rig::load(&checkpoint, &limits, 2, Kernels::best());
            let slot = rig.open();
            // A prompt of many rows, a step, and a chunk of few rows.
            for len in [40, 1, 5] {
                let ids: Vec<i32> = (3..3 + len).collect();
                let before = rig.executor.runs();
                rig.forward(&[(slot, &ids, Want::Last)]);
                let (runs, name) = (rig.executor.runs() - before, &golden.name);
                let as_said = (least..=least + beside(spec)).contains(&runs);
                assert!(as_said, "{name}, {len} rows: {runs} runs of {} layers", least - 1);
            }
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), KINDS);
}
