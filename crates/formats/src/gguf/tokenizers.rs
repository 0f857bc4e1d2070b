//! What GGUF calls tokenizers.

/// `tokenizer.ggml.model` of those that merge bytes.
pub const BYTE_LEVEL: &str = "gpt2";
/// The same of those that merge pieces of sentencepiece's.
pub const PIECES: &str = "llama";
/// The same of those that take the likeliest pieces.
pub const LIKELIEST: &str = "t5";
/// The same of those that take the longest pieces of words.
pub const WORDS: &str = "bert";

/// `tokenizer.ggml.pre` of those that merge bytes: a name of each kind, in the order of how many models have
/// it.
pub const PRES: [&str; 17] = [
    "llama-bpe",
    "qwen2",
    "gpt-2",
    "smollm",
    "tekken",
    "gpt-4o",
    "starcoder",
    "refact",
    "falcon",
    "command-r",
    "olmo",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "qwen35",
    "bailingmoe",
    "default",
];
