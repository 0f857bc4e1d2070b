//! Real models against exact f32 references: as llama.cpp and as transformers compute them.
mod rig;

use rig::{Rig, best, distance, log_softmax, open_gguf};
use rinfer_engine::backend::{Kv, Limits, Quant};
use rinfer_formats::Gguf;
use rinfer_kernels::Kernels;
use rinfer_testkit::safetensors;
use rinfer_testkit::shared::{model, shared};
use serde_json::Value;

const EXACT: Limits =
    Limits { slots: 1, context: 256, positions: 256, batch: 64, kv: Kv::F32, ..rig::LIMITS };
const NATIVE: Limits = Limits { kv: Kv::F16, quant: Quant::Native, ..EXACT };

/// Mean divergence from the reference's ten best tokens and the rest of its mass, and the share of
/// positions with the same best token.
fn against(reference: &Value, logits: &[f32], vocab: usize) -> (f64, f64) {
    let positions = reference["positions"].as_array().expect("positions");
    let (mut sum, mut same) = (0.0, 0);
    for (position, row) in positions.iter().zip(logits.chunks(vocab)) {
        let q = log_softmax(row);
        let top = position["top"].as_array().expect("a list");
        let (mut p_rest, mut q_rest) = (1.0, 1.0);
        for pair in top {
            let id = pair[0].as_u64().expect("an id") as usize;
            let p = pair[1].as_f64().expect("a logarithm");
            sum += p.exp() * (p - q[id]);
            p_rest -= p.exp();
            q_rest -= q[id].exp();
        }
        sum += p_rest * (p_rest / q_rest).ln();
        same += usize::from(top[0][0].as_u64() == Some(best(row) as u64));
    }
    let n = positions.len() as f64;
    (sum / n, same as f64 / n)
}

fn check(file: &str, folder: &str, hf: &str, native_limit: f64) {
    let (Some(path), Some(references)) = (model(file), shared("reference")) else { return };
    let gguf = Gguf::open(path).expect("a GGUF file");
    let model = open_gguf(&gguf);
    let text = references.join(folder).join("logprobs200_f32exact.json");
    let text = std::fs::read(text).expect("a reference");
    let text: Value = serde_json::from_slice(&text).expect("JSON");
    let tokens = text["tokens"].as_array().expect("tokens");
    let ids: Vec<i32> = tokens.iter().map(|t| t.as_i64().expect("an id") as i32).collect();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let run = |limits: &Limits| {
        let mut rig = Rig::load(&model, limits, cpus, Kernels::best());
        let (kl, same) = against(&text, &rig.run(&ids, 64), rig.vocab);
        println!("{file} {:?}: divergence {kl:.2e}, same best token {same:.3}", limits.quant);
        (rig, kl, same)
    };
    let (_, kl, _) = run(&NATIVE);
    assert!(kl <= native_limit, "a divergence of {kl}");
    let (mut rig, kl, same) = run(&EXACT);
    assert!(kl <= 1e-4 && same >= 0.99, "a divergence of {kl}, same best token {same}");

    let golden = references.join("hf").join(format!("{hf}.golden.safetensors"));
    let golden = safetensors::read(&std::fs::read(golden).expect("a golden"));
    for i in 0..3 {
        let get = |kind: &str| &golden[&format!("{kind}_{i}")];
        let (ids, top, expect) =
            (get("input_ids").i32(), get("top_ids").i32(), get("top_logits").f32());
        let logits = rig.run(&ids, 64);
        let rows = logits.chunks(rig.vocab).zip(top.chunks(32));
        let found: Vec<f32> =
            rows.flat_map(|(row, ids)| ids.iter().map(|id| row[*id as usize])).collect();
        let worst = distance(&found, &expect);
        println!("{file}: prompt {i} differs by {worst:.1e}");
        assert!(worst <= 2e-2, "prompt {i} differs by {worst}");
        assert_eq!(rig.greedy(&ids, 32), get("greedy").i32(), "prompt {i}");
    }
}

#[test]
fn smollm2() {
    let file = "smollm2-135m-instruct-q4_1.gguf";
    check(file, "smollm2-135m-instruct-q4_1", "smollm2-135m-q4_1", 0.0021);
}

#[test]
fn gemma3() {
    check("gemma3-270m-q4_k_m.gguf", "gemma3-270m-q4_k_m", "gemma3-270m-q4_k_m", 0.0029);
}
