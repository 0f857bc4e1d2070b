//! `rinfer eval`: how well a model predicts a text, and how far it is from another.
use super::detokenize::parse_ids;
use super::options::positive;
use super::{Environment, Loading, Usage, piped, put};
use anyhow::Context;
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Slot, Span, TokenId, Want};
use rinfer_engine::load::{Load, Opened};
use rinfer_engine::sample::Logprobs;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Measure how well a model predicts a text: rinfer eval model.gguf --text book.txt
///
/// The text is cut to windows of the context; the second half of each is scored, as llama.cpp's
/// perplexity does.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// The text [default: stdin]
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    text: Option<PathBuf>,
    /// Token ids instead of a text: a JSON list, or an object with a list `ids`
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// With --ids: write the logits of every position, as safetensors
    #[arg(long, value_name = "FILE", requires = "ids")]
    logits: Option<PathBuf>,
    /// With --logits: also write the N tokens that follow greedily
    #[arg(long, value_name = "N", requires = "logits", value_parser = positive)]
    greedy: Option<usize>,
    /// Another model with the same tokens, to be compared with
    #[arg(long, value_name = "MODEL")]
    against: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loading: Loading,
}

const WINDOW: usize = 512;
/// Rows whose logits are computed together.
const ROWS: usize = 32;

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let opened = env.open_adapted(args.model.as_deref(), &args.loading.adapter)?;
    let ids = ids(args, &opened)?;
    anyhow::ensure!(!ids.is_empty(), "there is nothing to compute: the text has no tokens");
    let vocab = opened.spec.vocab;
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
        anyhow::bail!("token id {id}: the vocabulary has ids below {vocab}");
    }
    let mut load = args.loading.load(env);
    if let Some(out) = &args.logits {
        load.context = Some(ids.len().saturating_add(args.greedy.unwrap_or(0)));
        let mut runner = Runner::new(&opened, &load, env)?;
        return write_logits(&mut runner, &ids, args.greedy, out);
    }
    load.context = Some(load.context.unwrap_or(WINDOW.min(opened.spec.context)).min(ids.len()));
    let window = load.context.unwrap_or(WINDOW);
    let mut runner = Runner::new(&opened, &load, env)?;
    let begin = if args.ids.is_none() { opened.language()?.bos.map(|id| id.0) } else { None };
    let windows = windows(&ids, window, begin)?;
    let Some(other) = &args.against else {
        let score = perplexity(&mut runner, &windows)?;
        anyhow::ensure!(
            score.nll.is_finite(),
            "{}: the logits are not finite; a tensor of the file may be damaged",
            opened.name
        );
        return report_one(&score, args);
    };
    let other = env.open(Some(other))?;
    if other.spec.vocab != vocab {
        anyhow::bail!("the vocabularies have {vocab} and {} tokens", other.spec.vocab);
    }
    report_two(&compare(&mut runner, &mut Runner::new(&other, &load, env)?, &windows)?, args)
}

fn ids(args: &Args, opened: &Opened) -> anyhow::Result<Vec<u32>> {
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    if let Some(path) = &args.ids {
        return parse_ids(&read(path)?).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()));
    }
    let text = match &args.text {
        Some(path) => read(path)?,
        None => piped()?.ok_or_else(|| Usage("no text: give --text FILE, or pipe it in".into()))?,
    };
    let ids = opened.language()?.encode(&text);
    Ok(ids.into_iter().map(|id| id.0).collect())
}

/// Whole windows, each with the model's begin token in its first place.
fn windows(ids: &[u32], window: usize, begin: Option<u32>) -> anyhow::Result<Vec<Vec<u32>>> {
    anyhow::ensure!(window >= 4, "the text has {} tokens, which are too few", ids.len());
    let with_begin = |chunk: &[u32]| {
        let mut chunk = chunk.to_vec();
        chunk[0] = begin.unwrap_or(chunk[0]);
        chunk
    };
    Ok(ids.chunks_exact(window).map(with_begin).collect())
}

