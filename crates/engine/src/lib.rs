//! The engine: a model as data, executors that run it, and what turns requests into tokens.
#![forbid(unsafe_code)]

pub mod backend;
pub mod batch;
pub mod config;
pub mod cpu;
pub mod driver;
pub mod engine;
pub mod families;
pub mod request;
pub mod rope;
pub mod sample;
mod schedule;
pub mod size;
pub mod spec;
pub mod state;
pub mod weights;
