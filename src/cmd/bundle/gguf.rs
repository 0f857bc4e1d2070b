//! A model as a GGUF file, which llama.cpp reads as well.
use crate::cmd::{Environment, Log};
use rinfer_engine::export::{self, Making};
use rinfer_engine::load::Opened;
use std::path::Path;
use std::time::Instant;

/// Writes `opened` to `output`, and says how long that took.
pub fn run(
    opened: &Opened,
    making: &Making,
    output: &Path,
    env: &Environment,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let export::Written { files, unsaid } = export::save(opened, making, output)?;
    let length: u64 = files.iter().filter_map(|f| f.metadata().ok()).map(|file| file.len()).sum();
    let (mb, seconds) = (length as f64 / 1e6, start.elapsed().as_secs_f64());
    let count = if files.len() > 1 { format!(", {} files", files.len()) } else { String::new() };
    let first = files.first().map_or(output, |path| path).display();
    env.say(Log::Warn, format!("{first}: {mb:.1} MB in {seconds:.1} s{count}"));
    for what in unsaid {
        env.say(Log::Warn, format!("note: GGUF does not say all of the tokenizer: {what}"));
    }
    Ok(())
}
