//! GGUF goldens: files that llama.cpp's converter made of golden checkpoints, rebuilt byte for byte
//! from `gguf.json` and `stub.gguf` (`goldens/FORMAT.md`).
use crate::golden::Golden;
use crate::safetensors::Entry;
use half::{bf16, f16};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// One GGUF golden.
pub struct GgufGolden {
    /// What it was made of, with the recorded logits.
    pub golden: Golden,
    /// The file.
    pub bytes: Vec<u8>,
}

#[derive(Deserialize)]
struct Recipe {
    case: String,
    size: usize,
    data: usize,
    sources: Vec<Source>,
    tensors: Vec<Planned>,
}
#[derive(Deserialize)]
struct Source {
    name: String,
    #[serde(default)]
    transpose: bool,
}
#[derive(Deserialize)]
struct Planned {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    offset: usize,
    bytes: usize,
    literal: Option<usize>,
    #[serde(default)]
    rows: Vec<[usize; 4]>,
}

impl GgufGolden {
    /// Rebuilds the file that `dir` describes.
    ///
    /// # Panics
    /// If the folder is no GGUF golden.
    pub fn load(dir: &Path) -> GgufGolden {
        let read = |name| {
            std::fs::read(dir.join(name))
                .unwrap_or_else(|e| panic!("{}/{name}: {e}", dir.display()))
        };
        let recipe: Recipe = serde_json::from_slice(&read("gguf.json")).expect("a recipe");
        let stub = read("stub.gguf");
        let golden = Golden::load(&dir.join(&recipe.case).canonicalize().expect("a case"));
        let mut bytes = vec![0; recipe.size];
        bytes[..recipe.data].copy_from_slice(&stub[..recipe.data]);
        for t in &recipe.tensors {
            let content = match t.literal {
                Some(at) => stub[at..at + t.bytes].to_vec(),
                None => t.rows(&recipe.sources, &golden),
            };
            assert_eq!(content.len(), t.bytes, "{}", t.name);
            bytes[recipe.data + t.offset..][..t.bytes].copy_from_slice(&content);
        }
        GgufGolden { golden, bytes }
    }
    /// Writes the file to `path`.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn write(&self, path: &Path) -> PathBuf {
        std::fs::write(path, &self.bytes).expect("a GGUF file");
        path.to_owned()
    }
}

impl Planned {
    fn rows(&self, sources: &[Source], golden: &Golden) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        for &[source, start, step, count] in &self.rows {
            let source = &sources[source];
            let matrix = &golden.weights[&source.name];
            let values = values(matrix, source.transpose);
            let width = if source.transpose {
                matrix.shape[matrix.shape.len() - 2]
            } else {
                *matrix.shape.last().expect("an axis")
            };
            for row in (0..count).map(|i| start + i * step) {
                for v in &values[row * width..][..width] {
                    match self.kind.as_str() {
                        "f32" => out.extend(v.to_le_bytes()),
                        "f16" => out.extend(f16::from_f32(*v).to_le_bytes()),
                        "bf16" => out.extend(bf16::from_f32(*v).to_le_bytes()),
                        other => panic!("type {other}"),
                    }
                }
            }
        }
        out
    }
}

/// A tensor as f32, its last two axes swapped on demand.
fn values(t: &Entry, transpose: bool) -> Vec<f32> {
    let pairs = || t.bytes.as_chunks::<2>().0.iter();
    let values: Vec<f32> = match t.dtype.as_str() {
        "F32" => t.f32(),
        "F16" => pairs().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        "BF16" => pairs().map(|b| bf16::from_le_bytes(*b).to_f32()).collect(),
        other => panic!("dtype {other}"),
    };
    if !transpose {
        return values;
    }
    let [.., height, width] = t.shape[..] else { panic!("a vector has nothing to transpose") };
    values
        .chunks(height * width)
        .flat_map(|m| (0..width).flat_map(move |c| (0..height).map(move |r| m[r * width + c])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::goldens;

    /// An f32 file holds the checkpoint's own values: rebuilt rows are found where they belong.
    #[test]
    fn rebuilds() {
        for case in ["llama31.f32", "llama31.bf16", "gemma3_text.bf16"] {
            let gguf = GgufGolden::load(&goldens().join("gguf").join(case));
            assert_eq!(&gguf.bytes[..4], b"GGUF", "{case}");
        }
        let gguf = GgufGolden::load(&goldens().join("gguf/llama31.f32"));
        let embedding = values(&gguf.golden.weights["lm_head.weight"], false);
        let bytes: Vec<u8> = embedding.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(&gguf.bytes[6336 + 32..][..bytes.len()], bytes);
    }
}
