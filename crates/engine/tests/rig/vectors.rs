//! Goldens that make vectors of texts: their texts, and what a model makes of them.
use super::{Memory, embedding_root};
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Span, TokenId, Want};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::CpuExecutor;
use rinfer_engine::spec::{Head, ModelSpec, Pool};
use rinfer_engine::weights::Checkpoint;
use rinfer_testkit::Golden;
use std::path::PathBuf;

/// Of which every golden has as many positions.
pub const CONTEXT: usize = 100;

/// Every one of the repository.
pub fn goldens() -> Vec<Golden> {
    let root = std::fs::read_dir(embedding_root()).expect("goldens");
    let mut folders: Vec<PathBuf> = root.map(|e| e.expect("an entry").path()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders.iter().map(|f| Golden::load(f)).collect()
}

/// A head that does no more.
pub fn head(how: Pool, normalise: bool) -> Head {
    Head::Pool { how, dense: Vec::new(), normalise, scores: false }
}

/// The golden's texts, without what fills them up.
pub fn texts(golden: &Golden) -> Vec<Vec<i32>> {
    let (ids, mask) = (golden.recorded["input_ids"].i32(), golden.recorded["attention_mask"].i32());
    let width = golden.recorded["input_ids"].shape[1];
    let rows = ids.chunks(width).zip(mask.chunks(width));
    let real = |(ids, mask): (&[i32], &[i32])| {
        ids.iter().zip(mask).filter(|(_, real)| **real == 1).map(|(id, _)| *id).collect()
    };
    rows.map(real).collect()
}

/// A golden's model with another head.
pub fn with_model<T>(
    golden: &Golden,
    head: &Head,
    run: impl FnOnce(&ModelSpec, &Checkpoint<'_>) -> T,
) -> T {
    let weights = Memory(golden.weights.clone());
    let config = Config::new(golden.config.clone(), Source::HuggingFace);
    let mut model =
        Checkpoint::open(config, &weights).unwrap_or_else(|e| panic!("{}: {e}", golden.name));
    model.spec.head = head.clone();
    run(&model.spec.clone(), &model)
}

/// The vectors of some texts, in one batch.
pub fn vectors(executor: &mut CpuExecutor, texts: &[&[i32]]) -> Vec<f32> {
    of_rows(executor, texts, Row::Token)
}

/// The same of tokens as such rows.
pub fn of_rows(executor: &mut CpuExecutor, texts: &[&[i32]], row: fn(TokenId) -> Row) -> Vec<f32> {
    let mut batch = Batch::default();
    for ids in texts {
        let slot = executor.state().open().expect("a free slot");
        assert!(executor.state().reserve(slot, ids.len()), "no room");
        batch.rows.extend(ids.iter().map(|id| row(TokenId(*id as u32))));
        batch.seqs.push(Span { slot, len: ids.len(), past: 0, want: Want::Last });
    }
    let mut out = Logits::default();
    executor.forward(&batch, &mut out).expect("a forward");
    batch.seqs.iter().for_each(|span| executor.state().close(span.slot));
    assert_eq!(out.data.len(), texts.len() * out.vocab);
    out.data
}
