//! The server over a socket, on a model that says what it is told to: no weights, no client library.
//! Names of tests begin with the fault, met in other servers, that they are about.
#![allow(clippy::unwrap_used, reason = "tests")]
mod admin;
mod anthropic;
mod client;
mod docs;
mod embeddings;
mod fields;
mod hub;
mod life;
mod limits;
mod models;
mod openai;
mod openapi;
mod responses;
mod rig;
mod rows;
mod web;
