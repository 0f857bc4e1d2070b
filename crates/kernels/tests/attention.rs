//! Attention: near a naive softmax in f64, and the same bits on every tier, at every thread
//! count, for every cut of a prompt, and for a row alone or in a batch.
use rinfer_kernels::kv::{KvKind, PAGE, Pool, Reach};
use rinfer_kernels::ops::{Attend, AttendRow, AttentionScratch, Ctx, Places, attention};
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};

mod bits;

/// A small generator of numbers around zero.
struct Random(u64);
impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0) * 2.0
    }
    fn mat(&mut self, rows: usize, cols: usize) -> Mat {
        let mut m = Mat::new(rows, cols);
        m.data_mut().fill_with(|| self.next());
        m
    }
}

/// Sequences of given lengths, one after another, and what their attention is.
struct Case {
    shape: Attend<'static>,
    rows: Vec<AttendRow>,
    tables: Vec<Vec<u32>>,
    q: Mat,
    k: Mat,
    v: Mat,
}

fn shape(heads: usize, kv_heads: usize, head_dim: usize) -> Attend<'static> {
    Attend::plain(heads, kv_heads, head_dim, 1.0 / (head_dim as f32).sqrt())
}

fn case(shape: Attend<'static>, lengths: &[usize]) -> Case {
    let mut random = Random(lengths.len() as u64);
    let (mut rows, mut tables, mut page) = (vec![], vec![], 0);
    for (table, &len) in lengths.iter().enumerate() {
        rows.extend((0..len).map(|pos| AttendRow { table, pos }));
        // Pages in no particular order.
        tables.push((0..len.div_ceil(PAGE) as u32).map(|i| page + (i ^ 1)).collect());
        page += len.div_ceil(PAGE).next_multiple_of(2) as u32;
    }
    let n = rows.len();
    let Attend { heads, kv_heads, head_dim, v_dim, .. } = shape;
    let [q, k, v] = [heads * head_dim, kv_heads * head_dim, kv_heads * v_dim];
    Case { shape, rows, tables, q: random.mat(n, q), k: random.mat(n, k), v: random.mat(n, v) }
}

fn rows_of(m: &Mat, which: &[usize]) -> Mat {
    let mut part = Mat::new(which.len(), m.cols());
    for (to, &from) in which.iter().enumerate() {
        part.row_mut(to).copy_from_slice(m.row(from));
    }
    part
}

/// Bits of every row's result, and of its 8-bit form.
type Bits = Vec<Vec<u32>>;

impl Case {
    /// Runs batches of row numbers, which together name every row once, in order of position.
    fn run(
        &self,
        kind: KvKind,
        tier: &'static Kernels,
        threads: usize,
        batches: &[Vec<usize>],
    ) -> Bits {
        let ctx = Ctx { team: Team::new(threads), kernels: tier };
        let Attend { heads, v_dim, .. } = self.shape;
        let pages = self.tables.iter().map(|t| t.len().next_multiple_of(2)).sum();
        let mut pool = Pool::new(kind, self.shape.keeps(), pages);
        // Whatever a page held before must not show, however bad it is.
        if v_dim.is_multiple_of(16) {
            (0..pages as u32).for_each(|i| pool.page_mut(i).fill(0xFF));
        }
        let largest = batches.iter().map(Vec::len).max().expect("a batch");
        let context = self.tables.iter().map(Vec::len).max().expect("a table") * PAGE;
        let mut scratch = AttentionScratch::new(&self.shape, kind, largest, context, threads);
        let mut out = Act::new(largest, heads * v_dim);
        let mut bits = vec![vec![]; self.rows.len()];
        for batch in batches {
            let rows: Vec<AttendRow> = batch.iter().map(|&i| self.rows[i]).collect();
            let [q, k, v] = [&self.q, &self.k, &self.v].map(|m| rows_of(m, batch));
            let kv = Some((&k, &v));
            let (rows, tables, pool) = (&rows[..], &self.tables[..], &mut pool);
            let places = Places { rows, tables, chosen: None, pool };
            attention(&ctx, &self.shape, places, &q, kv, &mut scratch, &mut out, true);
            for (at, &row) in batch.iter().enumerate() {
                let values = out.view().row(at).iter().map(|x| x.to_bits());
                bits[row] = values.chain(out.quantised(at).flat_map(bits::block)).collect();
            }
        }
        bits
    }

