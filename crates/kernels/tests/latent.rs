//! Latent and sparse attention: products head by head, keys and values of one compressed vector,
//! the choice of keys, and attention to those alone. The same bits whoever computes them.
use rinfer_kernels::kv::{KvKind, PAGE, Pool};
use rinfer_kernels::layout::{Layout, Packed, RowCodes};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{
    Attend, AttendRow, AttentionScratch, Choose, ChooseScratch, Chosen, Ctx, Linear, Norm,
    NormKind, PerHead, Places, attention, choose, latent, linear, per_head,
};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};
use weights::Random;

mod weights;

fn mat(random: &mut Random, rows: usize, cols: usize) -> Mat {
    let mut m = Mat::new(rows, cols);
    m.data_mut().iter_mut().for_each(|x| *x = random.float());
    m
}

fn bits(m: &Mat) -> Vec<u32> {
    m.data().iter().map(|x| x.to_bits()).collect()
}

fn everywhere(check: impl Fn(&Ctx, &str)) {
    for tier in TIERS.iter().filter(|t| (t.usable)()) {
        for threads in 1..=3 {
            let ctx = Ctx { team: Team::new(threads), kernels: tier };
            check(&ctx, &format!("{}, {threads} threads", tier.name));
        }
    }
}

/// Each head by itself, with the product of all rows that has a test of its own.
#[test]
fn heads_have_their_own_products() {
    for (layout, heads, rows, k, n, kept) in [
        (Layout::F32, 5, 9, 24, 40, 7),
        (Layout::Bf16, 1, 1, 16, 3, 0),
        (Layout::W8, 3, 70, 64, 32, 8),
        (Layout::W4K, 2, 17, 256, 48, 0),
    ] {
        let mut random = Random(heads as u64);
        let pack = |head: usize| {
            let row = |i, out: &mut RowCodes| weights::row(layout, k, i + 100 * head, out);
            Packed::pack(&Team::new(1), &Room::new(0), layout, n, k, &row)
        };
        let weights: Vec<Packed> = (0..heads).map(pack).collect();
        let x = mat(&mut random, rows, heads * (k + kept));
        let one = Ctx { team: Team::new(1), kernels: TIERS.last().expect("a tier") };
        let mut want = Mat::new(rows, heads * (kept + n));
        for (head, weights) in weights.iter().enumerate() {
            let (mut part, mut out) = (Act::new(rows, k), Mat::new(rows, n));
            for row in 0..rows {
                let from = &x.row(row)[head * (k + kept)..][..k + kept];
                part.f32_mut().row_mut(row).copy_from_slice(&from[..k]);
                want.row_mut(row)[head * (kept + n)..][..kept].copy_from_slice(&from[k..]);
            }
            let job = Linear { weights, bias: None, store: Store::Set, out: &mut out };
            linear(&one, &mut part, &mut [job]);
            for row in 0..rows {
                let to = &mut want.row_mut(row)[head * (kept + n) + kept..][..n];
                to.copy_from_slice(out.row(row));
            }
        }
        everywhere(|ctx, who| {
            let (mut parts, mut out) = (Act::new(heads * rows, k), Mat::new(rows, want.cols()));
            let how = PerHead { weights: &weights, across: false, kept };
            per_head(ctx, &how, &x, &mut parts, &mut out);
            assert!(bits(&out) == bits(&want), "{layout:?}, {heads} heads, {who}");
        });
    }
}

/// Weights of every layout of integers that lie the other way round: each output is its inputs' sum,
/// sixteen of them side by side, then joined.
#[test]
fn heads_are_multiplied_across() {
    for layout in Layout::ALL.into_iter().filter(|layout| layout.block() > 1) {
        for (heads, rows, k, n, kept) in
            [(3, 1, 24, 256, 5), (1, 19, 16, 512, 0), (2, 8, 40, 256, 8)]
        {
            let mut random = Random(n as u64);
            let pack = |head: usize| {
                let row = |i, out: &mut RowCodes| weights::row(layout, n, i + 100 * head, out);
                Packed::pack(&Team::new(1), &Room::new(0), layout, k, n, &row)
            };
            let weights: Vec<Packed> = (0..heads).map(pack).collect();
            let x = mat(&mut random, rows, heads * (k + kept));
            let mut want = Mat::new(rows, heads * (kept + n));
            let mut w = vec![0.0; n];
            for (head, weights) in weights.iter().enumerate() {
                for row in 0..rows {
                    let from = &x.row(row)[head * (k + kept)..][..k + kept];
                    let mut lanes = vec![[0.0f32; 16]; n];
                    for i in 0..k {
                        weights.row(i, &mut w);
                        for (lanes, w) in lanes.iter_mut().zip(&w) {
                            lanes[i % 16] = w.mul_add(from[i], lanes[i % 16]);
                        }
                    }
                    let to = &mut want.row_mut(row)[head * (kept + n)..][..kept + n];
                    to[..kept].copy_from_slice(&from[k..]);
                    for (to, mut lanes) in to[kept..].iter_mut().zip(lanes) {
                        for half in [8, 4, 2, 1] {
                            (0..half).for_each(|i| lanes[i] += lanes[i + half]);
                        }
                        *to = lanes[0];
                    }
                }
            }
            everywhere(|ctx, who| {
                let (mut parts, mut out) = (Act::new(heads * rows, k), Mat::new(rows, want.cols()));
                let how = PerHead { weights: &weights, across: true, kept };
                per_head(ctx, &how, &x, &mut parts, &mut out);
                assert!(bits(&out) == bits(&want), "{layout:?}, {heads} heads, {who}");
            });
        }
    }
}

