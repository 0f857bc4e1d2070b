//! What is measured, and the check before it.
use crate::kernels::{self, Kernel, Operands, Run, STREAMS};
use crate::packing::{self, BYTES, Packing, ROWS};
use rinfer_kernels::Team;
use rinfer_kernels::act::Block;
use rinfer_kernels::machine::{dot_peak, read_bandwidth};
use rinfer_kernels::room::{Aligned, Room};
use std::hint::black_box;
use std::time::Instant;

/// Rows, and inputs in blocks of 32.
type Shape = (usize, usize);
/// In 11 KiB, with 7 KiB for eight rows of input.
const HOT: Shape = (32, 18);
/// In 256 MiB.
const COLD: Shape = (209_920, 64);
/// A layer of SmolLM2-135M: q, k and v together; o; gate and up together; down.
const LAYER: [Shape; 4] = [(960, 18), (576, 18), (3072, 18), (576, 48)];
const LAYERS: usize = 30;
const HEAD: Shape = (49_152, 18);
/// Batch rows of a prefill.
const PROMPT: usize = 512;
/// No tile has more batch rows.
const TILE: usize = 8;

/// Checks every kernel, and prints what `what` is.
pub fn run(what: &str, threads: usize) {
    let kernels = kernels::usable();
    for k in &kernels {
        check(k.name, k.packing, &[(k.one, 1), (k.many, k.tile)]);
    }
    let vnni = kernels.iter().any(|k| k.tier == "VNNI");
    if vnni {
        STREAMS.iter().for_each(|(name, packing, one)| check(name, *packing, &[(*one, 1)]));
    }
    let team = Team::new(threads);
    let dots = dot_peak(&team).unwrap_or(0.0) / 1e9;
    let reads = read_bandwidth(&team, 256 << 20) / 1e9;
    println!("{threads} threads at most: {dots:.0} GOP/s of bytes, {reads:.1} GB/s");
    match what {
        "hot" => hot(&team, &kernels),
        "cold" => cold(&team, &kernels),
        "decode" => model(&team, &kernels, 1, 11),
        "prefill" => model(&team, &kernels, PROMPT, 5),
        "streams" if vnni => streams(&team),
        "pack" => pack(),
        _ => println!("no such measurement on this machine: {what}"),
    }
}

/// Panics if sums are not those of the definition; of usable kernels with their tiles.
fn check(name: &str, packing: Packing, runs: &[(Run, usize)]) {
    let blocks = 18;
    let mut state = 1;
    let mut random = move || {
        state = (state * 1_103_515_245 + 12_345) & 0x7fff_ffff_u64;
        (state >> 16) as u8
    };
    let mut file: Vec<u8> = (0..ROWS * blocks * BYTES).map(|_| random()).collect();
    for block in file.as_chunks_mut::<BYTES>().0 {
        // Halves between 1 and 2 in magnitude.
        [block[1], block[3]] = [block[1], block[3]].map(|high| high & 0x83 | 0x3c);
    }
    let rows: Vec<Vec<Block>> =
        (0..TILE).map(|_| (0..blocks).map(|_| block(&mut random)).collect()).collect();
    let mut packed = vec![0; file.len()];
    packing.pack(&file, blocks, &mut packed);
    for &(run, tile) in runs {
        let x: Vec<Block> =
            (0..blocks).flat_map(|b| rows[..tile].iter().map(move |row| row[b])).collect();
        let mut out = [[0.0; ROWS]; TILE];
        let (weights, out_at) = (packed.as_ptr(), out.as_mut_ptr());
        // SAFETY: the tier is usable; 16 rows and a tile of this many blocks.
        unsafe { run(Operands { weights, x: x.as_ptr(), blocks, out: out_at }) };
        for (r, out) in out[..tile].iter().enumerate() {
            for (n, sum) in out.iter().enumerate() {
                let (exact, size) =
                    packing::dot(&file[n * blocks * BYTES..][..blocks * BYTES], &rows[r]);
                let error = (f64::from(*sum) - exact).abs() / size;
                assert!(error < 1e-6, "{name}: {sum} at {r}, {n} is {exact}");
            }
        }
    }
}

