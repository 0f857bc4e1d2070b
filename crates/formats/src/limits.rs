//! Bounds on what a file may ask for. A genuine checkpoint stays far below each of them.

/// Axes of a GGUF tensor.
pub const DIMENSIONS: u32 = 4;
/// Arrays within arrays in GGUF metadata.
pub const NESTING: usize = 4;
/// `general.alignment`, in bytes.
pub const ALIGNMENT: u64 = 1 << 20;
/// A safetensors header, in bytes. Headers of 126 MB exist.
pub const SAFETENSORS_HEADER: u64 = 512 << 20;
/// A bundle's header, in bytes.
pub const BUNDLE_HEADER: u64 = 64 << 20;
/// A JSON or template file that is read whole, in bytes. Tokenizers reach 35 MB.
pub const SIDE_FILE: u64 = 256 << 20;