    fn all(&self) -> Vec<usize> {
        (0..self.rows.len()).collect()
    }

    /// The definition, in f64.
    fn naive(&self, row: usize, head: usize) -> Vec<f64> {
        let Attend {
            heads,
            kv_heads,
            head_dim,
            v_dim,
            scale,
            slopes,
            reach,
            causal,
            softcap,
            sinks,
        } = self.shape;
        let part = |m: &Mat, dim: usize, row: usize, head: usize| -> Vec<f64> {
            m.row(row)[head * dim..][..dim].iter().map(|&x| f64::from(x)).collect()
        };
        let AttendRow { table, pos } = self.rows[row];
        let first = match reach {
            Reach::All => 0,
            Reach::Window(n) => (pos + 1).saturating_sub(n),
            Reach::Chunk(n) => pos - pos % n,
        };
        let last = match reach {
            _ if causal => pos,
            Reach::All => usize::MAX,
            Reach::Window(n) => pos + n - 1,
            Reach::Chunk(n) => first + n - 1,
        };
        let seen: Vec<usize> = (0..self.rows.len())
            .filter(|&i| self.rows[i].table == table && (first..=last).contains(&self.rows[i].pos))
            .collect();
        let (q, group) = (part(&self.q, head_dim, row, head), heads / kv_heads);
        let score = |&i: &usize| {
            let k = part(&self.k, head_dim, i, head / group);
            let dot: f64 = k.iter().zip(&q).map(|(k, q)| k * q).sum();
            let slope = slopes.map_or(0.0, |slopes| f64::from(slopes[head]));
            let nearer = slope * (self.rows[i].pos as f64 - pos as f64);
            let score = dot * f64::from(scale) + nearer;
            softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
        };
        let scores: Vec<f64> = seen.iter().map(score).collect();
        let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
        let max = scores.iter().copied().fold(sink, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let sum = (sink - max).exp() + weights.iter().sum::<f64>();
        let mut out = vec![0.0; v_dim];
        for (&i, weight) in seen.iter().zip(weights) {
            for (out, v) in out.iter_mut().zip(part(&self.v, v_dim, i, head / group)) {
                *out += weight / sum * v;
            }
        }
        out
    }
}

/// Near the definition in both kinds; the same bits whoever computes and however it is cut.
fn check(case: &Case) {
    let scalar = TIERS.last().expect("a tier");
    let Attend { heads, v_dim, .. } = case.shape;
    for (kind, tolerance) in [(KvKind::F32, 1e-5), (KvKind::F16, 2e-3), (KvKind::Q8, 5e-2)] {
        let want = case.run(kind, scalar, 1, &[case.all()]);
        for (row, bits) in want.iter().enumerate().step_by(1 + want.len() / 40) {
            for head in 0..heads {
                let exact = case.naive(row, head);
                for (d, want) in exact.iter().enumerate() {
                    let got = f64::from(f32::from_bits(bits[head * v_dim + d]));
                    let context = format!("{kind:?}, row {row}, head {head}, channel {d}");
                    assert!((got - want).abs() <= tolerance, "{context}: {got}, exactly {want}");
                }
            }
        }
        for tier in TIERS.iter().filter(|t| (t.usable)()) {
            let same = |threads, batches: &[Vec<usize>], how: &str| {
                let got = case.run(kind, tier, threads, batches);
                assert!(got == want, "{kind:?}, {}, {threads} threads, {how}", tier.name);
            };
            for threads in 1..=3 {
                same(threads, &[case.all()], "at once");
            }
            if !case.shape.causal {
                let each = |table| {
                    case.all().into_iter().filter(|&i| case.rows[i].table == table).collect()
                };
                let alone: Vec<Vec<usize>> = (0..case.tables.len()).map(each).collect();
                same(2, &alone, "each alone");
                continue;
            }
            for size in [7, 64] {
                let chunks: Vec<_> = case.all().chunks(size).map(<[usize]>::to_vec).collect();
                same(2, &chunks, "in chunks");
            }
            let longest = case.rows.iter().map(|row| row.pos).max().expect("a row");
            let at = |pos| case.all().into_iter().filter(|&i| case.rows[i].pos == pos).collect();
            let steps: Vec<Vec<usize>> = (0..=longest).map(at).collect();
            same(2, &steps, "position by position");
        }
    }
}

#[test]
fn page_borders() {
    for len in [1, 63, 64, 65, 128, 150] {
        check(&case(shape(2, 1, 16), &[len]));
    }
}

#[test]
fn head_sizes() {
    for head_dim in [1, 5, 24, 64, 80, 96, 128, 256] {
        check(&case(shape(2, 2, head_dim), &[70]));
    }
}

/// Keys wider than values, as where both are made of one compressed vector, and narrower ones.
#[test]
fn values_of_another_width() {
    for (head_dim, v_dim) in [(24, 16), (96, 80), (16, 40), (144, 128)] {
        check(&case(Attend { v_dim, ..shape(4, 1, head_dim) }, &[150]));
    }
}

#[test]
fn groups() {
    for group in 1..=8 {
        check(&case(shape(2 * group, 2, 32), &[66]));
    }
}

#[test]
fn windows() {
    for window in [1, 2, 17, 63, 64, 65, 100, 1000] {
        check(&case(Attend { reach: Reach::Window(window), ..shape(6, 2, 24) }, &[200, 30]));
    }
}

#[test]
fn chunks_of_positions() {
    for chunk in [1, 2, 17, 63, 64, 65, 100, 1000] {
        check(&case(Attend { reach: Reach::Chunk(chunk), ..shape(6, 2, 24) }, &[200, 30]));
    }
}

#[test]
fn both_ways() {
    for reach in
        [Reach::All, Reach::Window(1), Reach::Window(20), Reach::Window(90), Reach::Chunk(50)]
    {
        let shape = Attend { reach, causal: false, ..shape(6, 2, 24) };
        check(&case(shape, &[200, 1, 64, 30]));
    }
}

#[test]
fn slopes() {
    let slopes = Some(&[0.5, 0.25, 0.1, 0.03, 1.0, 0.0][..]);
    for reach in [Reach::All, Reach::Window(70)] {
        check(&case(Attend { reach, slopes, ..shape(6, 2, 24) }, &[200, 30]));
    }
    check(&case(Attend { slopes, softcap: Some(3.0), ..shape(6, 1, 16) }, &[100]));
}

#[test]
fn sinks() {
    let sinks = Some(&[0.5, -3.0, 40.0, 0.0, -100.0, 2.0][..]);
    for reach in [Reach::All, Reach::Window(70), Reach::Chunk(50)] {
        check(&case(Attend { reach, sinks, ..shape(6, 2, 24) }, &[200, 30]));
    }
}

#[test]
fn soft_caps() {
    check(&case(Attend { softcap: Some(0.9), ..shape(3, 1, 40) }, &[80]));
}

#[test]
fn sequences_side_by_side() {
    check(&case(shape(9, 3, 64), &[5, 130, 1, 64, 17]));
    check(&case(shape(4, 4, 16), &[1; 40]));
}

/// Deep enough that the pages of one row go through the scratch in several waves.
#[test]
fn long_contexts() {
    let case = case(shape(2, 1, 16), &[64 * 150]);
    for threads in 2..=3 {
        let batches: Vec<_> = vec![case.all()[..9599].to_vec(), vec![9599]];
        let got = case.run(KvKind::F16, Kernels::best(), threads, &batches);
        assert!(got == case.run(KvKind::F16, Kernels::best(), 1, &[case.all()]));
    }
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    let mut bad = case(shape(2, 1, 16), &[70]);
    bad.q.row_mut(20)[3] = f32::NAN;
    bad.v.row_mut(50)[2] = f32::INFINITY;
    let good = case(shape(2, 1, 16), &[70]);
    for tier in TIERS.iter().filter(|t| (t.usable)()) {
        let [bad, good] = [&bad, &good].map(|c| c.run(KvKind::F32, tier, 2, &[c.all()]));
        for row in 0..70 {
            let value = f32::from_bits(bad[row][2]);
            match row {
                20 => assert!(value.is_nan()),
                0..50 => assert!(bad[row] == good[row], "row {row} is changed"),
                _ => assert!(!value.is_finite(), "row {row} hides an infinity"),
            }
        }
    }
}
