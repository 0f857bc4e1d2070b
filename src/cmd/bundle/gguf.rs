//! A model as a GGUF file, which llama.cpp reads as well.
use crate::cmd::{Environment, Log};
use rinfer_engine::backend::Quant;
use rinfer_engine::export;
use rinfer_engine::load::Opened;
use std::path::Path;
use std::time::Instant;

/// Writes `opened` to `output`, and says how long that took.
pub fn run(
    opened: &Opened,
    quant: Quant,
    threads: usize,
    output: &Path,
    env: &Environment,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let length = export::save(opened, quant, threads, output)?;
    let (mb, seconds) = (length as f64 / 1e6, start.elapsed().as_secs_f64());
    env.say(Log::Warn, format!("{}: {mb:.1} MB in {seconds:.1} s", output.display()));
    Ok(())
}
