//! `rinfer pull`: a model from the hub into the cache.
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{Environment, put};
use serde_json::json;

/// Fetch a model from the hub: rinfer pull hf:owner/repo:Q4_K_M
///
/// Prints where it is. Fetching goes on where it was interrupted; what is here already is not fetched again, and what the hub
/// has anew is. `rinfer models hf:owner/repo` lists what there is to fetch.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// hf:OWNER/REPO[:QUANT or :FILE][@REVISION], or demo:NAME
    #[arg(value_name = "REF", required = true)]
    models: Vec<String>,
    /// Print JSON, a line for each model
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let _interrupt = Interrupt::install()?;
    let hub = env.hub()?;
    for model in &args.models {
        let here = hub.pull(model, &Progress::new(env))?;
        if !args.json {
            put(&format!("{}\n", here.path.display()))?;
            continue;
        }
        let file = |file: &rinfer::hub::Entry| json!({"path": file.path, "bytes": file.size, "digest": file.digest.map(|d| d.to_string())});
        let files: Vec<_> = here.choice.files.iter().map(file).collect();
        let repo = here.repo.to_string();
        let line = json!({
            "reference": model, "path": here.path, "repository": repo, "commit": here.commit, "quant": here.choice.tag,
            "files": files,
        });
        put(&format!("{line}\n"))?;
    }
    Ok(())
}
