//! `rinfer serve`: models behind OpenAI's and Anthropic's APIs.
use super::options::{describe, draw_seed, positive};
use super::run::load;
use super::{Environment, Loading, Log, Sampler, Usage, no_model, note};
use rinfer_server::{Config, Models, Served, Server, Stop};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Serve models over HTTP: rinfer serve model.gguf
///
/// OpenAI's routes begin with http://127.0.0.1:8080/v1, and so does Anthropic's /v1/messages.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Models, each a bundle, a GGUF file or a Hugging Face folder, and what requests call it [default: the
    /// file's name without its ending]
    #[arg(value_name = "[NAME=]MODEL")]
    models: Vec<String>,
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
    /// Answers at once
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
    #[command(flatten)]
    sampler: Sampler,
    #[command(flatten)]
    loading: Loading,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    args.sampler.check()?;
    let form = args.sampler.form()?;
    if args.models.is_empty() && env.own.is_none() {
        return Err(no_model().into());
    }
    let names: Vec<Option<&str>> = match &args.models[..] {
        [] => vec![None],
        all => all.iter().map(|model| Some(model.as_str())).collect(),
    };
    let mut models = Vec::new();
    for given in names {
        let (name, path) = named(given, env);
        let mut options = args.loading.load(env);
        options.sequences = args.parallel;
        let model = load(path, options, env)?;
        model.prepare_forms();
        let mut sampling = model.language().sampling.clone();
        // The bound on answers is the server's.
        let bound = sampling.max_tokens;
        args.sampler.apply(&mut sampling);
        sampling.max_tokens = bound;
        sampling.grammar = form.clone();
        env.say(Log::Info, format!("{name}: {}", describe(&sampling)));
        models.push(Served::new(name, model, sampling, args.queue));
    }
    let models = Models::new(models).map_err(|name| {
        Usage(format!("two models are called '{name}': give one another name, as NAME=MODEL"))
    })?;
    let server = Server::bind(args.addr, config(args, env), models, Stop::default())?;
    env.say(Log::Warn, format!("serving on http://{}/v1; Ctrl-C ends it", server.addr()?));
    Ok(server.run()?)
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
        max_tokens: args.sampler.max_tokens,
        strict: args.strict,
        signals: true,
        drain: Duration::from_secs(5),
        log: Arc::new(log),
        ..Config::new(env.seconds, draw_seed)
    }
}

/// What requests call a model, and its path.
fn named<'a>(given: Option<&'a str>, env: &Environment) -> (String, Option<&'a str>) {
    let stem = |path: &Path| {
        let known = path.extension().is_some_and(|e| e == "gguf" || e == "rinf" || e == "exe");
        let name = if known { path.file_stem() } else { path.file_name() };
        name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    match given {
        None => (stem(&env.program), None),
        // A path that has the sign in a folder's name is a path.
        Some(text) => match text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains(['/', '\\']))
        {
            Some((name, path)) => (name.to_owned(), Some(path)),
            None => (stem(Path::new(text)), Some(text)),
        },
    }
}
