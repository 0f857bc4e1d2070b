//! Readers of checkpoints: GGUF, safetensors, Hugging Face folders, bundles, and the block formats that
//! their tensors are stored in.
//!
//! Everything here reads bytes that nobody vouches for: counts are checked against the bytes that
//! could hold them before anything is allocated, arithmetic is checked, and an error names the
//! file, the tensor or key, what was found and what was expected.
#![deny(unsafe_code)]

pub mod bundle;
pub mod error;
pub mod executable;
pub mod gguf;
pub mod hf;
pub mod limits;
pub mod map;
mod modules;
pub mod open;
pub mod quant;
mod quantised;
pub mod replace;
pub mod safetensors;
mod shards;
pub mod tensor;

pub use bundle::Bundle;
pub use error::{Cause, Error};
pub use gguf::Gguf;
pub use hf::Folder;
pub use modules::Module;
pub use open::{Checkpoint, open};
pub use quantised::{common, recast, turned};
pub use safetensors::Safetensors;
pub use tensor::{DType, Prepared, Tensor, Weights};
