//! Run open-weight language models in pure Rust: load a file, hold a conversation.
//!
//! ```standalone_crate
//! use rinfer::{Error, Load, Model, Sampling};
//!
//! fn main() -> Result<(), Error> {
//! #   // A folder of this name holds a tiny model, which says nothing that anybody would understand.
//! #   let folder = std::env::temp_dir().join(format!("rinfer-front-page-{}", std::process::id()));
//! #   let golden = rinfer_testkit::Golden::load(&rinfer_testkit::shared::goldens().join("llama3"));
//! #   rinfer_testkit::chat::write_model(&golden, &folder.join("model.gguf"));
//! #   std::env::set_current_dir(&folder)?;
//!     let model = Model::load("model.gguf", Load::default())?;
//!     let mut chat = model.session();
//!     chat.system("Answer in one sentence.");
//!     *chat.sampling() = Sampling { max_tokens: Some(100), seed: 7, ..Sampling::default() };
//!     for piece in chat.say("Why is the sky blue?")? {
//!         print!("{}", piece?);
//!     }
//! #   std::fs::remove_dir_all(folder)?;
//!     Ok(())
//! }
//! ```
//!
//! An answer can be a value of a type that derives [`Schema`]: [`Session::ask`].
//!
//! With tools, and with what is thought, said and called apart:
//!
//! ```no_run
//! use rinfer::{Ask, Delta, Load, Message, Model, Role, Sampling, Tool};
//!
//! # fn main() -> Result<(), rinfer::Error> {
//! let model = Model::load("model.gguf", Load::default())?;
//! let tools = vec![Tool::function("now", "The time.", serde_json::json!({"type": "object"}))];
//! let messages = vec![Message::new(Role::User, "How late is it?")];
//! let ask = Ask { messages, tools, ..Ask::default() };
//! for delta in model.turn(&ask, &Sampling::default())? {
//!     match delta? {
//!         Delta::Reasoning(_) => {}
//!         Delta::Content(text) => print!("{text}"),
//!         Delta::Open { name, .. } => print!("{name}"),
//!         Delta::Arguments { json, .. } => print!("{json}"),
//!         Delta::Close { .. } | Delta::Broken { .. } => println!(),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Vectors of texts, and how well texts answer a question:
//!
//! ```no_run
//! use rinfer::{Embed, Embedder, Input, Load, Prompt, Reranker};
//!
//! # fn main() -> Result<(), rinfer::Error> {
//! let embedder = Embedder::load("embedding-model", Load::default())?;
//! let vector: Vec<f32> = embedder.embed("Why is the sky blue?")?;
//! let how = Embed { prompt: Prompt::Named("document".into()), ..Embed::default() };
//! for found in embedder.embed_all(&["Light scatters.", "Bread rises."].map(Input::Text), &how)? {
//!     println!("{} elements of {} tokens", found.vector.len(), found.tokens);
//! }
//! let reranker = Reranker::load("reranker", Load::default())?;
//! let ranked = reranker.rank("Why is the sky blue?", &["Light scatters.", "Bread rises."], false)?;
//! println!("the best is document {}: {}", ranked[0].index, ranked[0].score);
//! # Ok(())
//! # }
//! ```
//!
//! What is computed of a prompt is kept for whoever begins alike, and a conversation can be written to a file
//! with it: [`Session::save`], [`Model::open_session`].
//!
//! The same request gives the same answer, bit for bit, whatever else the model does at the time,
//! on any number of threads and on every machine: a [`Sampling::seed`] is a promise.
#![forbid(unsafe_code)]

#[cfg(feature = "pull")]
pub mod hub;

pub use rinfer_engine::ask::Confidence;
pub use rinfer_engine::backend::{Kv, Quant};
pub use rinfer_engine::batch::TokenId;
pub use rinfer_engine::embed::{Embed, Embedder, Embedding, Input, Prompt, Ranked, Reranker};
pub use rinfer_engine::error::Error;
pub use rinfer_engine::export;
pub use rinfer_engine::language::Language;
pub use rinfer_engine::load::{Load, Opened};
pub use rinfer_engine::lora::Adapter;
pub use rinfer_engine::model::{Answer, Model};
pub use rinfer_engine::request::{
    Cancel, Chosen, Event, Events, Finish, Progress, Request, RequestError, Usage,
};
pub use rinfer_engine::sample::{Sampling, SamplingError, Think};
pub use rinfer_engine::saved::Restored;
pub use rinfer_engine::session::{Reply, Session};
pub use rinfer_engine::spec::Pool;
pub use rinfer_engine::turn::{Ask, ToolChoice, Turn};
pub use rinfer_grammar::{
    After, Constraint, Field, Grammar, GrammarError, Matcher, Shares, Spacing,
};
pub use rinfer_text::chat::{Message, Role, Tool, ToolCall};
pub use rinfer_text::reply::Delta;
pub use schemars::{self, JsonSchema as Schema};

/// The guides, whose snippets are compiled with these examples.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/library.md")]
    struct Library;
    #[doc = include_str!("../docs/structured-output.md")]
    struct Forms;
    #[doc = include_str!("../docs/embeddings.md")]
    struct Vectors;
}