/// A model that is run position by position.
struct Runner {
    executor: Box<dyn Executor>,
    logits: Logits,
    batch: Batch,
}

impl Runner {
    fn new(opened: &Opened, load: &Load, env: &Environment) -> anyhow::Result<Runner> {
        let limits = super::limits(opened, load, env)?;
        let executor = opened.executor(&load.backend()?, &limits)?;
        let logits = Logits { vocab: opened.spec.vocab, data: Vec::new() };
        Ok(Runner { executor, logits, batch: Batch::default() })
    }

    fn open(&mut self, len: usize) -> anyhow::Result<Slot> {
        let state = self.executor.state();
        let slot = state.open().filter(|slot| state.reserve(*slot, len));
        slot.context("the state has no room")
    }

    /// The logits after each of `ids`, which follow the `past` positions of `slot`.
    fn every(&mut self, slot: Slot, past: usize, ids: &[u32]) -> anyhow::Result<&mut [f32]> {
        self.batch.rows.clear();
        self.batch.seqs.clear();
        self.batch.rows.extend(ids.iter().map(|id| Row::Token(TokenId(*id))));
        self.batch.seqs.push(Span { slot, len: ids.len(), past, want: Want::Every });
        self.executor.forward(&self.batch, &mut self.logits)?;
        Ok(&mut self.logits.data)
    }
}

/// Sums over the scored tokens.
#[derive(Default)]
struct Score {
    tokens: usize,
    nll: f64,
    squares: f64,
}

/// Calls `each` with the target and the logits before it, for every scored position.
fn perplexity(runner: &mut Runner, windows: &[Vec<u32>]) -> anyhow::Result<Score> {
    let mut score = Score::default();
    for window in windows {
        let slot = runner.open(window.len())?;
        let first = window.len() / 2;
        for (chunk, past) in window.chunks(ROWS).zip((0..).step_by(ROWS)) {
            let vocab = runner.logits.vocab;
            let logits = runner.every(slot, past, chunk)?;
            for (row, at) in logits.chunks(vocab).zip(past..) {
                if at >= first && at + 1 < window.len() {
                    let nll = -f64::from(Logprobs::of(row, 0).at(row[window[at + 1] as usize]));
                    score.tokens += 1;
                    score.nll += nll;
                    score.squares += nll * nll;
                }
            }
        }
        runner.executor.state().close(slot);
    }
    Ok(score)
}

impl Score {
    fn mean(&self) -> f64 {
        self.nll / self.tokens.max(1) as f64
    }
    /// The standard error of the perplexity.
    fn error(&self) -> f64 {
        let n = self.tokens.max(2) as f64;
        let variance = self.squares / n - self.mean() * self.mean();
        (variance.max(0.0) / (n - 1.0)).sqrt() * self.mean().exp()
    }
}

fn report_one(score: &Score, args: &Args) -> anyhow::Result<()> {
    let (ppl, error) = (score.mean().exp(), score.error());
    if args.json {
        let json = json!({
            "perplexity": ppl, "error": error, "nll": score.mean(), "tokens": score.tokens,
        });
        return put(&format!("{json:#}\n"));
    }
    put(&format!("perplexity {ppl:.4} ± {error:.4} over {} tokens\n", score.tokens))
}

/// How far one model's predictions are from another's.
#[derive(Default)]
struct Comparison {
    ours: Score,
    theirs: Score,
    kl: Vec<f64>,
    same: usize,
    largest: f64,
}

fn compare(a: &mut Runner, b: &mut Runner, windows: &[Vec<u32>]) -> anyhow::Result<Comparison> {
    let mut c = Comparison::default();
    for window in windows {
        let slots = (a.open(window.len())?, b.open(window.len())?);
        for (chunk, past) in window.chunks(ROWS).zip((0..).step_by(ROWS)) {
            let vocab = a.logits.vocab;
            let ours = a.every(slots.0, past, chunk)?;
            let theirs = b.every(slots.1, past, chunk)?;
            for ((p, q), at) in ours.chunks(vocab).zip(theirs.chunks(vocab)).zip(past..) {
                if at + 1 < window.len() {
                    c.position(p, q, window[at + 1] as usize);
                }
            }
        }
        a.executor.state().close(slots.0);
        b.executor.state().close(slots.1);
    }
    Ok(c)
}