/// 32 inputs.
fn block(random: &mut impl FnMut() -> u8) -> Block {
    let q: [i8; 32] = std::array::from_fn(|_| (random() as i8).max(-127));
    let sum: i32 = q.iter().map(|q| i32::from(*q)).sum();
    let scale = f32::from(random()) / 256.0;
    Block { q, scale, fsum: scale * sum as f32, ..Block::default() }
}

/// Input of so many rows and blocks.
fn input(rows: usize, blocks: usize) -> Vec<Block> {
    let mut i = 0;
    let mut next = || {
        i += 1;
        (i % 251) as u8
    };
    (0..rows * blocks).map(|_| block(&mut next)).collect()
}

/// Bytes of a matrix, the same in every packing.
fn bytes((rows, blocks): Shape) -> usize {
    rows * blocks * BYTES
}

/// Any bytes are weights in any packing; these make small scales.
fn filled(mut weights: Aligned) -> Aligned {
    weights.bytes_mut().fill(0x2c);
    weights
}

/// As [`filled`], in huge pages.
fn weights(len: usize) -> Aligned {
    filled(Room::new(len).take(len))
}

/// Weight bytes of a task, and input bytes of rows that panels pass by together: as rinfer has them.
const TASK: std::ops::RangeInclusive<usize> = 8 << 10..=256 << 10;
const CHUNK: usize = 128 << 10;

/// All sums of a matrix and `batch` rows, by a kernel and its tile.
fn product(
    team: &Team,
    (run, tile): (Run, usize),
    weights: &[u8],
    (rows, blocks): Shape,
    (x, batch): (&[Block], usize),
) {
    let group = ROWS * blocks * BYTES;
    let share = (bytes((rows, blocks)) / (16 * team.threads())).clamp(*TASK.start(), *TASK.end());
    let each = (share / group).max(1);
    let groups = rows / ROWS;
    let chunk = (CHUNK / (32 * blocks)).next_multiple_of(tile);
    assert!(
        weights.len() >= groups * group && x.len() >= batch * blocks && batch.is_multiple_of(tile)
    );
    team.run(|worker| {
        worker.phase(groups.div_ceil(each), |task| {
            let mut out = [[0.0; ROWS]; TILE];
            for from in (0..batch).step_by(chunk) {
                for g in task * each..groups.min((task + 1) * each) {
                    for row in (from..batch.min(from + chunk)).step_by(tile) {
                        let weights = weights[g * group..].as_ptr();
                        let x = x[row * blocks..].as_ptr();
                        // SAFETY: the tier is usable; the group and the tile are within bounds, by
                        // the assertion.
                        unsafe { run(Operands { weights, x, blocks, out: out.as_mut_ptr() }) };
                        black_box(&mut out);
                    }
                }
            }
        });
    });
}

/// What runs a kernel: of one batch row or of more.
fn of(kernel: &Kernel, batch: usize) -> (Run, usize) {
    if batch == 1 { (kernel.one, 1) } else { (kernel.many, kernel.tile) }
}

