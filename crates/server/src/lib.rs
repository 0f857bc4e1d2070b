//! The HTTP server: OpenAI's and Anthropic's APIs over the engine's models.
//!
//! A request passes `guard` (who may ask), `body` (what is a request at all) and a dialect's reader
//! ([`fields`]: no field is overlooked), becomes a [`turn::Job`], waits at a [`gate`], and is told by
//! the dialect's [`voice`], whole or as a stream. Nothing here asks the network for anything; the page's user may have
//! a [`Hub`] asked.
#![forbid(unsafe_code)]

mod admin;
mod anthropic;
mod app;
mod base64;
mod body;
mod config;
mod fields;
mod gate;
mod generations;
mod guard;
mod hub;
mod meters;
mod models;
mod openai;
mod openapi;
mod refusal;
mod request;
mod rerank;
mod sampling;
mod serve;
mod shorten;
mod signals;
mod tokens;
mod turn;
mod voice;
mod web;

pub use config::{Config, Log};
pub use hub::{Contents, Fetchable, Hub, Pull, Repository};
pub use models::{Brought, Failure, Keep, Makes, Models, Offer, Plan, Served, Source};
pub use serve::{Server, Stop};