#[test]
fn keys_and_values_are_one_vector() {
    let mut random = Random(1);
    let (x, weight) = (mat(&mut random, 30, 24), mat(&mut random, 1, 16));
    let norm = Norm { kind: NormKind::Rms, eps: 1e-6, weight: Some(weight.row(0)), bias: None };
    everywhere(|ctx, who| {
        let (mut k, mut v) = (Mat::new(30, 24), Mat::new(30, 16));
        latent(ctx, &norm, &x, &mut k, &mut v);
        for row in 0..30 {
            let mut want = x.row(row)[..16].to_vec();
            // SAFETY: the tier is usable, the lengths agree.
            unsafe { (ctx.kernels.norm)(&norm, &mut want) };
            assert_eq!(v.row(row), want, "{who}");
            assert_eq!(k.row(row), [&x.row(row)[16..], &want].concat(), "{who}");
        }
    });
}

/// Sequences that choose, and then attend to what they chose.
struct Case {
    choose: Choose,
    attend: Attend<'static>,
    rows: Vec<AttendRow>,
    tables: Vec<Vec<u32>>,
    /// Queries, weights and keys of the choice; queries, keys and values of the attention.
    index: [Mat; 3],
    qkv: [Mat; 3],
}

/// What a row chose, and the bits of its result.
type Found = Vec<(Vec<usize>, Vec<u32>)>;

impl Case {
    fn new(heads: usize, head_dim: usize, top_k: usize, lengths: &[usize]) -> Case {
        let mut random = Random(top_k as u64);
        let (mut rows, mut tables, mut page) = (vec![], vec![], 0);
        for (table, &len) in lengths.iter().enumerate() {
            rows.extend((0..len).map(|pos| AttendRow { table, pos }));
            let pages = len.div_ceil(PAGE) as u32;
            tables.push((page..page + pages).rev().collect());
            page += pages;
        }
        let scale = 1.0 / (head_dim as f32).sqrt();
        let choose = Choose { heads, head_dim, top_k, scale, weight_scale: 0.5 };
        let attend = Attend { v_dim: 16, ..Attend::plain(3, 1, 24, 0.3) };
        let mut of = |cols| mat(&mut random, rows.len(), cols);
        let index = [of(heads * head_dim), of(heads), of(head_dim)];
        let qkv = [of(72), of(24), of(16)];
        Case { choose, attend, rows, tables, index, qkv }
    }

    /// Runs batches of row numbers.
    fn run(&self, kind: KvKind, ctx: &Ctx, batches: &[Vec<usize>]) -> Found {
        let pages = self.tables.iter().map(Vec::len).sum();
        let context = self.tables.iter().map(Vec::len).max().expect("a table") * PAGE;
        let mut keys = Pool::new(kind, self.choose.keeps(), pages);
        let mut pool = Pool::new(kind, self.attend.keeps(), pages);
        let (most, threads) = (self.rows.len(), ctx.team.threads());
        let mut chosen = Chosen::new(most, context);
        let mut choosing = ChooseScratch::new(&self.choose, most, context, threads);
        let mut scratch = AttentionScratch::new(&self.attend, kind, most, context, threads);
        let mut out = Act::new(most, 48);
        let mut found = vec![(vec![], vec![]); most];
        for batch in batches {
            let rows: Vec<AttendRow> = batch.iter().map(|&i| self.rows[i]).collect();
            let part = |m: &Mat| {
                let mut part = Mat::new(batch.len(), m.cols());
                let rows = batch.iter().enumerate();
                rows.for_each(|(to, &from)| part.row_mut(to).copy_from_slice(m.row(from)));
                part
            };
            let index = self.index.each_ref().map(part);
            let [q, k, v] = self.qkv.each_ref().map(part);
            let (rows, tables, operands) = (&rows[..], &self.tables[..], index.each_ref());
            let places = Places { rows, tables, chosen: None, pool: &mut keys };
            choose(ctx, &self.choose, places, operands, &mut choosing, &mut chosen);
            let (pool, kv) = (&mut pool, Some((&k, &v)));
            let places = Places { rows, tables, chosen: Some(chosen.slot()), pool };
            attention(ctx, &self.attend, places, &q, kv, &mut scratch, &mut out, false);
            for (at, &row) in batch.iter().enumerate() {
                let chose = |t: &usize| chosen.row(at)[t / PAGE] >> (t % PAGE) & 1 == 1;
                found[row].0 = (0..context).filter(chose).collect();
                found[row].1 = out.view().row(at).iter().map(|x| x.to_bits()).collect();
            }
        }
        found
    }

