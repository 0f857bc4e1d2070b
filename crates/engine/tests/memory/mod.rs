//! Checkpoints in memory: a golden's tensors, without writing a file.
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_testkit::Golden;
use rinfer_testkit::safetensors::Entry;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Tensors by name.
pub struct Memory(pub BTreeMap<String, Entry>);

impl Weights for Memory {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let entry = self.0.get(name)?;
        let dtype = match entry.dtype.as_str() {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::Bf16,
            other => panic!("{name} is {other}"),
        };
        let (shape, bytes) = (&entry.shape[..], &entry.bytes[..]);
        Some(Tensor { dtype, shape: shape.into(), bytes: bytes.into() })
    }
    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// Every golden language model of the repository.
pub fn goldens() -> Vec<Golden> {
    let root = std::fs::read_dir(rinfer_testkit::shared::goldens()).expect("goldens");
    let mut folders: Vec<PathBuf> = root.map(|e| e.expect("an entry").path()).collect();
    folders.retain(|f| f.join("config.json").exists() && f.join("weights.json").exists());
    folders.sort();
    assert!(!folders.is_empty());
    folders.iter().map(|f| Golden::load(f)).collect()
}
