//! The engine: a model as data, executors that run it, and what turns requests into tokens.
#![forbid(unsafe_code)]

pub mod ask;
pub mod backend;
pub mod batch;
pub mod bundle;
pub mod config;
pub mod cpu;
pub mod driver;
pub mod embed;
pub mod engine;
pub mod error;
pub mod export;
pub mod families;
pub mod fit;
pub mod generation;
pub mod language;
pub mod load;
pub mod lora;
pub mod memory;
pub mod model;
pub mod profile;
pub mod request;
pub mod rope;
pub mod sample;
pub mod saved;
mod schedule;
pub mod session;
pub mod size;
pub mod spec;
pub mod state;
pub mod threads;
pub mod turn;
pub mod weights;
