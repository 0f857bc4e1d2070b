//! What tests share: golden checkpoints rebuilt from their recipes, and the folder of checks that
//! are not in the repository.
//!
//! A golden is a tiny random-weight checkpoint with Hugging Face's recorded logits; its big tensors
//! follow from integer arithmetic (`goldens/FORMAT.md`), so only configs and results are stored.
#![forbid(unsafe_code)]

pub mod chat;
pub mod embed;
pub mod gguf;
pub mod gguf_builder;
pub mod golden;
pub mod safetensors;
pub mod serving;
pub mod shared;

pub use golden::Golden;
