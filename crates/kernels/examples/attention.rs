//! Times attention: one row at depth 2048 over as many layers as a model has, and a prompt of 512
//! rows. `cargo run --release -p rinfer-kernels --example attention [threads [tier]]`
//!
//! With one thread it is processor time, where the system tells it: the machine may be busy.
use rinfer_kernels::kv::{KvKind, PAGE, Pool};
use rinfer_kernels::ops::{Attend, AttendRow, AttentionScratch, Ctx, attention};
use rinfer_kernels::{Act, Kernels, Mat, Team};
use std::time::Instant;

const DEPTH: usize = 2048;
const PROMPT: usize = 512;
/// Bytes of keys and values, in as many layers as that makes: more than the caches hold.
const BYTES: usize = 64 << 20;

fn main() {
    let mut args = std::env::args().skip(1);
    let threads = args.next().map_or(2, |n| n.parse().expect("a number of threads"));
    let kernels = args.next().map_or(Kernels::best(), |n| Kernels::named(&n).expect("a tier"));
    let ctx = Ctx { team: Team::new(threads), kernels };
    println!("tier {}, {threads} threads", kernels.name);
    for (name, heads, kv_heads, head_dim) in [
        ("SmolLM2", 9, 3, 64),
        ("Gemma 3", 4, 1, 256),
        ("Qwen2.5", 14, 2, 64),
        ("Phi 3", 32, 32, 96),
    ] {
        let scale = 1.0 / (head_dim as f32).sqrt();
        let shape = Attend { heads, kv_heads, head_dim, scale, window: None, softcap: None };
        for kind in [KvKind::F16, KvKind::F32] {
            let mut layers = Layers::new(&ctx, shape, kind);
            let decode = layers.time(1, DEPTH - 1, 40);
            let prompt = layers.time(PROMPT, 0, 2);
            let read = (2 * DEPTH * kv_heads * head_dim * kind.bytes()) as f64;
            let products = (PROMPT * (PROMPT + 1) * heads * head_dim) as f64;
            println!(
                "{name:8} {heads}/{kv_heads}/{head_dim} {kind:?}: decode {:7.1} us, {:4.1} GB/s; \
                 prompt {:6.0} us, {:4.1} G products/s",
                decode * 1e6,
                read / decode * 1e-9,
                prompt * 1e6,
                products / prompt * 1e-9,
            );
        }
    }
}

/// The pages of all layers.
struct Layers<'a> {
    ctx: &'a Ctx,
    shape: Attend,
    pools: Vec<Pool>,
    scratch: AttentionScratch,
    out: Act,
}

impl Layers<'_> {
    fn new(ctx: &Ctx, shape: Attend, kind: KvKind) -> Layers<'_> {
        let pages = DEPTH / PAGE;
        let bytes = pages * Pool::page_bytes(kind, shape.kv_heads, shape.head_dim);
        let pool = |_| Pool::new(kind, shape.kv_heads, shape.head_dim, pages);
        let pools = (0..BYTES.div_ceil(bytes)).map(pool).collect();
        let scratch = AttentionScratch::new(&shape, PROMPT, DEPTH, ctx.team.threads());
        let out = Act::new(PROMPT, shape.heads * shape.head_dim);
        let mut layers = Layers { ctx, shape, pools, scratch, out };
        for past in (0..DEPTH).step_by(PROMPT) {
            layers.time(PROMPT, past, 1);
        }
        layers
    }

    /// Seconds of a layer, on average over `times` passes.
    fn time(&mut self, rows: usize, past: usize, times: usize) -> f64 {
        let Attend { heads, kv_heads, head_dim, .. } = self.shape;
        let wave = |heads: usize, phase: f32| {
            let mut m = Mat::new(rows, heads * head_dim);
            m.data_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 + phase).sin());
            m
        };
        let (q, k, v) = (wave(heads, 0.0), wave(kv_heads, 1.0), wave(kv_heads, 2.0));
        let tables = [(0..(DEPTH / PAGE) as u32).collect()];
        let at: Vec<_> = (0..rows).map(|i| AttendRow { table: 0, pos: past + i }).collect();
        let Layers { ctx, shape, pools, scratch, out } = self;
        let layers = pools.len();
        let clock = Clock::start(ctx.team.threads() == 1);
        for _ in 0..times {
            for pool in &mut *pools {
                attention(ctx, shape, &at, &tables, &q, Some((&k, &v)), pool, scratch, out, true);
            }
        }
        clock.seconds() / (times * layers) as f64
    }
}

/// Processor time of this thread, or the time.
struct Clock(Instant, Option<f64>);

impl Clock {
    fn start(processor: bool) -> Clock {
        Clock(Instant::now(), processor.then(Clock::processor).flatten())
    }
    fn seconds(&self) -> f64 {
        let since = self.1.zip(Clock::processor()).map(|(start, now)| now - start);
        since.unwrap_or_else(|| self.0.elapsed().as_secs_f64())
    }
    fn processor() -> Option<f64> {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(stat.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
    }
}
