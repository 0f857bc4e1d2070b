//! Text in and out: tokenizers, chat templates, and ids back to text.
#![forbid(unsafe_code)]

pub mod chat;
pub mod reply;
pub mod stream;
pub mod template;
pub mod tokenizer;
pub mod tools;

pub use tokenizer::Tokenizer;