/// Medians of the seconds that each case takes, in turn.
fn medians(rounds: usize, cases: &[Box<dyn Fn() + '_>]) -> Vec<f64> {
    let mut seconds = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, seconds) in cases.iter().zip(&mut seconds) {
            let start = Instant::now();
            case();
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let median = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    seconds.into_iter().map(median).collect()
}

/// Times every kernel with 1 and 8 batch rows, and prints what `line` makes of the seconds.
fn both(
    kernels: &[Kernel],
    rounds: usize,
    case: impl Fn(&Kernel, usize),
    line: impl Fn(usize, f64) -> String,
) {
    let batches = [1, 8];
    let case = &case;
    let each = |k| batches.map(|batch| Box::new(move || case(k, batch)) as Box<dyn Fn() + '_>);
    let cases: Vec<_> = kernels.iter().flat_map(each).collect();
    let seconds = medians(rounds, &cases);
    for (kernel, seconds) in kernels.iter().zip(seconds.chunks_exact(2)) {
        let [one, many] = [0, 1].map(|i| line(batches[i], seconds[i]));
        println!("{:20} {} | 1 row {one} | 8 rows {many}", kernel.name, kernel.tier);
    }
}

fn hot(team: &Team, kernels: &[Kernel]) {
    const TIMES: usize = 2000;
    let (weights, x) = (weights(bytes(HOT)), input(8, HOT.1));
    let case = |kernel: &Kernel, batch| {
        let run = of(kernel, batch);
        (0..TIMES).for_each(|_| product(team, run, weights.bytes(), HOT, (&x, batch)));
    };
    both(kernels, 31, case, |batch, seconds| {
        let ops = 2 * HOT.0 * HOT.1 * 32 * batch * TIMES;
        format!("{:6.1} GOP/s", ops as f64 / seconds / 1e9)
    });
}

fn cold(team: &Team, kernels: &[Kernel]) {
    let (weights, x) = (weights(bytes(COLD)), input(8, COLD.1));
    let case = |kernel: &Kernel, batch| {
        product(team, of(kernel, batch), weights.bytes(), COLD, (&x, batch));
    };
    both(kernels, 11, case, |_, seconds| {
        let (rate, rows) = (bytes(COLD) as f64 / seconds / 1e9, COLD.0 as f64 / seconds / 1e6);
        format!("{rate:5.1} GB/s, {rows:5.2} M rows/s")
    });
}

/// All products of a step with `batch` rows, of which the head sees the last.
fn model(team: &Team, kernels: &[Kernel], batch: usize, rounds: usize) {
    let layer: usize = LAYER.into_iter().map(bytes).sum();
    let weights = weights(LAYERS * layer + bytes(HEAD));
    let x = input(batch, 48);
    let step = |kernel: &Kernel| {
        let mut rest = weights.bytes();
        for shape in (0..LAYERS).flat_map(|_| LAYER) {
            product(team, of(kernel, batch), rest, shape, (&x, batch));
            rest = &rest[bytes(shape)..];
        }
        product(team, of(kernel, 1), rest, HEAD, (&x, 1));
    };
    let step = &step;
    let cases: Vec<Box<dyn Fn() + '_>> =
        kernels.iter().map(|k| Box::new(move || step(k)) as Box<dyn Fn() + '_>).collect();
    println!("{:.1} MB of weights", weights.bytes().len() as f64 / 1e6);
    for (kernel, seconds) in kernels.iter().zip(medians(rounds, &cases)) {
        let rate = batch as f64 / seconds;
        println!("{:20} {} | {rate:6.0} tokens/s of products alone", kernel.name, kernel.tier);
    }
}

/// One batch row, cold, in huge pages and in small ones.
fn streams(team: &Team) {
    let x = input(1, COLD.1);
    let (huge, small) = (weights(bytes(COLD)), filled(Aligned::zeroed(bytes(COLD))));
    let pages = [&huge, &small];
    let each = |(_, _, run)| {
        let x = &x;
        pages.map(|weights| {
            let case = move || product(team, (run, 1), weights.bytes(), COLD, (x, 1));
            Box::new(case) as Box<dyn Fn() + '_>
        })
    };
    let cases: Vec<_> = STREAMS.into_iter().flat_map(each).collect();
    let seconds = medians(21, &cases);
    for ((name, ..), seconds) in STREAMS.iter().zip(seconds.chunks_exact(2)) {
        let [huge, small] = [0, 1].map(|i| bytes(COLD) as f64 / seconds[i] / 1e9);
        println!("{name:30} | huge pages {huge:5.1} GB/s | small pages {small:5.1} GB/s");
    }
}

/// One thread, from memory to memory.
fn pack() {
    let (rows, blocks) = (COLD.0 / 4, COLD.1);
    let len = bytes((rows, blocks));
    let (file, mut out) = (weights(len), weights(len));
    let group = ROWS * blocks * BYTES;
    let packings = [Packing::Split, Packing::Canonical, Packing::Eight, Packing::Sixteen];
    for packing in packings {
        let mut seconds: Vec<f64> = (0..11)
            .map(|_| {
                let start = Instant::now();
                let out = out.bytes_mut().chunks_exact_mut(group);
                for (file, out) in file.bytes().chunks_exact(group).zip(out) {
                    packing.pack(file, blocks, out);
                }
                start.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let rate = len as f64 / seconds[seconds.len() / 2] / 1e9;
        println!("{packing:?}: {rate:.1} GB/s of weights");
    }
}
