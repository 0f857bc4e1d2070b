//! The command line: parse, run one command, give its exit code. All that the program takes from
//! its environment is read here.
#![forbid(unsafe_code)]

mod cmd;
#[cfg(test)]
mod docs;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cmd::{Environment, Interrupted, Log};
use rinfer_formats::executable::{self, Place};
use rinfer_terminal::{Terminal, neutral};
use rinfer_text::template::DateTime;
use std::hint::black_box;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Run open-weight language models: files, folders and hf:owner/repo on the hub.
#[derive(Parser)]
#[command(version, disable_help_subcommand = true, max_term_width = 100)]
// All of it is a screen of 24 lines.
#[command(help_template = "{about-with-newline}{usage-heading} {usage}\n\n{all-args}")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Say what is done and how long it takes, on stderr
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    Run(cmd::run::Args),
    Chat(cmd::chat::Args),
    Serve(cmd::serve::Args),
    Embed(cmd::embed::Args),
    #[cfg(feature = "pull")]
    Pull(cmd::pull::Args),
    #[cfg(feature = "pull")]
    Models(cmd::models::Args),
    #[cfg(feature = "pull")]
    Rm(cmd::rm::Args),
    Check(cmd::check::Args),
    Bundle(cmd::bundle::Args),
    Inspect(cmd::inspect::Args),
    Bench(cmd::bench::Args),
    Eval(cmd::eval::Args),
    Tokenize(cmd::tokenize::Args),
    Detokenize(cmd::detokenize::Args),
    Doctor(cmd::doctor::Args),
    Completions(cmd::packages::Completions),
    Man(cmd::packages::Man),
}

/// Where a model may be noted that follows this program in its file.
static SLOT: [u8; executable::SLOT] = executable::slot();

fn main() -> ExitCode {
    let result = own().and_then(|(program, own)| {
        let cli = parse(&program, own);
        let env = environment(cli.verbose, program, own)?;
        run(cli.command.unwrap_or_else(|| unasked(&env)), &env)
    });
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<Interrupted>() {
        return ExitCode::from(130);
    }
    if cmd::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {}", neutral(&format!("{error:#}")));
    ExitCode::from(if error.is::<cmd::Usage>() { 2 } else { 1 })
}

fn run(command: Command, env: &Environment) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => cmd::run::run(&args, env),
        Command::Chat(args) => cmd::chat::run(&args, env),
        Command::Serve(args) => cmd::serve::run(&args, env),
        Command::Embed(args) => cmd::embed::run(&args, env),
        #[cfg(feature = "pull")]
        Command::Pull(args) => cmd::pull::run(&args, env),
        #[cfg(feature = "pull")]
        Command::Models(args) => cmd::models::run(&args, env),
        #[cfg(feature = "pull")]
        Command::Rm(args) => cmd::rm::run(&args, env),
        Command::Check(args) => cmd::check::run(&args, env),
        Command::Bundle(args) => cmd::bundle::run(&args, env),
        Command::Inspect(args) => cmd::inspect::run(&args, env),
        Command::Bench(args) => cmd::bench::run(&args, env),
        Command::Eval(args) => cmd::eval::run(&args, env),
        Command::Tokenize(args) => cmd::tokenize::run(&args, env),
        Command::Detokenize(args) => cmd::detokenize::run(&args, env),
        Command::Doctor(args) => cmd::doctor::run(&args, env),
        Command::Completions(args) => cmd::packages::completions(&args, Cli::command()),
        Command::Man(args) => cmd::packages::man(&args, Cli::command()),
    }
}

/// This program's file, and where its own model lies in it.
fn own() -> anyhow::Result<(PathBuf, Option<Place>)> {
    let program = std::env::current_exe().unwrap_or_default();
    // The compiler is not to know what the slot holds: it does not, either.
    match Place::of(black_box(&SLOT)) {
        Ok(place) => Ok((program, place)),
        Err(cause) => Err(rinfer_formats::Error::at(&program, cause).into()),
    }
}

