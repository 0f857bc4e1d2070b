//! The command line: parse, run one command, give its exit code. All that the program takes from
//! its environment is read here.
#![forbid(unsafe_code)]

mod cmd;

use clap::{Parser, Subcommand};
use cmd::{Environment, Interrupted, Log};
use rinfer_text::template::DateTime;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::SystemTime;

/// Run open-weight language models, in one program without C.
#[derive(Parser)]
#[command(version, disable_help_subcommand = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say what is done and how long it takes, on stderr
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    Run(cmd::run::Args),
    Chat(cmd::chat::Args),
    Inspect(cmd::inspect::Args),
    Bench(cmd::bench::Args),
    Eval(cmd::eval::Args),
    Tokenize(cmd::tokenize::Args),
    Detokenize(cmd::detokenize::Args),
    Doctor(cmd::doctor::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = environment(cli.verbose).and_then(|env| match cli.command {
        Command::Run(args) => cmd::run::run(&args, &env),
        Command::Chat(args) => cmd::chat::run(&args, &env),
        Command::Inspect(args) => cmd::inspect::run(&args, &env),
        Command::Bench(args) => cmd::bench::run(&args, &env),
        Command::Eval(args) => cmd::eval::run(&args, &env),
        Command::Tokenize(args) => cmd::tokenize::run(&args, &env),
        Command::Detokenize(args) => cmd::detokenize::run(&args, &env),
        Command::Doctor(args) => cmd::doctor::run(&args, &env),
    });
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<Interrupted>() {
        return ExitCode::from(130);
    }
    if cmd::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    ExitCode::from(if error.is::<cmd::Usage>() { 2 } else { 1 })
}

/// What the environment asks for.
fn environment(verbose: bool) -> anyhow::Result<Environment> {
    let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
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
    Ok(Environment {
        tier: text("RINFER_TIER"),
        color: std::io::stderr().is_terminal() && text("NO_COLOR").is_none(),
        log,
        clock,
    })
}

fn clock() -> DateTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    DateTime::from_unix(now.as_secs() as i64)
}
