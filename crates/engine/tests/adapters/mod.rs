//! Adapters that tests make, and models with them.
#![allow(dead_code, reason = "each test file uses a part")]
use super::rig::{LIMITS, Memory, Rig};
use rinfer_engine::backend::Limits;
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::load::Opened;
use rinfer_engine::lora::{Adapter, Adapters};
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::Kernels;
use rinfer_testkit::Golden;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::safetensors::{self, Entry};
use std::collections::BTreeMap;
use std::path::Path;

/// An adapter of random matrices beside all that `golden` multiplies, whose rows get lengths if `dora`.
pub fn random(golden: &Golden, dir: &Path, seed: u64, dora: bool) -> Adapter {
    let mut seed = seed;
    let mut values = |count: usize, by: f32| -> Vec<u8> {
        let one = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            by * ((seed >> 40) as f32 / (1 << 23) as f32 - 1.0)
        };
        std::iter::repeat_with(one).take(count).flat_map(f32::to_le_bytes).collect()
    };
    let longer =
        |by: &[u8]| (f32::from_le_bytes(by.try_into().expect("four bytes")) + 1.0).to_le_bytes();
    let mut tensors = BTreeMap::new();
    for (name, entry) in &golden.weights {
        let Some(stem) = name.strip_suffix(".weight") else { continue };
        let [rows, cols] = entry.shape[..] else { continue };
        let part = stem.rsplit('.').next().expect("a part");
        let other = ["embed", "wte", "wpe", "lm_head", "gate", "conv", "norm", "router"];
        if other.iter().any(|other| part.contains(other) && part != "gate_proj")
            || rows.min(cols) < 8
        {
            continue;
        }
        let mut put = |end: &str, shape: [usize; 2], by: f32| {
            let bytes = values(shape[0] * shape[1], by);
            let entry = Entry { dtype: "F32".into(), shape: shape.to_vec(), bytes };
            tensors.insert(format!("base_model.model.{stem}.{end}"), entry);
        };
        put("lora_A.weight", [2, cols], 0.2);
        put("lora_B.weight", [rows, 2], 0.2);
        if dora {
            let lengths = values(rows, 0.4).chunks(4).flat_map(longer).collect();
            let entry = Entry { dtype: "F32".into(), shape: vec![rows], bytes: lengths };
            tensors.insert(format!("base_model.model.{stem}.lora_magnitude_vector"), entry);
        }
    }
    std::fs::create_dir_all(dir).expect("made");
    let config = serde_json::json!({"peft_type": "LORA", "r": 2, "lora_alpha": 2});
    std::fs::write(dir.join("adapter_config.json"), config.to_string()).expect("made");
    std::fs::write(dir.join("adapter_model.safetensors"), safetensors::write(&tensors))
        .expect("made");
    Adapter { path: dir.to_owned(), scale: 1.0 }
}

/// The logits of a folder's tensors with adapters.
pub fn run(config: &Config, raw: &Memory, adapters: &[Adapter], ids: &[i32]) -> Vec<f32> {
    let adapters = Adapters::read(adapters, raw, false).expect("adapters");
    let merged = adapters.over(raw);
    let model = Checkpoint::open(config.clone(), &merged).expect("a model");
    Rig::load(&model, &Limits { ..LIMITS }, 2, Kernels::best()).run(ids, ids.len())
}

/// The logits of a GGUF file with adapters, or what is wrong with them.
pub fn over_gguf(file: &Path, adapters: &[Adapter], ids: &[i32]) -> Result<Vec<f32>, String> {
    let opened = Opened::open(file).and_then(|opened| opened.adapted(adapters));
    let opened = opened.map_err(|e| e.to_string())?;
    let weights = opened.weights().expect("weights");
    let executor = Cpu::new(2, Kernels::best()).executor(&opened.spec, &*weights, &LIMITS);
    let mut rig = Rig { executor: executor.expect("a model"), vocab: opened.spec.vocab };
    Ok(rig.run(ids, ids.len()))
}

/// Logits of a model with two adapters.
pub struct Compared {
    /// Over the GGUF file.
    pub found: Result<Vec<f32>, String>,
    /// Over the folder that it was made of.
    pub want: Vec<f32>,
    /// Of that, without them.
    pub plain: Vec<f32>,
}

/// Of the GGUF golden at `path`; files that this takes lie in `root`.
pub fn over_both(path: &Path, root: &Path) -> Compared {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let golden = GgufGolden::load(path);
    std::fs::create_dir_all(root).expect("a folder");
    let file = golden.write(&root.join(format!("{name}.gguf")));
    let golden = golden.golden;
    // Lengths are of rows, which there are columns.
    let dora = !name.starts_with("gpt2");
    let other = random(&golden, &root.join("other"), 2, false);
    let one = random(&golden, &root.join(&name), 1, dora);
    let adapters = [one, Adapter { scale: -0.5, ..other }];
    let mut config = golden.config.clone();
    if name.starts_with("nemotron_h") {
        // GGUF has no key for the least step.
        config["time_step_min"] = 0.0.into();
    }
    let config = Config::new(config, Source::HuggingFace);
    let (ids, raw) = (golden.prompt(0).0, Memory(golden.weights));
    Compared {
        found: over_gguf(&file, &adapters, &ids),
        want: run(&config, &raw, &adapters, &ids),
        plain: run(&config, &raw, &[], &ids),
    }
}
