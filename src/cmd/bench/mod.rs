//! `rinfer bench`: how fast prompts are read and answers are written.
mod measure;
mod report;
mod roofline;
mod table;

use super::options::positive;
use super::{Environment, Loading, Log, Usage, put, tensors};
use anyhow::anyhow;
use measure::{Bench, Measured, Test};
use rinfer_engine::backend::Backend;
use rinfer_engine::error::Error;
use rinfer_kernels::Team;
use rinfer_kernels::kv::PAGE;
use std::time::Instant;

/// Measure a model's speed: rinfer bench model.gguf
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// Tokens of the prompt; 0 leaves this test out
    #[arg(long, value_name = "N", default_value_t = 512)]
    prefill: usize,
    /// Tokens of the answer; 0 leaves this test out
    #[arg(long, value_name = "N", default_value_t = 128)]
    decode: usize,
    /// Tokens that are in the context before either test
    #[arg(long, value_name = "D", default_value_t = 0)]
    depth: usize,
    /// Sequences at once
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = positive)]
    parallel: usize,
    /// Runs of each test
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = positive)]
    repeat: usize,
    /// Show where the time goes, by kind of operation
    #[arg(long)]
    profile: bool,
    /// Show how near this comes to what the machine can read and multiply, each measured before
    /// and after every run, of which the better counts. Takes 256 MiB more
    #[arg(long)]
    roofline: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loading: Loading,
}

/// What was measured, and on what.
struct On<'a> {
    args: &'a Args,
    /// What the model's file is called.
    model: String,
    backend: String,
    tier: &'static str,
    threads: usize,
    /// Bytes of the file's tensors.
    bytes: usize,
    parameters: usize,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    if args.prefill == 0 && args.decode == 0 {
        let problem = "nothing to measure: --prefill and --decode are both 0";
        return Err(Usage(problem.into()).into());
    }
    let start = Instant::now();
    let mut load = args.loading.load(env);
    if load.context.is_some() {
        let problem = "--context is no option of bench: --depth, --prefill and --decode make it";
        return Err(Usage(problem.into()).into());
    }
    let opened = env.open_adapted(args.model.as_deref(), &load.adapters)?;
    load.context = Some(context(args));
    load.sequences = args.parallel;
    load.positions =
        load.context.map(|n| n.div_ceil(PAGE).saturating_mul(PAGE).saturating_mul(args.parallel));
    let limits = opened.limits(&load).map_err(explain)?;
    let backend = load.backend()?;
    let executor = opened.executor(&backend, &limits)?;
    let on = On {
        args,
        model: opened.name.clone(),
        backend: backend.name().to_uppercase(),
        tier: load.kernels()?.name,
        threads: load.threads()?,
        bytes: tensors(&opened).map(|t| t.bytes).sum(),
        parameters: tensors(&opened).map(|t| t.shape.iter().product::<usize>()).sum(),
    };
    env.say(Log::Info, format!("loaded in {:.2} s", start.elapsed().as_secs_f64()));
    let mut bench = Bench::new(executor, args.parallel, limits.batch, opened.spec.vocab);
    for (name, short, tokens) in [("prefill", "pp", WARM_UP), ("decode", "tg", 1)] {
        bench.run(&Test { name, short, tokens, depth: 0 })?;
    }
    bench.counts = args.profile || args.roofline;
    bench.machine = args.roofline.then(|| Team::new(on.threads));
    let mut results: Vec<Measured> = Vec::new();
    for (name, short, tokens) in [("prefill", "pp", args.prefill), ("decode", "tg", args.decode)] {
        let test = Test { name, short, tokens, depth: args.depth };
        let runs = (0..args.repeat).map(|_| bench.run(&test));
        if tokens > 0 {
            let runs = runs.collect::<Result<_, _>>()?;
            results.push(Measured { test, runs });
        }
    }
    put(&if args.json { report::json(&results, &on) } else { report::markdown(&results, &on) })
}

/// Positions that a sequence takes.
fn context(args: &Args) -> usize {
    args.depth.saturating_add(args.prefill.max(args.decode).max(WARM_UP + 1))
}

/// Names the flags that the context comes from.
fn explain(error: Error) -> anyhow::Error {
    match error {
        Error::Option { option: "context", .. } => {
            anyhow!("{error}: lower --depth, --prefill or --decode")
        }
        error => error.into(),
    }
}

const WARM_UP: usize = 16;
