//! What tests of running models share: goldens as checkpoints in memory, and a loaded model that
//! is fed by prompts.
#![allow(dead_code, reason = "each test file uses a part")]
pub mod vectors;

use rinfer_engine::backend::{Executor, Kv, Limits, Quant};
use rinfer_engine::batch::{Batch, Logits, Row, Slot, Span, TokenId, Want};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::{Cpu, CpuExecutor};
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_kernels::Kernels;
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
            "I32" => DType::I32,
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

/// Where those lie that make vectors of texts.
pub fn embedding_root() -> PathBuf {
    rinfer_testkit::shared::goldens().join("embed")
}

/// What a golden's prompts fit into.
pub const LIMITS: Limits = Limits {
    slots: 4,
    context: 128,
    positions: 512,
    batch: 64,
    kv: Kv::F32,
    quant: Quant::F32,
    keep: false,
    resident: None,
};

/// As the files are loaded for use.
pub const NATIVE: Limits = Limits { kv: Kv::F16, quant: Quant::Native, ..LIMITS };

/// With state in 8 bits.
pub const EIGHT: Limits = Limits { kv: Kv::Q8, ..NATIVE };

/// A loaded model.
pub struct Rig {
    pub executor: CpuExecutor,
    pub vocab: usize,
}

impl Rig {
    /// A golden's checkpoint, on two threads of the best tier.
    pub fn golden(golden: &Golden, limits: &Limits) -> Rig {
        Rig::golden_on(golden, limits, 2, Kernels::best())
    }
    pub fn golden_on(
        golden: &Golden,
        limits: &Limits,
        threads: usize,
        tier: &'static Kernels,
    ) -> Rig {
        let weights = Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        Rig::load(&Checkpoint::open(config, &weights).expect("a model"), limits, threads, tier)
    }
    pub fn load(
        checkpoint: &Checkpoint<'_>,
        limits: &Limits,
        threads: usize,
        tier: &'static Kernels,
    ) -> Rig {
        let executor = Cpu::new(threads, tier).executor(&checkpoint.spec, checkpoint, limits);
        Rig { executor: executor.expect("a loadable model"), vocab: checkpoint.spec.vocab }
    }
    pub fn open(&mut self) -> Slot {
        self.executor.state().open().expect("a free slot")
    }
    /// A sequence that begins with so many tokens.
    pub fn begin(&mut self, prompt: usize) -> Slot {
        let slot = self.open();
        self.executor.state().begin(slot, prompt);
        slot
    }
    pub fn close(&mut self, slot: Slot) {
        self.executor.state().close(slot);
    }
    /// Leaves what a sequence holds to later ones.
    pub fn keep(&mut self, slot: Slot, ids: &[i32]) {
        self.executor.state().keep(slot, &tokens(ids));
    }
    /// A sequence with so long a prompt that begins with what is kept of `ids`, and how many that are.
    pub fn resume(&mut self, prompt: usize, ids: &[i32]) -> (Slot, usize) {
        let slot = self.begin(prompt);
        (slot, self.executor.state().resume(slot, &tokens(ids)))
    }
    /// What is kept, as bytes.
    pub fn save(&mut self, of: Option<&[i32]>) -> Vec<u8> {
        let (of, mut bytes) = (of.map(tokens), Vec::new());
        self.executor.state().save(of.as_deref(), &mut bytes).expect("memory");
        bytes
    }
    /// One batch of several sequences' next tokens; the wanted rows' logits.
    pub fn forward(&mut self, parts: &[(Slot, &[i32], Want)]) -> Vec<f32> {
        let mut batch = Batch::default();
        for (slot, ids, want) in parts {
            let past = self.executor.state().len(*slot);
            assert!(self.executor.state().reserve(*slot, past + ids.len()), "no room");
            batch.rows.extend(ids.iter().map(|id| Row::Token(TokenId(*id as u32))));
            batch.seqs.push(Span { slot: *slot, len: ids.len(), past, want: *want });
        }
        let mut out = Logits::default();
        self.executor.forward(&batch, &mut out).expect("a forward");
        assert_eq!(out.vocab, self.vocab);
        out.data
    }
    /// The same, all rows' logits.
    pub fn batch(&mut self, parts: &[(Slot, &[i32])]) -> Vec<f32> {
        let parts: Vec<_> = parts.iter().map(|(slot, ids)| (*slot, *ids, Want::Every)).collect();
        self.forward(&parts)
    }
    /// Feeds `ids` in chunks; all rows' logits.
    pub fn feed(&mut self, slot: Slot, ids: &[i32], chunk: usize) -> Vec<f32> {
        ids.chunks(chunk).flat_map(|c| self.batch(&[(slot, c)])).collect()
    }
    /// All rows' logits of a new sequence, which is closed again.
    pub fn run(&mut self, ids: &[i32], chunk: usize) -> Vec<f32> {
        let slot = self.begin(ids.len());
        let logits = self.feed(slot, ids, chunk);
        self.close(slot);
        logits
    }
    /// The best token after `ids`, and so on.
    pub fn greedy(&mut self, ids: &[i32], count: usize) -> Vec<i32> {
        let slot = self.begin(ids.len());
        let mut logits = self.feed(slot, ids, 64);
        let mut picked = Vec::new();
        for _ in 0..count {
            let last = &logits[logits.len() - self.vocab..];
            picked.push(best(last) as i32);
            logits = self.feed(slot, &picked[picked.len() - 1..], 1);
        }
        self.close(slot);
        picked
    }
}

pub fn tokens(ids: &[i32]) -> Vec<TokenId> {
    ids.iter().map(|id| TokenId(*id as u32)).collect()
}

/// The index of the largest, the lowest of equals.
pub fn best(logits: &[f32]) -> usize {
    (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).expect("logits")
}

/// The largest difference.
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Fails at the first element whose bits differ, naming its row.
pub fn assert_bits(a: &[f32], b: &[f32], vocab: usize, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let differ = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(i) = differ {
        panic!("{what}: row {}, token {}: {} is not {}", i / vocab, i % vocab, a[i], b[i]);
    }
}

/// A GGUF file's model.
pub fn open_gguf(gguf: &rinfer_formats::Gguf) -> Checkpoint<'_> {
    let config = Config::new(gguf.config().expect("hyper-parameters"), Source::Gguf);
    Checkpoint::open(config, gguf).unwrap_or_else(|e| panic!("{}: {e}", gguf.path().display()))
}

/// `Σ p ln(p/q)` of two rows of logits.
pub fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let (p, q) = (log_softmax(p), log_softmax(q));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// Natural logarithms of the probabilities.
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let top = f64::from(logits.iter().copied().fold(f32::MIN, f32::max));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - top).exp()).sum();
    logits.iter().map(|x| f64::from(*x) - top - sum.ln()).collect()
}