/// The command line. The version names the program's own model, and without one a command is needed.
fn parse(program: &Path, own: Option<Place>) -> Cli {
    let mut command = Cli::command().subcommand_required(own.is_none());
    if let Some(place) = own {
        let model = place.open(program).map(|bundle| cmd::bundle::describe(&bundle));
        let model = model.unwrap_or_else(|error| error.to_string());
        let version = format!("{}, with {model}", env!("CARGO_PKG_VERSION"));
        command = command.version(&*version.leak());
    }
    command = command.arg_required_else_help(own.is_none());
    let matches = command.get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// What a program with a model of its own does when it is just started: it chats with a person, and
/// answers what is piped in.
fn unasked(env: &Environment) -> Command {
    let command = if std::io::stdin().is_terminal() { "chat" } else { "run" };
    let program = env.program.as_os_str();
    let cli = Cli::try_parse_from([program, command.as_ref()]);
    cli.ok().and_then(|cli| cli.command).expect("a command without arguments")
}

/// A variable of the environment that is set to something.
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What the environment asks for.
fn environment(verbose: bool, program: PathBuf, own: Option<Place>) -> anyhow::Result<Environment> {
    let log = match text("RINFER_LOG").as_deref() {
        _ if verbose => Log::Info,
        None | Some("warn") => Log::Warn,
        Some("off" | "error") => Log::Off,
        Some("info" | "debug" | "trace") => Log::Info,
        Some(other) => {
            let text = format!(
                "RINFER_LOG is '{other}': allowed are off, error, warn, info, debug, trace"
            );
            return Err(cmd::Usage(text).into());
        }
    };
    let terminal = terminal();
    Ok(Environment {
        tier: text("RINFER_TIER"),
        api_key: text("RINFER_API_KEY"),
        color: terminal.errors && terminal.colors,
        terminal,
        home: home(),
        history: history(),
        log,
        clock,
        seconds,
        program,
        own,
        #[cfg(feature = "pull")]
        hub,
    })
}

/// What is at the ends of the streams, and what it is to show.
fn terminal() -> Terminal {
    let unable = ["dumb", "cons25", "emacs"];
    let moves = text("TERM").is_none_or(|name| !unable.contains(&name.as_str()));
    #[cfg(windows)]
    let moves = moves && anstyle_query::windows::enable_ansi_colors() != Some(false);
    Terminal {
        input: std::io::stdin().is_terminal(),
        output: std::io::stdout().is_terminal(),
        errors: std::io::stderr().is_terminal(),
        moves,
        colors: moves && text("NO_COLOR").is_none(),
    }
}

/// A variable of the environment that is a path.
fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn home() -> Option<PathBuf> {
    path("HOME").or_else(|| path("USERPROFILE"))
}

/// Where this system's programs keep what was typed; `RINFER_HISTORY` is another file, or `off`.
fn history() -> Option<PathBuf> {
    let system = match std::env::consts::OS {
        "windows" => path("LOCALAPPDATA"),
        "macos" => home().map(|home| home.join("Library/Application Support")),
        _ => path("XDG_STATE_HOME").or_else(|| home().map(|home| home.join(".local/state"))),
    };
    match path("RINFER_HISTORY") {
        Some(off) if off.as_os_str() == "off" => None,
        Some(file) => Some(file),
        None => system.map(|folder| folder.join("rinfer").join("history")),
    }
}

/// Where models are kept, and the way to the hub.
#[cfg(feature = "pull")]
fn hub() -> Result<rinfer::hub::Config, rinfer::hub::Error> {
    use rinfer::hub::{Config, Proxies, Secret, Trust};
    let home = || home().unwrap_or_default();
    let caches = || {
        let system = if cfg!(windows) { path("LOCALAPPDATA") } else { None };
        let folder = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        path("XDG_CACHE_HOME").or(system).unwrap_or_else(|| home().join(folder))
    };
    // Hugging Face's tools keep to .cache on every system.
    let shared = || path("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
    let theirs = path("HF_HOME").unwrap_or_else(|| shared().join("huggingface"));
    let mut config = Config::new(path("RINFER_MODELS").unwrap_or_else(|| caches().join("rinfer")));
    config.others = vec![path("HF_HUB_CACHE").unwrap_or_else(|| theirs.join("hub"))];
    config.others.retain(|other| *other != config.cache);
    config.offline = text("HF_HUB_OFFLINE").is_some_and(|value| {
        ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
    });
    if let Some(endpoint) = text("HF_ENDPOINT") {
        config.route.endpoint = endpoint.trim_end_matches('/').to_owned();
    }
    config.route.token = text("HF_TOKEN").map(|token| Secret::new(&token)).transpose()?;
    let either = |name: &str| text(name).or_else(|| text(&name.to_ascii_lowercase()));
    config.route.proxies = Proxies {
        https: either("HTTPS_PROXY"),
        http: either("HTTP_PROXY"),
        all: either("ALL_PROXY"),
        none: either("NO_PROXY"),
    };
    let folders = std::env::var_os("SSL_CERT_DIR").filter(|value| !value.is_empty());
    config.route.trust = Trust {
        file: path("SSL_CERT_FILE"),
        folders: folders.map(|list| std::env::split_paths(&list).collect()).unwrap_or_default(),
    };
    Ok(config)
}

fn clock() -> DateTime {
    DateTime::from_unix(seconds() as i64)
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
