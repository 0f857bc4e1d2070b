//! `rinfer rm`: deletes models from the cache.
use super::{Environment, Log};
use rinfer::hub::bytes;

/// Delete a model from the cache: rinfer rm hf:owner/repo:Q4_K_M
///
/// Without a quant or file, all that is here of the repository is deleted, unfinished fetches too. Other programs' caches
/// are left alone.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// hf:OWNER/REPO[:QUANT or :FILE][@REVISION], or demo:NAME
    #[arg(value_name = "REF", required = true)]
    models: Vec<String>,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let hub = env.hub()?;
    for model in &args.models {
        let freed = hub.remove(model)?;
        env.say(Log::Warn, format!("deleted {model}: {} are free again", bytes(freed)));
    }
    Ok(())
}
