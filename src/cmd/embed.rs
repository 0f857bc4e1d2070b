//! `rinfer embed`: texts to vectors.
use super::{Environment, Loading, Log, Usage, piped};
use clap::ValueEnum;
use rinfer_engine::embed::{Embed, Embedder, Embedding, Input, Prompt};
use rinfer_engine::spec::Pool;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Make vectors of texts: rinfer embed path/to/model "first text" "second text"
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Of each text a line of JSON is written: its number, its vector, how many tokens it has, and how many \
    were cut off. Texts come from the command line, then from --file, --lines and --jsonl, in this order; without any, \
    from stdin, one a line."
)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder of an embedding model
    model: Option<String>,
    /// Texts
    texts: Vec<String>,
    /// A file that is one text; may be repeated
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// A file with a text a line; may be repeated
    #[arg(long, value_name = "PATH")]
    lines: Vec<PathBuf>,
    /// A file with a line of JSON a text: a string, or an object with a string `text`; may be repeated
    #[arg(long, value_name = "PATH")]
    jsonl: Vec<PathBuf>,
    /// What goes before each text: the model's prompt of this name, such as query or document
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,
    /// What goes before each text, in words
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt")]
    prompt_text: Option<String>,
    /// Elements that vectors are cut to, for models that were trained for it [default: all]
    #[arg(long, value_name = "N")]
    dimensions: Option<usize>,
    /// Cut texts that are too long, rather than refuse them; how much is told
    #[arg(long)]
    truncate: bool,
    /// Which rows a vector is made of [default: as the model's files say]
    #[arg(long, value_enum)]
    pooling: Option<Pooling>,
    /// Print how similar the texts are to each other, cosines, in place of their vectors
    #[arg(long, conflicts_with = "output")]
    similarity: bool,
    /// Write to this file: an array of NumPy's if it ends with .npy, else lines of JSON
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
}

/// `--pooling`
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Pooling {
    /// The mean of all
    Mean,
    /// The first
    Cls,
    /// The last
    Last,
    /// The largest of each element
    Max,
}

impl Pooling {
    fn pool(self) -> Pool {
        match self {
            Pooling::Mean => Pool::Mean,
            Pooling::Cls => Pool::Cls,
            Pooling::Last => Pool::Last,
            Pooling::Max => Pool::Max,
        }
    }
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let (model, first) = match (&args.model, env.own) {
        // A program with a model of its own takes one word for a text.
        (only, Some(_)) if args.texts.is_empty() => (None, only.as_deref()),
        (model, _) => (model.as_deref(), None),
    };
    let texts = texts(args, first)?;
    let mut opened = env.open_adapted(model, &args.loading.adapter)?;
    if let Some(pooling) = args.pooling {
        opened = opened.pooled(pooling.pool())?;
    }
    let start = Instant::now();
    let embedder = Embedder::of(&opened, &args.loading.load(env))?;
    env.say(Log::Info, format!("weights ready in {:.3} s", start.elapsed().as_secs_f64()));
    let prompt = match (&args.prompt, &args.prompt_text) {
        (Some(name), _) => Prompt::Named(name.clone()),
        (None, Some(text)) => Prompt::Text(text.clone()),
        (None, None) => Prompt::Default,
    };
    let how = Embed { prompt, dimensions: args.dimensions, truncate: args.truncate };
    let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
    let start = Instant::now();
    let all = embedder.embed_all(&inputs, &how)?;
    let (tokens, took): (usize, _) =
        (all.iter().map(|one| one.tokens).sum(), start.elapsed().as_secs_f64());
    let speed = tokens as f64 / took;
    env.say(Log::Info, format!("{tokens} tokens in {took:.3} s: {speed:.0} a second"));
    for (i, one) in all.iter().enumerate().filter(|(_, one)| one.cut > 0) {
        let (cut, whole) = (one.cut, one.cut + one.tokens);
        env.say(Log::Warn, format!("input {i}: {cut} of {whole} tokens were cut off"));
    }
    match &args.output {
        _ if args.similarity => put(std::io::stdout().lock(), similarities(&all).as_bytes()),
        None => put(std::io::stdout().lock(), lines(&all).as_bytes()),
        Some(path) => {
            let array = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"));
            let bytes = if array { npy(&all) } else { lines(&all).into_bytes() };
            let file = std::fs::File::create(path);
            let written = file.map_err(Into::into).and_then(|file| put(file, &bytes));
            written
                .map_err(|e: anyhow::Error| e.context(format!("{}: not written", path.display())))
        }
    }
}

