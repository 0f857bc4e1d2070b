//! `rinfer run`: one answer to stdout.
use super::options::{describe, draw_seed};
use super::spinner::Spinner;
use super::told::Told;
use super::{
    Environment, Interrupt, Interrupted, Loading, Log, Sampler, Usage, no_model, piped, put,
};
use anyhow::Context;
use rinfer_engine::error::Error;
use rinfer_engine::language::NoTemplate;
use rinfer_engine::load::Load;
use rinfer_engine::model::Model;
use rinfer_engine::request::Finish;
use rinfer_engine::sample::{Sampling, Think};
use rinfer_terminal::Screen;
use serde_json::json;
use std::time::{Duration, Instant};

/// Answer one prompt: rinfer run model.gguf "Why is the sky blue?"
///
/// Piped input is the prompt, or follows it on a new line; one line break at its end is left out.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// What is asked
    prompt: Option<String>,
    /// Go on from the prompt, without the chat template
    #[arg(long)]
    raw: bool,
    /// What the model is told before the prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sampler: Sampler,
    #[command(flatten)]
    loading: Loading,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    args.sampler.check()?;
    let form = args.sampler.form()?;
    let (model, prompt) = env.shift(&args.model, &args.prompt);
    if model.is_none() && env.own.is_none() {
        return Err(no_model().into());
    }
    let prompt = self::prompt(prompt)?;
    let interrupt = Interrupt::install()?;
    let start = Instant::now();
    let model = load_watched(model, args.loading.load(env), env, &interrupt)?;
    let loaded = start.elapsed();
    let mut sampling = model.language().sampling.clone();
    args.sampler.apply(&mut sampling);
    sampling.grammar = form;
    sampling.seed = args.sampler.seed.unwrap_or_else(draw_seed);
    env.say(Log::Info, describe(&sampling));
    let raw = args.raw || falls_back(&model, args, env)?;
    if raw && (sampling.think != Think::Auto || sampling.think_budget.is_some()) {
        let text = "--think and --think-budget need a conversation: leave out --raw, or take a model with a chat template";
        return Err(Usage(text.into()).into());
    }
    let screen = if args.json { Screen::silent() } else { Screen::new(env.terminal, false) };
    let mut told = Told::new(&interrupt, env, screen);
    if raw {
        let mut answer = model.complete(&prompt, &sampling)?;
        told.start(answer.canceller(), answer.progress(), answer.usage().prompt);
        answer.by_ref().try_for_each(|piece| told.piece(piece))?;
        told.end(answer.finish(), answer.usage())?;
    } else {
        let mut session = model.session();
        session.system(args.system.clone().unwrap_or_default());
        *session.sampling() = sampling.clone();
        let mut reply = session.say(prompt)?;
        told.reply(&mut reply)?;
    }
    interrupt.exits();
    report(args, env, &told, &sampling, loaded)
}

/// Whether there is no template to go through; says so.
fn falls_back(model: &Model, args: &Args, env: &Environment) -> anyhow::Result<bool> {
    match &model.language().template {
        Ok(_) => Ok(false),
        Err(NoTemplate::None) if args.system.is_some() => {
            Err(Usage("--system needs a model with a chat template".into()).into())
        }
        Err(NoTemplate::None) => {
            let text = "note: the model has no chat template, so it goes on from the raw prompt";
            env.say(Log::Warn, text);
            Ok(true)
        }
        Err(broken) => Err(Error::NoTemplate(broken.clone())).context("--raw goes without it"),
    }
}

/// Prints what is left to print after the answer.
fn report(
    args: &Args,
    env: &Environment,
    told: &Told,
    sampling: &Sampling,
    loaded: Duration,
) -> anyhow::Result<()> {
    if args.json {
        let timing = &told.timing;
        put(&format!(
            "{:#}\n",
            json!({
                "text": told.text, "thoughts": told.thoughts, "finish": finish_name(told.finish), "seed": sampling.seed,
                "prompt_tokens": told.usage.prompt, "cached_tokens": told.usage.cached,
                "generated_tokens": told.usage.generated, "load_seconds": loaded.as_secs_f64(),
                "prefill_seconds": timing.prefill().as_secs_f64(),
                "decode_seconds": timing.decode().as_secs_f64(),
            })
        ))?;
    } else if !told.text.ends_with('\n') {
        put("\n")?;
    }
    env.say(Log::Info, format!("loaded in {:.2} s; {}", loaded.as_secs_f64(), told.stats()));
    match told.finish {
        Some(Finish::Cancelled) => Err(Interrupted.into()),
        Some(Finish::Length) if sampling.max_tokens != Some(told.usage.generated) => {
            env.say(Log::Warn, "note: the answer ends where the context does; see --context");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Loads a model, saying so.
pub fn load(model: Option<&str>, load: Load, env: &Environment) -> anyhow::Result<Model> {
    loaded(model, load, env, None)
}

/// The same while a person may wait for it.
pub fn load_watched(
    model: Option<&str>,
    load: Load,
    env: &Environment,
    interrupt: &Interrupt,
) -> anyhow::Result<Model> {
    loaded(model, load, env, Some(interrupt))
}

fn loaded(
    model: Option<&str>,
    load: Load,
    env: &Environment,
    interrupt: Option<&Interrupt>,
) -> anyhow::Result<Model> {
    let start = Instant::now();
    let opened = env.open_adapted(model, &load.adapters)?;
    env.say(
        Log::Info,
        format!("{}: opened in {:.3} s", opened.family.name, start.elapsed().as_secs_f64()),
    );
    let start = Instant::now();
    let language = opened.language()?;
    env.say(Log::Info, format!("tokenizer ready in {:.3} s", start.elapsed().as_secs_f64()));
    let start = Instant::now();
    let limits = super::limits(&opened, &load, env)?;
    let label = move || format!("loading, {} s", start.elapsed().as_secs());
    let _spinner = interrupt.and_then(|interrupt| Spinner::start(env, interrupt, label));
    let executor = opened.executor(&load.backend()?, &limits)?;
    env.say(
        Log::Info,
        format!(
            "weights ready in {:.3} s; {} tier, {} threads, context {}",
            start.elapsed().as_secs_f64(),
            load.kernels()?.name,
            load.threads()?,
            limits.context
        ),
    );
    Ok(Model::new(executor, limits, opened.spec.vocab, language, load.clock)?)
}

fn prompt(given: Option<&str>) -> anyhow::Result<String> {
    let piped = piped()?.map(|mut text| {
        let end = text.strip_suffix('\n').map(|t| t.strip_suffix('\r').unwrap_or(t).len());
        text.truncate(end.unwrap_or(text.len()));
        text
    });
    match (given.map(str::to_owned), piped.filter(|text| !text.is_empty())) {
        (Some(prompt), Some(piped)) => Ok(format!("{prompt}\n{piped}")),
        (Some(text), None) | (None, Some(text)) => Ok(text),
        (None, None) => {
            Err(Usage("no prompt: give one after the model, or pipe it in".into()).into())
        }
    }
}

pub fn finish_name(finish: Option<Finish>) -> &'static str {
    match finish {
        Some(Finish::Stop) => "stop",
        Some(Finish::Length) => "length",
        Some(Finish::Cancelled) | None => "cancelled",
    }
}
