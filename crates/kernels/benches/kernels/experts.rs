//! Mixtures of experts beside the dense MLP of as many products a row: one row, whose choices move
//! through more weights than a cache holds, four, and a prompt. Bytes are of the weights that are
//! read; items are products.
use super::{On, packed, packed_in, wave};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use rinfer_kernels::layout::{Layout, Packed};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{
    Choice, Experts, ExpertsScratch, Gated, GatedScratch, Glu, Linear, Stack, Weighs, experts,
    gated, linear,
};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Act, Mat};
use std::fmt;

const D_MODEL: usize = 2048;
const D_FF: usize = 768;
const COUNT: usize = 64;
const TOP_K: usize = 8;

struct Case {
    rows: usize,
    layout: Layout,
    on: On,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.rows, self.layout, self.on)
    }
}

fn cases(rows: &'static [usize]) -> impl Iterator<Item = Case> {
    let each = |rows, layout| On::all().into_iter().map(move |on| Case { rows, layout, on });
    let layouts = [Layout::W4K, Layout::W8];
    rows.iter().flat_map(move |r| layouts.into_iter().flat_map(move |l| each(*r, l)))
}

#[divan::bench(args = cases(&[1, 4]), sample_size = 16, sample_count = 20)]
fn sparse(bencher: Bencher, case: &Case) {
    sparse_of(bencher, case);
}
#[divan::bench(args = cases(&[512]), sample_count = 10)]
fn sparse_prompt(bencher: Bencher, case: &Case) {
    sparse_of(bencher, case);
}
#[divan::bench(args = cases(&[1, 4]), sample_size = 16, sample_count = 20)]
fn dense(bencher: Bencher, case: &Case) {
    dense_of(bencher, case);
}
#[divan::bench(args = cases(&[512]), sample_count = 10)]
fn dense_prompt(bencher: Bencher, case: &Case) {
    dense_of(bencher, case);
}

fn input(rows: usize) -> Act {
    let mut x = Act::new(rows, D_MODEL);
    x.f32_mut().data_mut().copy_from_slice(wave(rows, D_MODEL).data());
    x
}

fn products(rows: usize) -> ItemsCount {
    ItemsCount::new(3 * rows * TOP_K * D_FF * D_MODEL)
}

fn sparse_of(bencher: Bencher, case: &Case) {
    let (ctx, rows) = (case.on.ctx(), case.rows);
    let size = |n, k| Packed::size(case.layout, n, k);
    let room = Room::new(COUNT * (2 * size(D_FF, D_MODEL) + size(D_MODEL, D_FF)));
    let one = |n, k| packed_in(&room, case.layout, n, k);
    let stack = |n, k| Stack::new((0..COUNT).map(|_| one(n, k)).collect(), None);
    let up = Some(stack(D_FF, D_MODEL));
    let (gate, down) = (stack(D_FF, D_MODEL), stack(D_MODEL, D_FF));
    let how = Experts { act: Glu::Silu, gate, up, down, orders: Vec::new() };
    let (mut x, mut out) = (input(rows), Mat::new(rows, D_MODEL));
    let shape = [[COUNT, TOP_K], [D_MODEL, D_FF]];
    let mut scratch = ExpertsScratch::new(rows, shape[0], shape[1], case.on.threads);
    let mut choices = vec![Choice { expert: 0, weight: 0.125 }; rows * TOP_K];
    let each: usize = how.stacks().map(|s| s.weights()[0].bytes().len()).sum();
    let read = each * COUNT.min(rows * TOP_K);
    let mut first = 0;
    bencher.counter(products(rows)).counter(BytesCount::new(read)).bench_local(|| {
        first += TOP_K;
        for (i, choice) in choices.iter_mut().enumerate() {
            choice.expert = ((first + i % TOP_K * 7 + i / TOP_K * 13) % COUNT) as u32;
        }
        let (weighs, store) = (Weighs::Output, Store::Set);
        experts(&ctx, &how, &mut x, &mut choices, weighs, &mut scratch, &mut out, store);
    });
}

fn dense_of(bencher: Bencher, case: &Case) {
    let (ctx, rows, d_ff) = (case.on.ctx(), case.rows, TOP_K * D_FF);
    let weights = |n, k| packed(case.layout, n, k);
    let (gate, up) = (weights(d_ff, D_MODEL), weights(d_ff, D_MODEL));
    let down = weights(D_MODEL, d_ff);
    let read = [&gate, &up, &down].map(|w| w.bytes().len()).iter().sum::<usize>();
    let how = Gated { act: Glu::Silu, gate: (&gate, None), up: Some((&up, None)) };
    let (mut x, mut hidden, mut out) = (input(rows), Act::new(rows, d_ff), Mat::new(rows, D_MODEL));
    let mut scratch = GatedScratch::new(rows, case.on.threads);
    bencher.counter(products(rows)).counter(BytesCount::new(read)).bench_local(|| {
        gated(&ctx, &how, &mut x, &mut scratch, &mut hidden, true);
        let job = Linear { weights: &down, bias: None, store: Store::Set, out: &mut out };
        linear(&ctx, &mut hidden, &mut [job]);
    });
}