fn put(mut to: impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    to.write_all(bytes)?;
    Ok(to.flush()?)
}

/// All texts, in the order that the help tells.
fn texts(args: &Args, first: Option<&str>) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<String> = first.map(str::to_owned).into_iter().collect();
    all.extend(args.texts.iter().cloned());
    for path in &args.file {
        all.push(read(path)?);
    }
    for path in &args.lines {
        all.extend(read(path)?.lines().map(str::to_owned));
    }
    for path in &args.jsonl {
        for (i, line) in read(path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
        {
            all.push(of_json(line).map_err(|problem| {
                Usage(format!("{}, line {}: {problem}", path.display(), i + 1))
            })?);
        }
    }
    let files = [&args.file, &args.lines, &args.jsonl].into_iter().all(Vec::is_empty);
    if all.is_empty() && files {
        all.extend(piped()?.unwrap_or_default().lines().map(str::to_owned));
        if all.is_empty() {
            let text =
                "no text: give some, name files (--file, --lines, --jsonl), or pipe lines in";
            return Err(Usage(text.into()).into());
        }
    }
    Ok(all)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Usage(format!("{} is not UTF-8: byte {at} can't be read as text", path.display())).into()
    })
}

/// The text of a line of JSON.
fn of_json(line: &str) -> Result<String, String> {
    match serde_json::from_str(line).map_err(|e| e.to_string())? {
        Value::String(text) => Ok(text),
        Value::Object(mut object) => match object.remove("text") {
            Some(Value::String(text)) => Ok(text),
            _ => Err("the object has no string 'text'".into()),
        },
        _ => Err("expected a string, or an object with a string 'text'".into()),
    }
}

/// A line of JSON a text.
fn lines(all: &[Embedding]) -> String {
    let mut out = String::new();
    for (i, one) in all.iter().enumerate() {
        let numbers: Vec<String> = one.vector.iter().map(f32::to_string).collect();
        let head = json!({"tokens": one.tokens, "truncated": one.cut}).to_string();
        let head = head.trim_start_matches('{');
        _ = writeln!(out, "{{\"index\":{i},\"embedding\":[{}],{head}", numbers.join(","));
    }
    out
}

/// An array of NumPy's, `[texts, elements]` of little-endian f32.
/// numpy.org/doc/stable/reference/generated/numpy.lib.format.html
fn npy(all: &[Embedding]) -> Vec<u8> {
    let width = all.first().map_or(0, |one| one.vector.len());
    let shape = format!("({}, {width})", all.len());
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    // Ten bytes come before it, and data begins at a multiple of 64.
    let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.extend(std::iter::repeat_n(' ', len - header.len() - 1));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((len as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(all.iter().flat_map(|one| &one.vector).flat_map(|x| x.to_le_bytes()));
    bytes
}

/// A line a text: the cosines of its angles to all.
fn similarities(all: &[Embedding]) -> String {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut out = String::new();
    for a in all {
        let row = all.iter().map(|b| {
            let lengths = dot(&a.vector, &a.vector) * dot(&b.vector, &b.vector);
            format!("{:7.4}", dot(&a.vector, &b.vector) / lengths.sqrt().max(1e-12))
        });
        _ = writeln!(out, "{}", row.collect::<Vec<_>>().join(" "));
    }
    out
}
