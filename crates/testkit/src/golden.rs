//! Goldens: `config.json`, `weights.json` (the recipe) and `golden.safetensors` (what was recorded).
use crate::safetensors::{self, Entry};
use half::{bf16, f16};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One golden case.
pub struct Golden {
    /// The folder's name.
    pub name: String,
    /// The checkpoint's config.json.
    pub config: Value,
    /// The checkpoint's tensors.
    pub weights: BTreeMap<String, Entry>,
    /// `input_ids_i`, `logits_i`, `greedy_i`, `greedy_margin_i`, ...
    pub recorded: BTreeMap<String, Entry>,
    config_text: String,
    /// Files that lie beside the weights, by name.
    side: BTreeMap<&'static str, Vec<u8>>,
}

/// What is copied to a checkpoint where a case has it.
const SIDE_FILES: [&str; 2] = ["quantize_config.json", INDEX];
/// Which says of each tensor what file it is in.
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Recipe {
    seed: String,
    tensors: Vec<Planned>,
}
#[derive(Deserialize)]
struct Planned {
    name: String,
    shape: Vec<usize>,
    dtype: String,
    scale: f64,
}

impl Golden {
    /// Rebuilds the case in `dir`.
    ///
    /// # Panics
    /// If the folder is no golden.
    pub fn load(dir: &Path) -> Golden {
        let read = |name: &str| {
            std::fs::read(dir.join(name))
                .unwrap_or_else(|e| panic!("{}/{name}: {e}", dir.display()))
        };
        let config_text = String::from_utf8(read("config.json")).expect("UTF-8");
        let recipe: Recipe = serde_json::from_slice(&read("weights.json")).expect("a recipe");
        let seed = recipe.seed.parse().expect("a u64 seed");
        let mut weights: BTreeMap<String, Entry> =
            recipe.tensors.into_iter().map(|t| (t.name.clone(), materialise(seed, &t))).collect();
        let mut recorded = BTreeMap::new();
        for (name, entry) in safetensors::read(&read("golden.safetensors")) {
            match name.strip_prefix("weight:") {
                Some(w) => {
                    assert!(weights.insert(w.to_owned(), entry).is_none(), "{w} occurs twice");
                }
                None => {
                    recorded.insert(name, entry);
                }
            }
        }
        Golden {
            name: dir.file_name().expect("a name").to_string_lossy().into_owned(),
            // Python writes Infinity, which JSON has not.
            config: serde_json::from_str(&config_text.replace("Infinity", "3.4e38"))
                .unwrap_or(Value::Null),
            weights,
            recorded,
            config_text,
            side: SIDE_FILES
                .iter()
                .filter_map(|name| Some((*name, std::fs::read(dir.join(name)).ok()?)))
                .collect(),
        }
    }
    /// Writes the checkpoint as a Hugging Face folder.
    ///
    /// # Panics
    /// If the folder can't be written.
    pub fn write_checkpoint(&self, dir: &Path) -> PathBuf {
        std::fs::create_dir_all(dir).expect("a folder");
        std::fs::write(dir.join("config.json"), &self.config_text).expect("config.json");
        for (name, bytes) in &self.side {
            std::fs::write(dir.join(name), bytes).expect("a side file");
        }
        let mut files: BTreeMap<String, BTreeMap<String, Entry>> = BTreeMap::new();
        let index = self.side.get(INDEX).map(|bytes| serde_json::from_slice::<Value>(bytes));
        let index = index.transpose().expect("an index");
        for (name, entry) in &self.weights {
            let place = index.as_ref().and_then(|index| index["weight_map"][name].as_str());
            let file = files.entry(place.unwrap_or("model.safetensors").to_owned()).or_default();
            file.insert(name.clone(), entry.clone());
        }
        for (name, tensors) in files {
            std::fs::write(dir.join(name), safetensors::write(&tensors)).expect("safetensors");
        }
        dir.to_owned()
    }
    /// Prompt `i`, its logits `[T, vocab]`, the greedy continuation and its margins.
    pub fn prompt(&self, i: usize) -> (Vec<i32>, Vec<f32>, Vec<i32>, Vec<f32>) {
        let get = |kind: &str| &self.recorded[&format!("{kind}_{i}")];
        (
            get("input_ids").i32(),
            get("logits").f32(),
            get("greedy").i32(),
            get("greedy_margin").f32(),
        )
    }
}

fn splitmix64(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3))
}

fn generate(seed: u64, name: &str, count: usize, scale: f32) -> impl Iterator<Item = f32> {
    let key = splitmix64(seed ^ fnv1a64(name.as_bytes()));
    (0..count as u64).map(move |i| {
        let x = splitmix64(key.wrapping_add(i));
        let s = (x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48);
        (s as i64 - 131_070) as f32 * scale
    })
}

fn materialise(seed: u64, t: &Planned) -> Entry {
    let values = generate(seed, &t.name, t.shape.iter().product(), t.scale as f32);
    let (dtype, bytes) = match t.dtype.as_str() {
        "f32" => ("F32", values.flat_map(f32::to_le_bytes).collect()),
        "f16" => ("F16", values.flat_map(|v| f16::from_f32(v).to_le_bytes()).collect()),
        "bf16" => ("BF16", values.flat_map(|v| bf16::from_f32(v).to_le_bytes()).collect()),
        other => panic!("dtype {other}"),
    };
    Entry { dtype: dtype.to_owned(), shape: t.shape.clone(), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format's own test vectors.
    #[test]
    fn recipe_vectors() {
        let q0 = "model.layers.0.self_attn.q_proj.weight";
        let cases = [
            (1, "a", 2.642_901_7e-5, 0, 0x3ddd_4508u32, 0x3ddd, 0x2eea),
            (1, "a", 2.642_901_7e-5, 18_238, 0x3f80_8000, 0x3f80, 0x3c04),
            (12_345_678_901_234_567_890, q0, 4.129_597_6e-6, 15, 0xbd85_a2b8, 0xbd86, 0xac2d),
            (12_345_678_901_234_567_890, q0, 4.129_597_6e-6, 123, 0x384f_d976, 0x3850, 0x033f),
            (u64::MAX, "lm_head.weight", 3.3e-6, 4095, 0x3e86_6172, 0x3e86, 0x3433),
        ];
        for (seed, name, scale, i, bits, b, h) in cases {
            let v = generate(seed, name, i + 1, scale).last().unwrap();
            assert_eq!(v.to_bits(), bits, "{name} {i}");
            assert_eq!(bf16::from_f32(v).to_bits(), b);
            assert_eq!(f16::from_f32(v).to_bits(), h);
        }
    }
}
