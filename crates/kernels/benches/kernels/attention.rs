//! Attention: one row at depth 2048, over more layers than caches hold, and a prompt of 512 rows.
use super::{On, wave};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use rinfer_kernels::Act;
use rinfer_kernels::kv::{KvKind, PAGE, Pool};
use rinfer_kernels::ops::{Attend, AttendRow, AttentionScratch, Places, attention};
use std::fmt;

/// Query heads, K/V heads, elements to a head: of small models, and one without groups.
const SHAPES: [[usize; 3]; 4] = [[9, 3, 64], [4, 1, 256], [14, 2, 64], [32, 32, 96]];
const DEPTH: usize = 2048;
/// Bytes of keys and values in all layers.
const BYTES: usize = 64 << 20;

struct Case {
    shape: [usize; 3],
    kind: KvKind,
    on: On,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [heads, kv_heads, head_dim] = self.shape;
        write!(f, "{heads}/{kv_heads}/{head_dim} {:?} {}", self.kind, self.on)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    SHAPES.into_iter().flat_map(|shape| {
        [KvKind::F16, KvKind::F32, KvKind::Q8]
            .into_iter()
            .flat_map(move |kind| On::all().into_iter().map(move |on| Case { shape, kind, on }))
    })
}

#[divan::bench(args = cases(), sample_size = 16, sample_count = 20)]
fn decode(bencher: Bencher, case: &Case) {
    rows(bencher, case, 1, DEPTH - 1);
}

#[divan::bench(args = cases(), sample_count = 10)]
fn prompt(bencher: Bencher, case: &Case) {
    rows(bencher, case, 512, 0);
}

/// Bytes are of keys and values seen by a row; items are products of queries with keys.
fn rows(bencher: Bencher, case: &Case, rows: usize, past: usize) {
    let [heads, kv_heads, head_dim] = case.shape;
    let ctx = case.on.ctx();
    let scale = 1.0 / (head_dim as f32).sqrt();
    let shape = Attend::plain(heads, kv_heads, head_dim, scale);
    let pages = DEPTH / PAGE;
    let layers = BYTES.div_ceil(pages * Pool::page_bytes(case.kind, shape.keeps()));
    let pool = |_| Pool::new(case.kind, shape.keeps(), pages);
    let mut pools: Vec<Pool> = (0..layers).map(pool).collect();
    let tables = [(0..pages as u32).collect()];
    let mut scratch = AttentionScratch::new(&shape, case.kind, rows, DEPTH, case.on.threads);
    let mut out = Act::new(rows, heads * head_dim);
    let [q, k, v] = [heads, kv_heads, kv_heads].map(|heads| wave(rows, heads * head_dim));
    let mut run = |pool: &mut Pool, past: usize| {
        let at: Vec<_> = (past..past + rows).map(|pos| AttendRow { table: 0, pos }).collect();
        let new = Some((&k, &v));
        let places = Places { rows: &at, tables: &tables, chosen: None, pool };
        attention(&ctx, &shape, places, &q, new, &mut scratch, &mut out, true);
    };
    for pool in &mut pools {
        // Every page is there before it is measured.
        (0..=past).step_by(PAGE).for_each(|past| run(pool, past));
    }
    let seen: usize = (past + 1..=past + rows).sum();
    let mut layer = 0;
    bencher
        .counter(BytesCount::new(2 * (past + rows) * kv_heads * head_dim * case.kind.bytes()))
        .counter(ItemsCount::new(seen * heads * head_dim))
        .bench_local(|| {
            layer = (layer + 1) % pools.len();
            run(&mut pools[layer], past);
        });
}
