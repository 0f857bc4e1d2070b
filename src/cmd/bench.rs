//! `rinfer bench`: how fast prompts are read and answers are written.
use super::options::positive;
use super::{Environment, Loading, Log, put};
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Slot, Span, TokenId, Want};
use rinfer_engine::load::Opened;
use serde_json::json;
use std::time::Instant;

/// Measure a model's speed: rinfer bench model.gguf
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A GGUF file or a Hugging Face folder
    model: String,
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
    /// Runs of each test; the median is reported
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = positive)]
    repeat: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loading: Loading,
}

/// What was measured on.
struct On<'a> {
    model: &'a str,
    tier: &'static str,
    threads: usize,
}

/// Tokens per second, all sequences together.
struct Measured {
    test: &'static str,
    tokens: usize,
    runs: Vec<f64>,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let start = Instant::now();
    let opened = Opened::open(&args.model)?;
    let mut load = args.loading.load(env);
    load.context = Some(args.depth + args.prefill.max(args.decode).max(WARM_UP + 1));
    load.sequences = args.parallel;
    load.positions = load.context.map(|n| n.next_multiple_of(64) * args.parallel);
    let limits = opened.limits(&load)?;
    let executor = opened.executor(&load.backend()?, &limits)?;
    let on = On { model: &args.model, tier: load.kernels()?.name, threads: load.threads()? };
    env.say(Log::Info, format!("loaded in {:.2} s", start.elapsed().as_secs_f64()));
    let mut bench = Bench {
        executor,
        parallel: args.parallel,
        rows: limits.batch,
        vocab: opened.spec.vocab,
        state: 1,
        logits: Logits { vocab: opened.spec.vocab, data: Vec::new() },
    };
    bench.measure(0, WARM_UP, WARM_UP)?;
    bench.measure(0, 1, 1)?;
    let mut results: Vec<Measured> = Vec::new();
    for (test, tokens, chunk) in
        [("prefill", args.prefill, limits.batch), ("decode", args.decode, 1)]
    {
        let runs = (0..args.repeat).map(|_| bench.measure(args.depth, tokens, chunk));
        if tokens > 0 {
            results.push(Measured { test, tokens, runs: runs.collect::<Result<_, _>>()? });
        }
    }
    put(&if args.json { as_json(&results, args, &on) } else { as_markdown(&results, args, &on) })
}

const WARM_UP: usize = 16;

struct Bench {
    executor: Box<dyn Executor>,
    parallel: usize,
    rows: usize,
    vocab: usize,
    /// Of a linear congruential generator of tokens.
    state: u32,
    logits: Logits,
}

impl Bench {
    /// Tokens per second of feeding `tokens` to each sequence, `chunk` at a time, after `depth`.
    fn measure(&mut self, depth: usize, tokens: usize, chunk: usize) -> anyhow::Result<f64> {
        let mut slots = Vec::new();
        for _ in 0..self.parallel {
            let state = self.executor.state();
            let slot = state.open().filter(|slot| state.reserve(*slot, depth + tokens));
            slots.push(slot.ok_or_else(|| anyhow::anyhow!("no room for the test"))?);
        }
        self.feed(&slots, 0, depth, self.rows)?;
        let start = Instant::now();
        self.feed(&slots, depth, tokens, chunk)?;
        let seconds = start.elapsed().as_secs_f64();
        slots.into_iter().for_each(|slot| self.executor.state().close(slot));
        Ok((tokens * self.parallel) as f64 / seconds)
    }

    /// Appends `count` tokens to every slot, which all hold `past`.
    fn feed(
        &mut self,
        slots: &[Slot],
        past: usize,
        count: usize,
        chunk: usize,
    ) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        let mut done = 0;
        while done < count {
            let len = chunk.min(count - done).min(self.rows.div_ceil(slots.len()));
            for together in slots.chunks((self.rows / len).max(1)) {
                batch.rows.clear();
                batch.seqs.clear();
                let want =
                    if done + len == count || chunk == 1 { Want::Last } else { Want::Nothing };
                for slot in together {
                    batch.rows.extend((0..len).map(|_| Row::Token(self.token())));
                    batch.seqs.push(Span { slot: *slot, len, past: past + done, want });
                }
                self.executor.forward(&batch, &mut self.logits)?;
            }
            done += len;
        }
        Ok(())
    }

    fn token(&mut self) -> TokenId {
        self.state = self.state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        TokenId(self.state % self.vocab as u32)
    }
}

impl Measured {
    /// Median, least and most.
    fn figures(&self) -> (f64, f64, f64) {
        let mut sorted = self.runs.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        (middle, sorted[0], sorted[sorted.len() - 1])
    }
}

fn as_json(results: &[Measured], args: &Args, on: &On) -> String {
    let results: Vec<_> = results
        .iter()
        .map(|r| {
            let (median, least, most) = r.figures();
            json!({
                "test": r.test, "tokens": r.tokens, "depth": args.depth, "parallel": args.parallel,
                "threads": on.threads, "tok_per_s": median, "least": least, "most": most,
                "runs": r.runs,
            })
        })
        .collect();
    format!("{:#}\n", json!({"model": on.model, "tier": on.tier, "results": results}))
}

fn as_markdown(results: &[Measured], args: &Args, on: &On) -> String {
    let mut text = format!("{}, {} tier, {} threads\n\n", on.model, on.tier, on.threads);
    text += "| test | tokens | depth | parallel | tok/s | least | most |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|\n";
    for r in results {
        let (median, least, most) = r.figures();
        text += &format!(
            "| {} | {} | {} | {} | {median:.2} | {least:.2} | {most:.2} |\n",
            r.test, r.tokens, args.depth, args.parallel
        );
    }
    text
}
