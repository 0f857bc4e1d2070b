//! Mixers with a state: near their definitions in f64; and the same bits on every tier, at every
//! thread count and any cut of a sequence, beside other sequences or alone, copies of the state
//! included.
use rinfer_kernels::mat::Seen;
use rinfer_kernels::ops::*;
use rinfer_kernels::{Kernels, Mat, TIERS, Team};

/// A small generator of numbers within -1..1.
struct Random(u64);
impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    fn vec(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
    fn mat(&mut self, rows: usize, cols: usize) -> Mat {
        let mut m = Mat::new(rows, cols);
        m.data_mut().fill_with(|| self.next());
        m
    }
}

fn ctx(threads: usize, kernels: &'static Kernels) -> Ctx {
    Ctx { team: Team::new(threads), kernels }
}

/// Rows of all inputs, those of `at` of sequence 0, then of sequence 1.
fn gather(inputs: &[Mat], at: &[(usize, std::ops::Range<usize>)]) -> Vec<Mat> {
    let rows: Vec<usize> =
        at.iter().flat_map(|(s, r)| r.clone().map(move |r| s * ROWS + r)).collect();
    let pick = |m: &Mat| {
        let mut out = Mat::new(rows.len(), m.cols());
        rows.iter().enumerate().for_each(|(i, r)| out.row_mut(i).copy_from_slice(m.row(*r)));
        out
    };
    inputs.iter().map(pick).collect()
}

/// Rows to a sequence, of which there are two.
const ROWS: usize = 13;
/// Floats before an operation's part of a cell.
const AT: usize = 3;
/// Cells of the two sequences, and one for a copy.
const CELLS: [usize; 3] = [2, 0, 3];

/// One operation: context, runs, inputs, cells, output.
type Op<'a> = &'a dyn Fn(&Ctx, &[Run], &[Mat], &mut Mat, &mut Mat);

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Both sequences, cut so; the outputs of both, one after the other, and all cells.
fn run(
    ctx: &Ctx,
    op: Op<'_>,
    inputs: &[Mat],
    floats: usize,
    cols: usize,
    cuts: &[usize],
    together: bool,
) -> (Mat, Mat) {
    let mut cells = Mat::new(4, AT + floats);
    cells.data_mut().fill(f32::NAN);
    let mut all = Mat::new(2 * ROWS, cols);
    let mut from = 0;
    for until in cuts.iter().copied().chain([ROWS]) {
        let n = until - from;
        let mark = (from < 7 && 7 < until).then(|| Mark { after: 7 - from, cell: CELLS[2] });
        let of = |s: usize, row| Run {
            row,
            rows: n,
            past: from,
            cell: CELLS[s],
            mark: mark.filter(|_| s == 0),
        };
        let batches = match together {
            true => vec![vec![(0, of(0, 0)), (1, of(1, n))]],
            false => vec![vec![(1, of(1, 0))], vec![(0, of(0, 0))]],
        };
        for batch in batches {
            let at: Vec<_> = batch.iter().map(|(s, _)| (*s, from..until)).collect();
            let runs: Vec<Run> = batch.iter().map(|(_, run)| *run).collect();
            let mut out = Mat::new(2 * ROWS, cols);
            op(ctx, &runs, &gather(inputs, &at), &mut cells, &mut out);
            assert_eq!(out.rows(), n * runs.len());
            for (s, run) in &batch {
                for i in 0..n {
                    all.row_mut(s * ROWS + from + i).copy_from_slice(out.row(run.row + i));
                }
            }
        }
        from = until;
    }
    (all, cells)
}

