//! Matrix products: one row, for which weights stream from memory, and batches, whose weights stay
//! in a cache.
use super::{On, packed, wave};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use rinfer_kernels::layout::{Layout, Packed};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Gated, GatedScratch, Glu, Linear, linear};
use rinfer_kernels::{Act, Mat};
use std::fmt;

struct Case {
    layout: Layout,
    on: On,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.layout, self.on)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let each = |layout| On::all().into_iter().map(move |on| Case { layout, on });
    Layout::ALL.into_iter().flat_map(each)
}

/// Inputs of the matrix that no cache holds, and its bytes.
const STREAM: (usize, usize) = (4096, 256 << 20);

#[divan::bench(args = cases(), sample_count = 20)]
fn one_row(bencher: Bencher, case: &Case) {
    let (cols, bytes) = STREAM;
    let rows = bytes / (Packed::size(case.layout, 16, cols) / 16) / 16 * 16;
    product(bencher, case, [1, rows, cols]);
}

#[divan::bench(args = cases(), sample_size = 16, sample_count = 20)]
fn four_rows(bencher: Bencher, case: &Case) {
    product(bencher, case, [4, 256, 2048]);
}

#[divan::bench(args = cases(), sample_count = 20)]
fn prompt(bencher: Bencher, case: &Case) {
    product(bencher, case, [512, 256, 2048]);
}

/// `[m, k]·[k, n]`, activations being quantised before. Bytes are of weights; items are products.
fn product(bencher: Bencher, case: &Case, [m, n, k]: [usize; 3]) {
    let ctx = case.on.ctx();
    let weights = packed(case.layout, n, k);
    let mut x = Act::new(m, k);
    x.f32_mut().data_mut().copy_from_slice(wave(m, k).data());
    x.quantise(&ctx);
    let mut out = Mat::new(m, n);
    bencher
        .counter(BytesCount::new(weights.bytes().len()))
        .counter(ItemsCount::new(m * n * k))
        .bench_local(|| {
            let out = &mut out;
            let job = Linear { weights: &weights, bias: None, store: Store::Set, out };
            linear(&ctx, &mut x, &mut [job]);
        });
}

/// Both products of a gated unit, and what joins them, of a prompt.
#[divan::bench(args = cases(), sample_count = 20)]
fn gated(bencher: Bencher, case: &Case) {
    let (ctx, [m, n, k]) = (case.on.ctx(), [512, 512, 2048]);
    let (gate, up) = (packed(case.layout, n, k), packed(case.layout, n, k));
    let mut x = Act::new(m, k);
    x.f32_mut().data_mut().copy_from_slice(wave(m, k).data());
    let how = Gated { act: Glu::Silu, gate: (&gate, None), up: Some((&up, None)) };
    let (mut scratch, mut out) = (GatedScratch::new(m, case.on.threads), Act::new(m, n));
    let products = ItemsCount::new(2 * m * n * k);
    bencher
        .counter(products)
        .bench_local(|| ops::gated(&ctx, &how, &mut x, &mut scratch, &mut out, true));
}
