//! How fast matrix products are: GB/s of weights for one row, GOP/s for a batch, beside what the
//! machine's memory and multipliers can do.
//!
//! `cargo run --release -p rinfer-kernels --example matmul -- [--threads N] [--tier NAME] [--layout NAME]
//! [--batch M] [--stream MIB]
//! [--rounds N]`
//!
//! Every figure is the best of many short rounds in which all cases take turns: what the code can do
//! when nothing else runs.
use rinfer_kernels::layout::{Layout, Packed};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{Ctx, Linear, linear};
use rinfer_kernels::room::{Aligned, Room};
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Inputs of the matrix that no cache holds.
const STREAM_COLS: usize = 4096;
/// A matrix of a small model, for batches.
const BATCH_SHAPE: [usize; 2] = [256, 2048];

struct Options {
    threads: usize,
    tier: Option<String>,
    layout: Option<String>,
    batch: usize,
    stream: usize,
    rounds: usize,
}

fn options() -> Options {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options =
        Options { threads, tier: None, layout: None, batch: 512, stream: 64, rounds: 30 };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().unwrap_or_else(|| panic!("{name} needs a value"));
        match name.as_str() {
            "--threads" => options.threads = value.parse().expect("a number of threads"),
            "--batch" => options.batch = value.parse().expect("a number of rows"),
            "--stream" => options.stream = value.parse().expect("a number of MiB"),
            "--rounds" => options.rounds = value.parse().expect("a number of rounds"),
            "--tier" => options.tier = Some(value),
            "--layout" => options.layout = Some(value),
            _ => panic!(
                "{name} is no option: --threads, --tier, --layout, --batch, --stream, --rounds"
            ),
        }
    }
    options
}

/// One line of the report.
struct Case {
    layout: Layout,
    kernels: &'static Kernels,
    stream: Packed,
    batch: Packed,
    /// Seconds, a round each.
    times: [Vec<f64>; 2],
}