    /// The definition, in f64: the rows that a row sees, by count, best first and then earliest.
    fn naive(&self, row: usize) -> Vec<(f64, usize)> {
        let Choose { heads, head_dim, .. } = self.choose;
        let [q, w, k] = &self.index;
        let AttendRow { table, pos } = self.rows[row];
        let count = |from: usize| -> f64 {
            let head = |h: usize| {
                let q = &q.row(row)[h * head_dim..][..head_dim];
                let dot: f64 =
                    q.iter().zip(k.row(from)).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                f64::from(w.row(row)[h]) * dot.max(0.0)
            };
            (0..heads).map(head).sum()
        };
        let seen = (0..self.rows.len())
            .filter(|&i| self.rows[i].table == table && self.rows[i].pos <= pos);
        let mut counts: Vec<(f64, usize)> = seen.map(|i| (count(i), self.rows[i].pos)).collect();
        counts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        counts
    }

    /// Softmax over some positions, in f64.
    fn attended(&self, row: usize, positions: &[usize]) -> Vec<f64> {
        let [q, k, v] = &self.qkv;
        let at = |pos: usize| {
            let same = |r: &AttendRow| (r.table, r.pos) == (self.rows[row].table, pos);
            self.rows.iter().position(same).expect("a row")
        };
        let mut out = vec![0.0; 48];
        for head in 0..3 {
            let q = &q.row(row)[head * 24..][..24];
            let score = |&pos: &usize| -> f64 {
                let k = k.row(at(pos));
                let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                (dot * f64::from(self.attend.scale)).exp()
            };
            let sum: f64 = positions.iter().map(score).sum();
            for pos in positions {
                let weight = score(pos) / sum;
                for (out, v) in out[head * 16..][..16].iter_mut().zip(v.row(at(*pos))) {
                    *out += weight * f64::from(*v);
                }
            }
        }
        out
    }
}

fn check(case: &Case) {
    let scalar = Ctx { team: Team::new(1), kernels: TIERS.last().expect("a tier") };
    let all: Vec<usize> = (0..case.rows.len()).collect();
    let want = case.run(KvKind::F32, &scalar, std::slice::from_ref(&all));
    for (row, (chose, bits)) in want.iter().enumerate() {
        let counts = case.naive(row);
        let n = counts.len().min(case.choose.top_k);
        assert_eq!(chose.len(), n, "row {row}");
        // What was left out counts less, but for what rounding can't tell apart.
        let least = counts[n - 1].0;
        for (count, pos) in &counts {
            let clear = (count - least).abs() > 1e-5;
            assert!(!clear || chose.contains(pos) == (*count > least), "row {row}, {pos}");
        }
        for (got, want) in bits.iter().zip(case.attended(row, chose)) {
            assert!((f64::from(f32::from_bits(*got)) - want).abs() < 1e-5, "row {row}");
        }
    }
    for kind in [KvKind::F32, KvKind::F16] {
        let want = case.run(kind, &scalar, std::slice::from_ref(&all));
        everywhere(|ctx, who| {
            for size in [1, 7, 64] {
                let chunks: Vec<_> = all.chunks(size).map(<[usize]>::to_vec).collect();
                assert!(case.run(kind, ctx, &chunks) == want, "{kind:?}, {who}, by {size}");
            }
        });
    }
}

#[test]
fn the_best_are_attended_to() {
    check(&Case::new(6, 16, 12, &[150, 3, 40]));
    check(&Case::new(1, 8, 1, &[70]));
    check(&Case::new(5, 40, 64, &[64, 65, 130]));
    check(&Case::new(4, 16, 1000, &[80]));
}

/// Rows far into a sequence choose from few pages, and skip the others.
#[test]
fn long_contexts() {
    let case = Case::new(2, 8, 9, &[40 * PAGE]);
    let chunks: Vec<_> =
        (0..40 * PAGE).collect::<Vec<_>>().chunks(500).map(<[usize]>::to_vec).collect();
    let of = |threads, tier| {
        case.run(KvKind::F16, &Ctx { team: Team::new(threads), kernels: tier }, &chunks)
    };
    let want = of(1, Kernels::best());
    assert!(of(3, Kernels::best()) == want);
    let last = case.rows.len() - 1;
    let alone = [(0..last).collect(), vec![last]];
    let ctx = Ctx { team: Team::new(2), kernels: Kernels::best() };
    assert!(case.run(KvKind::F16, &ctx, &alone)[last] == want[last]);
}

/// Equal counts: with no weight on any head, the first positions are chosen.
#[test]
fn of_equals_the_first() {
    let mut case = Case::new(3, 8, 5, &[90]);
    // Both zeros.
    case.index[1].data_mut().iter_mut().for_each(|w| *w *= 0.0);
    everywhere(|ctx, who| {
        let found = case.run(KvKind::F32, ctx, &[(0..90).collect()]);
        for (row, (chose, _)) in found.iter().enumerate() {
            assert_eq!(*chose, (0..5.min(row + 1)).collect::<Vec<_>>(), "{who}");
        }
    });
}
