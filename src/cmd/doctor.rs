//! `rinfer doctor`: what this machine offers, and what is used of it.
use super::{Environment, put};
use rinfer_engine::load::Load;
use rinfer_engine::memory::available;
use rinfer_engine::threads::Processors;
use rinfer_kernels::tier::TIERS;
use serde_json::json;
use std::path::Path;

/// Show what this machine offers: rinfer doctor
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let load = Load { tier: env.tier.clone(), ..Load::default() };
    let (tier, threads) = (load.kernels()?.name, load.threads()?);
    let processors = Processors::detect();
    let usable: Vec<&str> = TIERS.iter().filter(|t| (t.usable)()).map(|t| t.name).collect();
    let memory = available(Path::new("/"));
    if args.json {
        return put(&format!(
            "{:#}\n",
            json!({
                "version": env!("CARGO_PKG_VERSION"), "os": std::env::consts::OS,
                "arch": std::env::consts::ARCH, "tier": tier, "usable_tiers": usable,
                "threads": threads, "processors": processors.allowed,
                "cores": processors.cores, "quota": processors.quota,
                "available_bytes": memory,
                "gpus": [], "gpu_reason": NO_GPU,
            })
        ));
    }
    let gib = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
    let memory = memory.map_or("not known".into(), |n| format!("{:.1} GiB available", gib(n)));
    put(&format!(
        "rinfer   {} on {} {}\ntier     {} (usable: {})\nthreads  {} ({})\nmemory   {memory}\n\
         GPU      none used: {NO_GPU}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        tier,
        usable.join(", "),
        threads,
        processors.reason(),
    ))
}

const NO_GPU: &str = "this version computes on the CPU";
