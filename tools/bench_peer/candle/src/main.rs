//! candle's side of bench_peer: prefill and decode of a GGUF file, by candle's own models. It takes rinfer bench's arguments
//! and prints its JSON; threads are set by `RAYON_NUM_THREADS`.
#![forbid(unsafe_code)]

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Result, Tensor, bail};
use candle_transformers::models::{quantized_gemma3, quantized_llama, quantized_qwen2};
use std::io::BufReader;
use std::time::Instant;

type Forward = Box<dyn FnMut(&Tensor, usize) -> Result<Tensor>>;

struct Bench {
    forward: Forward,
    vocab: u32,
    state: u32,
}

impl Bench {
    fn open(path: &str) -> Result<Self> {
        let mut file = BufReader::new(std::fs::File::open(path)?);
        let content = Content::read(&mut file)?;
        let family = content.metadata["general.architecture"].to_string()?.clone();
        let vocab = content.metadata["tokenizer.ggml.tokens"].to_vec()?.len() as u32;
        let device = Device::Cpu;
        let forward: Forward = match family.as_str() {
            "llama" => {
                let mut m = quantized_llama::ModelWeights::from_gguf(content, &mut file, &device)?;
                Box::new(move |x, past| m.forward(x, past))
            }
            "qwen2" => {
                let mut m = quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &device)?;
                Box::new(move |x, past| m.forward(x, past))
            }
            "gemma3" => {
                let mut m = quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &device)?;
                Box::new(move |x, past| m.forward(x, past))
            }
            other => bail!("no model for {other} here"),
        };
        Ok(Self { forward, vocab, state: 1 })
    }

    /// Appends `count` tokens, `chunk` at a time, to the `past` ones; candle empties the cache where that is 0.
    fn feed(&mut self, past: usize, count: usize, chunk: usize) -> Result<()> {
        for done in (0..count).step_by(chunk) {
            let len = chunk.min(count - done);
            let tokens: Vec<u32> = (0..len).map(|_| self.token()).collect();
            let tokens = Tensor::from_vec(tokens, (1, len), &Device::Cpu)?;
            (self.forward)(&tokens, past + done)?;
        }
        Ok(())
    }

    fn token(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        self.state % self.vocab
    }

    /// Tokens per second of `count` tokens after `depth`.
    fn measure(&mut self, depth: usize, count: usize, chunk: usize) -> Result<f64> {
        self.feed(0, depth, depth.max(1))?;
        let start = Instant::now();
        self.feed(depth, count, chunk)?;
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str| -> Result<usize> {
        let value = args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)?.parse().ok());
        value.map_or_else(|| bail!("no {name} N"), Ok)
    };
    let (prefill, decode) = (number("--prefill")?, number("--decode")?);
    let (depth, repeat) = (number("--depth")?, number("--repeat")?);
    if number("--parallel")? != 1 {
        bail!("candle's models of GGUF files run one sequence");
    }
    let mut bench = Bench::open(&args[1])?;
    bench.measure(0, 16, 16)?;
    bench.measure(0, 1, 1)?;
    let mut results = Vec::new();
    for (test, tokens, chunk) in [("prefill", prefill, prefill), ("decode", decode, 1)] {
        if tokens > 0 {
            let runs = (0..repeat).map(|_| bench.measure(depth, tokens, chunk));
            let mut runs = runs.collect::<Result<Vec<f64>>>()?;
            runs.sort_by(f64::total_cmp);
            results.push(serde_json::json!({
                "test": test, "tokens": tokens, "tok_per_s": runs[repeat / 2],
            }));
        }
    }
    println!("{}", serde_json::json!({"version": "candle 0.11.1", "results": results}));
    Ok(())
}
