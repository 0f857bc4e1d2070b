//! `rinfer serve`: models behind OpenAI's and Anthropic's APIs.
mod files;
#[cfg(feature = "pull")]
mod hub;
mod offering;
mod offers;

use super::options::{draw_seed, positive};
use super::{Environment, Loading, Log, Sampler, Usage, no_model, note};
use anyhow::Context;
use offering::Offering;
use offers::Named;
use rinfer_engine::memory;
use rinfer_server::{Config, Keep, Models, Server, Source, Stop};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Serve models over HTTP: rinfer serve model.gguf
///
/// OpenAI's routes begin with http://127.0.0.1:8080/v1, and so does Anthropic's /v1/messages. A single model
/// is loaded at the start; of several, each when it is first asked for, and the longest idle ones make room
/// within --memory, which is then what all may take together.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Models, each a bundle, a GGUF file or a Hugging Face folder, what requests call it [default: the
    /// file's name without its ending], and adapters that are merged into it: NAME=MODEL+ADAPTER,
    /// NAME,OTHER=MODEL
    #[arg(value_name = "[NAME=]MODEL")]
    given: Vec<String>,
    /// Serve the models in this folder, by their paths in it without endings
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Load all models at the start
    #[arg(long)]
    preload: bool,
    /// How long a model that nobody uses stays loaded, such as 5m, or seconds; below 0 is until its memory
    /// is needed
    #[arg(long, value_name = "TIME", default_value = "-1", allow_negative_numbers = true)]
    keep_alive: Keep,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// A key that requests must have, which an address that other machines reach needs; may be repeated
    /// [default: RINFER_API_KEY]
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// Let web pages of this origin ask, such as https://app.example, or * for all; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// Answer to this name of the machine, too; may be repeated
    #[arg(long, value_name = "NAME")]
    host_name: Vec<String>,
    /// Save here what models keep of requests when they are unloaded and at the end, and begin with it
    #[arg(long, value_name = "FOLDER")]
    sessions: Option<PathBuf>,
    /// Answers at once, each as long as the context as far as memory has room
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = positive)]
    parallel: usize,
    /// Answers that may wait for their turn
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue: usize,
    /// Bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = super::options::bytes)]
    max_body: usize,
    /// Refuse fields that no API documents
    #[arg(long)]
    strict: bool,
    /// Let whoever has a key load and unload models, and list and end answers: /admin/…
    #[arg(long)]
    admin: bool,
    /// Serve a page to chat on, and to get models on, at /
    #[arg(long)]
    web: bool,
    #[command(flatten)]
    sampler: Sampler,
    #[command(flatten)]
    loading: Loading,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    args.sampler.check()?;
    let form = args.sampler.form()?;
    let all = named(args, env)?;
    if let Some(folder) = &args.sessions {
        // Not at the end, when what is kept would be lost.
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--sessions {}", folder.display()))?;
    }
    let single = all.len() == 1;
    let (mut config, mut load) = (config(args, env), args.loading.load(env));
    load.sequences = args.parallel;
    // Where there may be several, one makes room for another.
    if !single || args.web {
        load.memory = load.memory.or_else(|| memory::available(Path::new("/")));
        config.memory = load.memory;
    }
    let (sampler, sessions, env) = (args.sampler.clone(), args.sessions.clone(), env.clone());
    let offering = Offering { load, sampler, form, sessions, queue: args.queue, env };
    let mut offers = Vec::new();
    let mut firsts = Vec::new();
    for (named, checked) in all {
        let source = offering.files(named);
        if checked && !single {
            Source::plan(&source).map_err(|failure| anyhow::anyhow!(failure.whole))?;
        }
        firsts.push(source.named.names[0].clone());
        offers.push(offering.offer(source));
    }
    #[cfg(feature = "pull")]
    if args.web {
        config.hub = Some(Arc::new(hub::Hub::new(&offering)?));
    }
    let models = Models::new(offers, &config).map_err(|name| {
        Usage(format!("two models are called '{name}': give one another name, as NAME=MODEL"))
    })?;
    for name in firsts.iter().filter(|_| single || args.preload) {
        models.load(name).map_err(|failure| anyhow::anyhow!(failure.whole))?;
    }
    let server = Server::bind(args.addr, config, models, Stop::default())?;
    let addr = server.addr()?;
    let page = if args.web { format!(", with a page at http://{addr}") } else { String::new() };
    offering.env.say(Log::Warn, format!("serving on http://{addr}/v1{page}; Ctrl-C ends it"));
    server.run();
    Ok(())
}

/// What is served, and whether its files must be good: those of a folder are seen to when they are asked for.
/// A server with a page may begin with none, and one on a folder that is still empty.
fn named(args: &Args, env: &Environment) -> anyhow::Result<Vec<(Named, bool)>> {
    let mut all = Vec::new();
    for text in &args.given {
        let mut named = offers::given(Some(text), env)?;
        named.resolve(env)?;
        all.push((named, true));
    }
    if let Some(folder) = &args.models {
        let found = offers::folder(folder, &mut |text| env.say(Log::Warn, text))?;
        if found.is_empty() {
            let text = format!("--models {}: there is no model in it", folder.display());
            env.say(Log::Warn, text);
        }
        all.extend(found.into_iter().map(|named| (named, false)));
    }
    if all.is_empty() && env.own.is_some() {
        all.push((offers::given(None, env)?, true));
    }
    if all.is_empty() && args.models.is_none() && !args.web {
        return Err(no_model().into());
    }
    Ok(all)
}

fn config(args: &Args, env: &Environment) -> Config {
    let (color, level) = (env.color, env.log);
    let log = move |text: &str| {
        if level == Log::Info || (text.starts_with("error") && level == Log::Warn) {
            note(color, text);
        }
    };
    let keys = if args.api_key.is_empty() {
        env.api_key.iter().cloned().collect()
    } else {
        args.api_key.clone()
    };
    Config {
        keys,
        hosts: args.host_name.clone(),
        origins: args.origin.clone(),
        max_body: args.max_body,
        keep_alive: args.keep_alive,
        admin: args.admin,
        web: args.web,
        max_tokens: args.sampler.max_tokens,
        strict: args.strict,
        signals: true,
        drain: Duration::from_secs(5),
        log: Arc::new(log),
        ..Config::new(env.seconds, draw_seed)
    }
}