/// What the scalar tier makes of both sequences at once, after holding everything else against it.
fn check(op: Op<'_>, inputs: &[Mat], floats: usize, cols: usize) -> Mat {
    let scalar = ctx(1, TIERS.last().expect("the scalar tier"));
    let (want, cells) = run(&scalar, op, inputs, floats, cols, &[], true);
    for tier in TIERS.iter().filter(|t| (t.usable)()) {
        for (threads, cuts, together) in
            [(1, &[][..], true), (3, &[1, 6, 9], true), (2, &[1, 2, 3, 4, 5, 6, 8, 12], false)]
        {
            let got = run(&ctx(threads, tier), op, inputs, floats, cols, cuts, together);
            let what = format!("{}, {threads} threads, cut at {cuts:?}", tier.name);
            assert!(bits(got.0.data()) == bits(want.data()), "{what}");
            for cell in CELLS {
                assert!(bits(&got.1.row(cell)[AT..]) == bits(&cells.row(cell)[AT..]), "{what}");
                assert!(got.1.row(cell)[..AT].iter().all(|x| x.is_nan()), "{what}");
            }
            // The copy is the state that seven rows leave.
            let seven: Vec<Mat> = gather(inputs, &[(0, 0..7)]);
            let start = Run { row: 0, rows: 7, past: 0, cell: 0, mark: None };
            let (mut state, mut out) = (Mat::new(1, AT + floats), Mat::new(7, cols));
            op(&scalar, &[start], &seven, &mut state, &mut out);
            assert!(bits(&got.1.row(CELLS[2])[AT..]) == bits(&state.row(0)[AT..]), "{what}: copy");
        }
    }
    want
}

fn near(got: &Mat, want: impl Fn(usize, usize) -> Vec<f64>) {
    for s in 0..2 {
        for r in 0..ROWS {
            for (x, want) in got.row(s * ROWS + r).iter().zip(want(s, r)) {
                let x = f64::from(*x);
                assert!((x - want).abs() <= 1e-5 * (1.0 + want.abs()), "{s}, {r}: {x}, {want}");
            }
        }
    }
}

fn row(m: &Mat, s: usize, r: usize) -> Vec<f64> {
    m.row(s * ROWS + r).iter().map(|x| f64::from(*x)).collect()
}
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn convolutions() {
    for (channels, width, silu, with_bias, gated) in [
        (1, 4, true, true, false),
        (40, 4, true, false, false),
        (150, 3, false, true, true),
        (32, 2, false, false, false),
    ] {
        let mut random = Random(channels as u64);
        let inputs: Vec<Mat> = (0..3).map(|_| random.mat(2 * ROWS, channels)).collect();
        let (weights, bias) = (random.vec(width * channels), random.vec(channels));
        let how = Conv { weights: &weights, bias: with_bias.then_some(&bias), width, silu };
        let op = |ctx: &Ctx, runs: &[Run], x: &[Mat], cells: &mut Mat, out: &mut Mat| {
            conv(ctx, &how, runs, &x[0], gated.then_some((&x[1], &x[2])), (cells, AT), out);
        };
        let got = check(&op, &inputs, Conv::floats(width, channels), channels);
        near(&got, |s, r| {
            let value = |c: usize| {
                let taps = (0..width).filter(|j| r + j + 1 >= width).map(|j| {
                    let at = r + j + 1 - width;
                    let gate = if gated { row(&inputs[1], s, at)[c] } else { 1.0 };
                    f64::from(weights[j * channels + c]) * row(&inputs[0], s, at)[c] * gate
                });
                let y = taps.sum::<f64>() + if with_bias { f64::from(bias[c]) } else { 0.0 };
                let y = if silu { y * sigmoid(y) } else { y };
                if gated { y * row(&inputs[2], s, r)[c] } else { y }
            };
            (0..channels).map(value).collect()
        });
    }
}

#[test]
fn selective_scans() {
    for (channels, state) in [(5, 3), (32, 8), (147, 16)] {
        let mut random = Random(state as u64);
        let (x, mut step) = (random.mat(2 * ROWS, channels), random.mat(2 * ROWS, channels));
        step.data_mut().iter_mut().for_each(|x| *x = x.abs());
        let inputs = [x, step, random.mat(2 * ROWS, state), random.mat(2 * ROWS, state)];
        let rates: Vec<f32> = random.vec(state * channels).iter().map(|x| -4.0 * x.abs()).collect();
        let skip = random.vec(channels);
        let how = Selective { state, rates: &rates, skip: &skip };
        let op = |ctx: &Ctx, runs: &[Run], x: &[Mat], cells: &mut Mat, out: &mut Mat| {
            let seen = |i: usize| Seen::from(&x[i]);
            let (x, step, write, read) = (seen(0), seen(1), seen(2), seen(3));
            let input = SelectiveInput { x, step, write, read };
            selective(ctx, &how, runs, input, (cells, AT), out);
        };
        let got = check(&op, &inputs, state * channels, channels);
        near(&got, |s, r| {
            let mut h = vec![0.0; state * channels];
            let mut y = Vec::new();
            for r in 0..=r {
                let [x, step, write, read] = [0, 1, 2, 3].map(|i| row(&inputs[i], s, r));
                y = (0..channels).map(|c| f64::from(skip[c]) * x[c]).collect();
                for i in 0..state {
                    for c in 0..channels {
                        let h = &mut h[i * channels + c];
                        *h *= (step[c] * f64::from(rates[i * channels + c])).exp();
                        *h += step[c] * x[c] * write[i];
                        y[c] += *h * read[i];
                    }
                }
            }
            y
        });
    }
}