impl Comparison {
    fn position(&mut self, p: &[f32], q: &[f32], target: usize) {
        let (ours, theirs) = (Logprobs::of(p, 1), Logprobs::of(q, 1));
        let mut kl = 0.0;
        for (p, q) in p.iter().zip(q) {
            let (p, q) = (f64::from(ours.at(*p)), f64::from(theirs.at(*q)));
            kl += q.exp() * (q - p);
            self.largest = self.largest.max((p - q).abs());
        }
        self.kl.push(kl);
        self.same += usize::from(ours.top[0].0 == theirs.top[0].0);
        for (score, nll) in [
            (&mut self.ours, -f64::from(ours.at(p[target]))),
            (&mut self.theirs, -f64::from(theirs.at(q[target]))),
        ] {
            score.tokens += 1;
            score.nll += nll;
            score.squares += nll * nll;
        }
    }
}

fn report_two(c: &Comparison, args: &Args) -> anyhow::Result<()> {
    let n = c.kl.len().max(1) as f64;
    let mean = c.kl.iter().sum::<f64>() / n;
    let most = c.kl.iter().copied().fold(0.0, f64::max);
    let same = c.same as f64 / n;
    let (ours, theirs) = (c.ours.mean().exp(), c.theirs.mean().exp());
    if args.json {
        let json = json!({
            "perplexity": ours, "against_perplexity": theirs, "kl_mean": mean, "kl_max": most,
            "top1_agreement": same, "logprob_max_difference": c.largest, "tokens": c.kl.len(),
        });
        return put(&format!("{json:#}\n"));
    }
    put(&format!(
        "perplexity         {ours:.4}, against {theirs:.4}\n\
         KL divergence      mean {mean:.6}, largest {most:.6}\n\
         same best token    {:.2} %\n\
         log-probability    largest difference {:.4}\n\
         over               {} tokens\n",
        same * 100.0,
        c.largest,
        c.kl.len(),
    ))
}

/// Writes `logits` [T, vocab] and `greedy` [N].
fn write_logits(
    runner: &mut Runner,
    ids: &[u32],
    greedy: Option<usize>,
    out: &Path,
) -> anyhow::Result<()> {
    let slot = runner.open(ids.len().saturating_add(greedy.unwrap_or(0)))?;
    let mut logits = Vec::new();
    for (chunk, past) in ids.chunks(ROWS).zip((0..).step_by(ROWS)) {
        logits.extend(runner.every(slot, past, chunk)?.iter().flat_map(|l| l.to_le_bytes()));
    }
    let vocab = runner.logits.vocab;
    let mut next = Vec::new();
    for i in 0..greedy.unwrap_or(0) {
        let last = runner.logits.data.len() - vocab;
        let best = Logprobs::of(&runner.logits.data[last..], 1).top.first().map_or(0, |t| t.0.0);
        next.push(best);
        runner.every(slot, ids.len() + i, &[best])?;
    }
    let greedy_bytes: Vec<u8> = next.iter().flat_map(|id| id.to_le_bytes()).collect();
    let mut header = serde_json::Map::new();
    let end = logits.len();
    let shape = json!([ids.len(), vocab]);
    header
        .insert("logits".into(), json!({"dtype": "F32", "shape": shape, "data_offsets": [0, end]}));
    if greedy.is_some() {
        let offsets = [end, end + greedy_bytes.len()];
        let entry = json!({"dtype": "I32", "shape": [next.len()], "data_offsets": offsets});
        header.insert("greedy".into(), entry);
    }
    let mut header = serde_json::Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, &logits, &greedy_bytes].concat();
    std::fs::write(out, file).with_context(|| out.display().to_string())
}
