//! `rinfer bundle`: a model as one file that loads at once.
mod gguf;

use super::options::{adapter, positive, quant};
use super::{Environment, Log, Usage};
use anyhow::Context;
use clap::ValueEnum;
use rinfer_engine::backend::Quant;
use rinfer_engine::bundle::{self, Making};
use rinfer_engine::export;
use rinfer_engine::load::Load;
use rinfer_engine::lora::Adapter;
use rinfer_formats::executable::{self, Program};
use rinfer_formats::{Bundle, Checkpoint};
use std::path::PathBuf;
use std::time::Instant;

/// Pack a model to one file that loads at once: rinfer bundle model.gguf -o model.rinf
///
/// With --into it is a program: rinfer bundle model.gguf --into my-model; ./my-model chats, and does
/// what rinfer does.
///
/// The file serves every processor and gives the very bits that the model gives. It is written
/// beside its name first, so that a bundle is there whole or not at all.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// The bundle to write
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program to write: this one, with the bundle in it
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    into: Option<PathBuf>,
    /// Another platform's rinfer, instead of this one
    #[arg(long, value_name = "FILE", requires = "into")]
    runtime: Option<PathBuf>,
    /// Compare every byte with its checksum: of what was written, or of MODEL
    #[arg(long)]
    verify: bool,
    /// Precision of weights
    #[arg(long, value_name = "QUANT", default_value = "native", value_parser = quant())]
    quant: Quant,
    /// A LoRA adapter to merge into the weights, a folder of PEFT's or a GGUF file of llama.cpp's; may be
    /// repeated
    #[arg(long, value_name = "PATH[=SCALE]", value_parser = adapter)]
    adapter: Vec<Adapter>,
    /// The format of the file to write
    #[arg(long, value_enum, default_value_t = Format::Rinf)]
    to: Format,
    /// Bytes of tensors to a file, such as 500M or 4G, of a GGUF file in several: NAME-00001-of-00003.gguf
    #[arg(long, value_name = "N[M|G]", value_parser = split_size)]
    split_max_size: Option<u64>,
    /// Positions that a GGUF file states, if fewer than the model's: where windows of as many do not
    /// matter, files of families whose readers heed none can be written
    #[arg(long, value_name = "N", value_parser = positive)]
    context: Option<usize>,
    /// What people call the model [default: what its files say]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Under which licence it may be used [default: what its files say]
    #[arg(long, value_name = "TEXT")]
    license: Option<String>,
    /// Threads that pack [default: physical cores within affinity and quota]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
}

/// `--split-max-size`, in llama.cpp's units: a million and a thousand million bytes.
fn split_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let size = digits.parse().ok().and_then(|n: u64| n.checked_mul(unit)).filter(|n| *n > 0);
    size.ok_or_else(|| "give a number of bytes above zero, or such as 500M or 4G".to_owned())
}

/// `--to`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A bundle, which loads at once
    Rinf,
    /// What llama.cpp reads
    Gguf,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let opened = env.open_adapted(args.model.as_deref(), &args.adapter)?;
    let Some(output) = args.output.as_ref().or(args.into.as_ref()) else {
        return match (&opened.files, args.verify) {
            (Checkpoint::Bundle(bundle), true) => verify(bundle, env),
            (_, true) => Err(Usage(format!("--verify: {} is no bundle", opened.name)).into()),
            _ => Err(Usage("nothing to write: give -o FILE or --into FILE".into()).into()),
        };
    };
    let start = Instant::now();
    let load = Load { threads: args.threads, ..Load::default() };
    if args.to == Format::Gguf {
        if args.into.is_some() || args.verify {
            let problem = "--to gguf goes with -o FILE, without --into and --verify";
            return Err(Usage(problem.into()).into());
        }
        let making = export::Making {
            quant: args.quant,
            threads: load.threads()?,
            split: args.split_max_size,
            context: args.context,
        };
        return gguf::run(&opened, &making, output, env);
    }
    if args.context.is_some() {
        let problem = "--context goes with --to gguf: a bundle's is chosen when it is loaded";
        return Err(Usage(problem.into()).into());
    }
    if args.split_max_size.is_some() {
        let problem = "--split-max-size goes with --to gguf: a bundle is one file";
        return Err(Usage(problem.into()).into());
    }
    let making = Making {
        quant: args.quant,
        threads: load.threads()?,
        name: args.name.clone(),
        license: args.license.clone(),
    };
    let length = match &args.into {
        None => bundle::save(&opened, &making, output)?,
        Some(path) => {
            let program = Program::read(args.runtime.as_ref().unwrap_or(&env.program))?;
            bundle::save_into(&opened, &making, &program, path)?
        }
    };
    let written = executable::bundle(output).context("what was just written")?;
    if args.verify {
        verify(&written, env)?;
    }
    let text = format!(
        "{}: {:.1} MB in {:.1} s; {}",
        output.display(),
        length as f64 / 1e6,
        start.elapsed().as_secs_f64(),
        describe(&written),
    );
    env.say(Log::Warn, text);
    Ok(())
}

fn verify(bundle: &Bundle, env: &Environment) -> anyhow::Result<()> {
    bundle.verify()?;
    let (path, tensors) = (bundle.path().display(), bundle.header().tensors.len());
    env.say(Log::Warn, format!("{path}: every checksum is right, of {tensors} tensors"));
    Ok(())
}

/// Which model a bundle holds, and whose terms apply.
pub fn describe(bundle: &Bundle) -> String {
    let text = |key: &str| bundle.model()[key].as_str().unwrap_or("not stated").to_owned();
    format!("{}, licence: {}", text("name"), text("license"))
}