fn main() {
    let options = options();
    let chosen = |filter: &Option<String>, name: &str| filter.as_ref().is_none_or(|f| f == name);
    let mut cases = Vec::new();
    for layout in Layout::ALL {
        if !chosen(&options.layout, &format!("{layout:?}")) {
            continue;
        }
        let row = Packed::size(layout, 16, STREAM_COLS) / 16;
        let stream = packed(layout, (options.stream << 20) / row / 16 * 16, STREAM_COLS);
        let batch = packed(layout, BATCH_SHAPE[0], BATCH_SHAPE[1]);
        for kernels in TIERS.iter().filter(|t| (t.usable)() && chosen(&options.tier, t.name)) {
            // The scalar tier is the definition, and takes minutes.
            if kernels.name != "scalar" || options.tier.is_some() {
                let (stream, batch) = (stream.clone(), batch.clone());
                cases.push(Case { layout, kernels, stream, batch, times: Default::default() });
            }
        }
    }
    let (mut read, mut peak) = (Vec::new(), Vec::new());
    let mut buffer = room(options.stream.max(1) << 20);
    buffer.bytes_mut().fill(1);
    for _ in 0..options.rounds {
        read.push(read_rate(&options, &buffer));
        peak.push(peak::rate(options.threads));
        for case in &mut cases {
            let mut ctx = Ctx { team: Team::new(options.threads), kernels: case.kernels };
            case.times[0].push(time(&mut ctx, &case.stream, 1, 1));
            if options.batch > 0 {
                case.times[1].push(time(&mut ctx, &case.batch, options.batch, 1));
            }
        }
    }
    let (read, peak) = (1e-9 / best(&read), 1e-9 / best(&peak));
    println!("{} threads: reads {read:.1} GB/s, multiplies {peak:.0} GOP/s", options.threads);
    println!("layout tier         1 row GB/s       {} rows GOP/s", options.batch);
    for case in &cases {
        let gb = case.stream.bytes().len() as f64 / best(&case.times[0]) / 1e9;
        let (layout, tier) = (format!("{:?}", case.layout), case.kernels.name);
        print!("{layout:6} {tier:12} {gb:6.1} {:4.0}%", 100.0 * gb / read);
        if options.batch > 0 {
            let operations = 2 * BATCH_SHAPE[0] * BATCH_SHAPE[1] * options.batch;
            let gop = operations as f64 / best(&case.times[1]) / 1e9;
            print!("     {gop:7.1} {:4.0}%", 100.0 * gop / peak);
        }
        println!();
    }
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Memory as a model's weights are in.
fn room(bytes: usize) -> Aligned {
    Room::new(bytes).take(bytes)
}

/// Weights of all the same byte: a small number wherever it is part of a scale.
fn packed(layout: Layout, rows: usize, cols: usize) -> Packed {
    let mut data = room(Packed::size(layout, rows, cols));
    data.bytes_mut().fill(0x2c);
    Packed::from_bytes(layout, rows, cols, Arc::new(data)).expect("the size it needs")
}

fn time(ctx: &mut Ctx, weights: &Packed, rows: usize, repeats: usize) -> f64 {
    let mut x = Act::new(rows, weights.cols());
    for (i, x) in x.f32_mut().data_mut().iter_mut().enumerate() {
        *x = (i % 17) as f32 - 8.0;
    }
    x.quantise(ctx);
    let mut out = Mat::new(rows, weights.rows());
    // Touches the output's pages and wakes the team.
    out.data_mut().fill(1.0);
    ctx.team.run(|worker| worker.phase(2, |_| {}));
    let start = Instant::now();
    for _ in 0..repeats {
        linear(
            ctx,
            &mut x,
            &mut [Linear { weights, bias: None, store: Store::Set, out: &mut out }],
        );
    }
    black_box(out.data());
    start.elapsed().as_secs_f64() / repeats as f64
}

/// Seconds to a byte that the threads read from memory.
fn read_rate(options: &Options, buffer: &Aligned) -> f64 {
    const TASK: usize = 256 << 10;
    let team = Team::new(options.threads);
    let tasks = buffer.bytes().chunks_exact(TASK);
    let start = Instant::now();
    team.run(|worker| {
        worker.phase(tasks.len(), |i| {
            let words = buffer.bytes()[i * TASK..][..TASK].as_chunks::<8>().0;
            let mut sums = [0u64; 16];
            for words in words.chunks_exact(16) {
                for (sum, word) in sums.iter_mut().zip(words) {
                    *sum ^= u64::from_ne_bytes(*word);
                }
            }
            black_box(sums);
        });
    });
    start.elapsed().as_secs_f64() / buffer.bytes().len() as f64
}

/// What the multipliers can do: dots of registers, as each tier's inner loops use them.
mod peak {
    use std::time::Instant;

    const TURNS: usize = 1 << 19;
    /// Independent sums, which hide the instructions' latency.
    const SUMS: usize = 10;

    /// Seconds to an operation of `threads` threads.
    pub fn rate(threads: usize) -> f64 {
        let team = rinfer_kernels::Team::new(threads);
        let start = Instant::now();
        team.run(|worker| worker.phase(threads, |_| one()));
        start.elapsed().as_secs_f64() / (threads * TURNS * SUMS * 2 * lanes()) as f64
    }

    /// Products to an instruction.
    fn lanes() -> usize {
        if vnni() { 64 } else { 32 }
    }

    #[cfg(target_arch = "x86_64")]
    fn vnni() -> bool {
        is_x86_feature_detected!("avx512vnni")
    }

    #[cfg(target_arch = "x86_64")]
    fn one() {
        if vnni() {
            // SAFETY: the CPU has it.
            unsafe { avx512() }
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has it.
            unsafe { avx2() }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn avx512() {
        use std::arch::x86_64::*;
        let (mut sums, w) = ([_mm512_setzero_si512(); SUMS], _mm512_set1_epi8(3));
        let x = std::hint::black_box(_mm512_set1_epi8(5));
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, w, x);
            }
        }
        std::hint::black_box(sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2() {
        use std::arch::x86_64::*;
        let (mut sums, w) = ([_mm256_setzero_si256(); SUMS], _mm256_set1_epi8(3));
        let mut x = std::hint::black_box(_mm256_set1_epi8(5));
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(w, x));
                // Opaque and free, so that the products are not moved out of the loop.
                // SAFETY: no instruction.
                unsafe { std::arch::asm!("", inout("ymm0") x) };
            }
        }
        std::hint::black_box(sums);
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn vnni() -> bool {
        false
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn one() {}
}
