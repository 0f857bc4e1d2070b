//! Mixers with a state: one decoding row of one sequence, and a prompt's 512, in the sizes of models
//! of a few billion parameters. Items are floats of the state that a row passes.
use super::{On, wave};
use divan::Bencher;
use divan::counter::ItemsCount;
use rinfer_kernels::Mat;
use rinfer_kernels::mat::Seen;
use rinfer_kernels::ops::*;
use std::fmt;

struct Case {
    rows: usize,
    on: On,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rows, self.on)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    [1, 512].into_iter().flat_map(|rows| On::all().into_iter().map(move |on| Case { rows, on }))
}

fn time(
    bencher: Bencher,
    case: &Case,
    floats: usize,
    mut work: impl FnMut(&Ctx, &[Run], &mut Mat),
) {
    let run = Run { row: 0, rows: case.rows, past: 1, cell: 0, mark: None };
    let (ctx, mut cells) = (case.on.ctx(), Mat::new(1, floats));
    let bencher = bencher.counter(ItemsCount::new(case.rows * floats));
    bencher.bench_local(|| work(&ctx, &[run], &mut cells));
}

#[divan::bench(args = cases(), sample_size = 4, sample_count = 20)]
fn convolution(bencher: Bencher, case: &Case) {
    let (channels, width) = (8192, 4);
    let weights = vec![0.25; channels * width];
    let how = Conv { weights: &weights, bias: None, width, silu: true };
    let (x, mut out) = (wave(case.rows, channels), Mat::new(case.rows, channels));
    time(bencher, case, Conv::floats(width, channels), |ctx, runs, cells| {
        conv(ctx, &how, runs, &x, None, (cells, 0), &mut out);
    });
}

#[divan::bench(args = cases(), sample_size = 1, sample_count = 20)]
fn selective_scan(bencher: Bencher, case: &Case) {
    let (channels, state) = (5120, 16);
    let (rates, skip) = (vec![-1.0; state * channels], vec![1.0; channels]);
    let how = Selective { state, rates: &rates, skip: &skip };
    let mut step = wave(case.rows, channels);
    step.data_mut().iter_mut().for_each(|x| *x = x.abs());
    let (x, keys) = (wave(case.rows, channels), wave(case.rows, state));
    let mut out = Mat::new(case.rows, channels);
    let [x, step, write, read] = [&x, &step, &keys, &keys].map(Seen::from);
    let input = SelectiveInput { x, step, write, read };
    time(bencher, case, state * channels, |ctx, runs, cells| {
        selective(ctx, &how, runs, input, (cells, 0), &mut out);
    });
}

#[divan::bench(args = cases(), sample_size = 1, sample_count = 20)]
fn linear_states(bencher: Bencher, case: &Case) {
    let (heads, values, keys) = (64, 64, 128);
    let how = LinearState { heads, values, keys, groups: 1, skip: None };
    let (x, k) = (wave(case.rows, heads * values), wave(case.rows, keys));
    let (gates, mut out) = (wave(case.rows, heads), Mat::new(case.rows, heads * values));
    let input = LinearStateInput {
        values: (&x).into(),
        write: (&k).into(),
        read: (&k).into(),
        step: Some((&gates).into()),
        decay: Ok((&gates).into()),
    };
    time(bencher, case, LinearState::floats(heads, keys, values), |ctx, runs, cells| {
        linear_state(ctx, &how, runs, input, (cells, 0), &mut out);
    });
}

#[divan::bench(args = cases(), sample_size = 1, sample_count = 20)]
fn delta_rule(bencher: Bencher, case: &Case) {
    delta_of(bencher, case, false);
}

#[divan::bench(args = cases(), sample_size = 1, sample_count = 20)]
fn delta_rule_by_channel(bencher: Bencher, case: &Case) {
    delta_of(bencher, case, true);
}

fn delta_of(bencher: Bencher, case: &Case, per_channel: bool) {
    let (heads, dim) = (32, 128);
    let how = Delta {
        k_heads: if per_channel { heads } else { heads / 2 },
        v_heads: heads,
        k_dim: dim,
        v_dim: dim,
        interleaved: false,
        per_channel,
    };
    let k = wave(case.rows, how.k_heads * dim);
    let (v, mut out) = (wave(case.rows, heads * dim), Mat::new(case.rows, heads * dim));
    let (beta, mut decay) =
        (wave(case.rows, heads), wave(case.rows, if per_channel { heads * dim } else { heads }));
    decay.data_mut().iter_mut().for_each(|x| *x = 0.9 + 0.05 * *x);
    let [k, v, decay, beta] = [&k, &v, &decay, &beta].map(Seen::from);
    let input = DeltaInput { q: k, k, v, decay, beta };
    time(bencher, case, how.floats(), |ctx, runs, cells| {
        delta(ctx, &how, runs, input, (cells, 0), &mut out);
    });
}