#[test]
fn linear_states() {
    for (heads, values, keys, groups, full) in
        [(4, 16, 8, 2, true), (3, 24, 5, 1, true), (2, 150, 16, 2, false), (2, 64, 32, 1, true)]
    {
        let mut random = Random(values as u64);
        let (v, mut gates) = (heads * values, random.mat(2 * ROWS, heads));
        gates.data_mut().iter_mut().for_each(|x| *x = x.abs());
        let inputs =
            [random.mat(2 * ROWS, v + 2 * groups * keys), gates, random.mat(2 * ROWS, heads)];
        let (skip, fixed) = (random.vec(heads), random.vec(heads));
        let skip = full.then_some(&skip[..]);
        let how = LinearState { heads, values, keys, groups, skip };
        let op = |ctx: &Ctx, runs: &[Run], x: &[Mat], cells: &mut Mat, out: &mut Mat| {
            let k = groups * keys;
            let input = LinearStateInput {
                values: Seen::from(&x[0]).columns(0..v),
                write: Seen::from(&x[0]).columns(v..v + k),
                read: Seen::from(&x[0]).columns(v + k..v + 2 * k),
                step: full.then_some((&x[2]).into()),
                decay: if full { Ok((&x[1]).into()) } else { Err(&fixed) },
            };
            linear_state(ctx, &how, runs, input, (cells, AT), out);
        };
        let got = check(&op, &inputs, LinearState::floats(heads, keys, values), v);
        near(&got, |s, r| {
            let mut state = vec![0.0; heads * keys * values];
            let mut y = Vec::new();
            for r in 0..=r {
                let [x, decay, step] = [0, 1, 2].map(|i| row(&inputs[i], s, r));
                y = vec![0.0; v];
                for h in 0..heads {
                    let (decay, step, skip) = match skip {
                        Some(skip) => (decay[h], step[h], f64::from(skip[h])),
                        None => (f64::from(fixed[h]), 1.0, 0.0),
                    };
                    let group = v + h / (heads / groups) * keys;
                    for p in 0..values {
                        y[h * values + p] = skip * x[h * values + p];
                        for n in 0..keys {
                            let (write, read) = (x[group + n], x[group + groups * keys + n]);
                            let state = &mut state[(h * keys + n) * values + p];
                            *state = decay * *state + step * write * x[h * values + p];
                            y[h * values + p] += *state * read;
                        }
                    }
                }
            }
            y
        });
    }
}

#[test]
fn delta_rules() {
    for (k_heads, v_heads, k_dim, v_dim, per_channel, interleaved) in [
        (2, 4, 16, 16, false, false),
        (2, 4, 16, 16, false, true),
        (3, 3, 12, 24, true, false),
        (1, 2, 32, 128, false, false),
        (2, 2, 8, 80, true, false),
    ] {
        let mut random = Random(v_dim as u64);
        let (k, v) = (k_heads * k_dim, v_heads * v_dim);
        let decays = if per_channel { v_heads * k_dim } else { v_heads };
        let mut inputs = [2 * k + v, decays, v_heads].map(|cols| random.mat(2 * ROWS, cols));
        inputs[1].data_mut().iter_mut().for_each(|x| *x = x.abs());
        inputs[0].data_mut().iter_mut().for_each(|x| *x *= 0.5);
        let how = Delta { k_heads, v_heads, k_dim, v_dim, interleaved, per_channel };
        let op = |ctx: &Ctx, runs: &[Run], x: &[Mat], cells: &mut Mat, out: &mut Mat| {
            let input = DeltaInput {
                q: Seen::from(&x[0]).columns(0..k),
                k: Seen::from(&x[0]).columns(k..2 * k),
                v: Seen::from(&x[0]).columns(2 * k..2 * k + v),
                decay: (&x[1]).into(),
                beta: (&x[2]).into(),
            };
            delta(ctx, &how, runs, input, (cells, AT), out);
        };
        let got = check(&op, &inputs, how.floats(), v);
        near(&got, |s, r| {
            let mut state = vec![vec![vec![0.0; v_dim]; k_dim]; v_heads];
            let mut y = Vec::new();
            for r in 0..=r {
                let [x, decay, beta] = [0, 1, 2].map(|i| row(&inputs[i], s, r));
                y = vec![0.0; v];
                for (h, state) in state.iter_mut().enumerate() {
                    let kh = if interleaved { h % k_heads } else { h / (v_heads / k_heads) };
                    for (i, row) in state.iter_mut().enumerate() {
                        let g = decay[if per_channel { h * k_dim + i } else { h }];
                        row.iter_mut().for_each(|s| *s *= g);
                    }
                    for j in 0..v_dim {
                        let key = |i: usize| x[k + kh * k_dim + i];
                        let known: f64 = (0..k_dim).map(|i| state[i][j] * key(i)).sum();
                        let taken = beta[h] * (x[2 * k + h * v_dim + j] - known);
                        for (i, row) in state.iter_mut().enumerate() {
                            row[j] += key(i) * taken;
                            y[h * v_dim + j] += row[j] * x[kh * k_dim + i];
                        }
                    }
                }
            }
            y
        });
    }
}

#[test]
fn gated_linear_recurrent_units() {
    for channels in [1, 17, 144] {
        let mut random = Random(channels as u64);
        let inputs: Vec<Mat> = (0..3).map(|_| random.mat(2 * ROWS, channels)).collect();
        let bound: Vec<f32> = random.vec(channels).iter().map(|x| -8.0 * x.abs()).collect();
        let op = |ctx: &Ctx, runs: &[Run], x: &[Mat], cells: &mut Mat, out: &mut Mat| {
            let [x, forget, take] = [&x[0], &x[1], &x[2]].map(Seen::from);
            let input = RgLru { x, forget, take, bound: &bound };
            rg_lru(ctx, input, runs, (cells, AT), out);
        };
        let got = check(&op, &inputs, channels, channels);
        near(&got, |s, r| {
            let mut h = vec![0.0; channels];
            for r in 0..=r {
                let [x, forget, take] = [0, 1, 2].map(|i| row(&inputs[i], s, r));
                for c in 0..channels {
                    let a = (f64::from(bound[c]) * sigmoid(forget[c])).exp();
                    let root = if r == 0 { 1.0 } else { (1.0 - a * a).sqrt() };
                    h[c] = a * h[c] + root * sigmoid(take[c]) * x[c];
                }
            }
            h
        });
    }
}

#[test]
fn block_diagonal_products() {
    for (blocks, n) in [(1, 5), (3, 16), (2, 70)] {
        let mut random = Random(n as u64);
        let (x, weights) = (random.mat(2 * ROWS, blocks * n), random.vec(blocks * n * n));
        let bias = random.vec(blocks * n);
        let product = |ctx: &Ctx| {
            let mut out = Mat::new(2 * ROWS, blocks * n);
            block_diagonal(ctx, blocks, (&weights, &bias), &x, &mut out);
            out
        };
        let got = product(&ctx(1, TIERS.last().expect("the scalar tier")));
        for tier in TIERS.iter().filter(|t| (t.usable)()) {
            assert!(bits(product(&ctx(2, tier)).data()) == bits(got.data()), "{}", tier.name);
        }
        near(&got, |s, r| {
            let x = row(&x, s, r);
            let value = |c: usize| {
                let weight = |i: usize| f64::from(weights[(c / n * n + i) * n + c % n]);
                f64::from(bias[c]) + (0..n).map(|i| weight(i) * x[c / n * n + i]).sum::<f64>()
            };
            (0..blocks * n).map(value).collect()
        });
    }
}

#[test]
#[should_panic(expected = "a cell that two sequences share")]
fn cells_are_not_shared() {
    let (weights, x) = ([1.0; 4], Mat::new(2, 2));
    let how = Conv { weights: &weights, bias: None, width: 2, silu: false };
    let run = |row| Run { row, rows: 1, past: 0, cell: 1, mark: None };
    let (mut cells, mut out) = (Mat::new(2, 2), Mat::new(2, 2));
    let scalar = ctx(1, TIERS.last().expect("the scalar tier"));
    conv(&scalar, &how, &[run(0), run(1)], &x, None, (&mut cells, 0), &mut out);
}
