//! Products: near their definition in f64; and the same bits on every tier, at every thread count,
//! and for a row alone or in a batch.
use rinfer_kernels::layout::{Layout, Packed, Reads, RowCodes};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{Ctx, Gated, GatedScratch, Glu, Linear, embed, gated, glu, linear};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};
use weights::Random;

mod bits;
mod weights;

fn pack(layout: Layout, rows: usize, cols: usize) -> Packed {
    Packed::pack(
        &Team::new(1),
        &Room::new(0),
        layout,
        rows,
        cols,
        &|i: usize, codes: &mut RowCodes| weights::row(layout, cols, i, codes),
    )
}

/// Activations, some rows of which are all of one magnitude, so that sums reach their bounds.
fn input(rows: usize, cols: usize) -> Mat {
    let (mut mat, mut random) = (Mat::new(rows, cols), Random(rows as u64));
    for i in 0..rows {
        for x in mat.row_mut(i) {
            *x = if i % 3 == 1 { -2.0 } else { random.float() };
        }
    }
    mat
}

fn act(input: &Mat, rows: std::ops::Range<usize>) -> Act {
    let mut act = Act::new(rows.len(), input.cols());
    for (to, from) in rows.enumerate() {
        act.f32_mut().row_mut(to).copy_from_slice(input.row(from));
    }
    act
}

fn product(ctx: &Ctx, w: &Packed, x: &mut Act) -> Vec<f32> {
    let mut out = Mat::new(x.rows(), w.rows());
    let job = Linear { weights: w, bias: None, store: Store::Set, out: &mut out };
    linear(ctx, x, &mut [job]);
    out.data().to_vec()
}

fn scalar() -> Ctx {
    Ctx { team: Team::new(1), kernels: TIERS.last().expect("the scalar tier") }
}

fn usable() -> impl Iterator<Item = &'static Kernels> {
    TIERS.iter().copied().filter(|tier| (tier.usable)())
}

/// Asserts that two products have the same bits.
fn same(got: &[f32], want: &[f32], what: impl std::fmt::Display) {
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(got) == bits(want), "{what}");
}

/// Emulated runs are built for the tier that they name, so that they can't pass without it.
#[test]
fn the_expected_tier_is_best() {
    if let Some(name) = option_env!("RINFER_EXPECT_TIER") {
        assert_eq!(Kernels::best().name, name);
    }
}

/// Whole tiles of every tier, and every remainder.
const BATCHES: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 33];

/// One shape, on every tier, in batches and row by row.
fn check(layout: Layout, rows: usize, cols: usize) {
    let w = pack(layout, rows, cols);
    let x = input(33, cols);
    let want = product(&scalar(), &w, &mut act(&x, 0..33));
    for kernels in usable() {
        let ctx = Ctx { team: Team::new(1), kernels };
        for m in BATCHES {
            let got = product(&ctx, &w, &mut act(&x, 0..m));
            let name = kernels.name;
            same(&got, &want[..m * rows], format!("{layout:?} {rows}x{cols}, {m} rows, {name}"));
        }
        for i in 0..33 {
            let got = product(&ctx, &w, &mut act(&x, i..i + 1));
            same(&got, &want[i * rows..][..rows], format!("{layout:?} row {i}, {}", kernels.name));
        }
    }
}

#[test]
fn tiers_and_batches_agree() {
    for layout in Layout::ALL {
        for rows in [1, 4, 7, 8, 15, 16, 17, 31, 33, 40] {
            check(layout, rows, layout.block());
        }
        check(layout, 24, 3 * layout.block());
        check(layout, 16, 1024);
    }
    // So wide that rows go in chunks.
    check(Layout::W6K, 16, 8192);
    check(Layout::F16, 16, 8192);
}

#[test]
fn threads_agree() {
    for layout in Layout::ALL {
        let (w, x) = (pack(layout, 200, 512), input(9, 512));
        let want = product(&scalar(), &w, &mut act(&x, 0..9));
        for threads in 1..=3 {
            let ctx = Ctx { team: Team::new(threads), kernels: Kernels::best() };
            let got = product(&ctx, &w, &mut act(&x, 0..9));
            same(&got, &want, format!("{layout:?}, {threads} threads"));
        }
    }
}

/// The 8-bit form of a row, as numbers; or the row itself.
fn values(x: &Act, i: usize, reads: Reads) -> Vec<f64> {
    match reads {
        Reads::F32 => x.view().row(i).iter().map(|&x| f64::from(x)).collect(),
        Reads::Q8 => {
            let blocks = x.quantised(i);
            blocks.flat_map(|b| b.q.map(|q| f64::from(q) * f64::from(b.scale))).collect()
        }
    }
}

#[test]
fn products_are_near_their_definition() {
    for layout in Layout::ALL {
        let (rows, cols) = (19, 768);
        let (w, mut x) = (pack(layout, rows, cols), act(&input(4, cols), 0..4));
        let got = product(&scalar(), &w, &mut x);
        let mut weights = vec![0.0; cols];
        for n in 0..rows {
            w.row(n, &mut weights);
            for m in 0..4 {
                let x = values(&x, m, layout.reads());
                let terms = weights.iter().zip(&x).map(|(&w, x)| f64::from(w) * x);
                let (sum, size) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
                // Minima cancel products, so the bound is on what is summed.
                let error = (f64::from(got[m * rows + n]) - sum).abs();
                assert!(error <= 1e-6 * size, "{layout:?} {m},{n}: {error} of {size}");
            }
        }
    }
}

#[test]
fn several_jobs_with_bias_and_sum() {
    let layouts = [Layout::F32, Layout::W4M, Layout::W6K, Layout::F16, Layout::W8];
    let (cols, sizes) = (256, [1, 33, 16, 90, 7]);
    let weights: Vec<_> = layouts.iter().zip(sizes).map(|(&l, n)| pack(l, n, cols)).collect();
    let x = input(5, cols);
    for kernels in usable() {
        for threads in [1, 3] {
            let ctx = Ctx { team: Team::new(threads), kernels };
            let biases: Vec<Vec<f32>> =
                sizes.iter().map(|&n| (0..n).map(|i| i as f32 / 3.0).collect()).collect();
            let mut outs: Vec<_> = sizes.iter().map(|&n| input(5, n)).collect();
            let jobs = weights.iter().zip(&biases).zip(&mut outs).enumerate();
            let mut jobs: Vec<_> = jobs
                .map(|(i, ((weights, bias), out))| Linear {
                    weights,
                    bias: (i != 2).then_some(&bias[..]),
                    store: if i % 2 == 0 { Store::Add } else { Store::Set },
                    out,
                })
                .collect();
            linear(&ctx, &mut act(&x, 0..5), &mut jobs);
            for (i, (w, out)) in weights.iter().zip(&outs).enumerate() {
                let mut want = product(&scalar(), w, &mut act(&x, 0..5));
                let old = input(5, sizes[i]);
                for (k, y) in want.iter_mut().enumerate() {
                    *y = if i != 2 { *y + biases[i][k % sizes[i]] } else { *y };
                    *y = if i % 2 == 0 { old.data()[k] + *y } else { *y };
                }
                same(out.data(), &want, format!("job {i}, {threads} threads, {}", kernels.name));
            }
        }
    }
}

#[test]
fn rows_are_looked_up() {
    let (rows, cols) = (50, 256);
    for layout in Layout::ALL {
        let table = pack(layout, rows, cols);
        let ids = [3, 49, 0, 3, 17];
        let mut out = Mat::new(8, cols);
        embed(&scalar(), &table, &ids, 2.5, &mut out);
        let mut want = vec![0.0; cols];
        for (i, &id) in ids.iter().enumerate() {
            table.row(id as usize, &mut want);
            want.iter_mut().for_each(|x| *x *= 2.5);
            same(out.row(i), &want, format!("{layout:?} {id}"));
        }
    }
}

/// The products that a gated unit computes a few columns at a time are those of `linear`, and what
/// becomes of them is `glu`'s.
#[test]
fn gated_units_are_products_and_units() {
    for layout in [Layout::F32, Layout::W4M, Layout::W6K] {
        for n in [8, 32, 72, 144] {
            let weights = |seed| {
                let row = |i, out: &mut RowCodes| weights::row(layout, 512, i + seed, out);
                Packed::pack(&Team::new(1), &Room::new(0), layout, n, 512, &row)
            };
            let (gate, up) = (weights(0), weights(1000));
            let bias: Vec<f32> = (0..n).map(|i| i as f32 / 8.0).collect();
            for (with_up, q8, rows) in
                [(true, true, 33), (false, true, 7), (true, false, 1), (false, false, 17)]
            {
                let x = input(rows, 512);
                let separate = |kernels| {
                    let ctx = Ctx { team: Team::new(1), kernels };
                    let (mut a, mut b) = (Mat::new(rows, n), Mat::new(rows, n));
                    let of = |weights, bias, out| Linear { weights, bias, store: Store::Set, out };
                    let mut jobs = [of(&gate, Some(&bias[..]), &mut a), of(&up, None, &mut b)];
                    linear(&ctx, &mut act(&x, 0..rows), &mut jobs);
                    let mut out = Act::new(rows, n);
                    glu(&ctx, Glu::Silu, &a, with_up.then_some(&b), &mut out, q8);
                    form(&out, q8)
                };
                let want = separate(scalar().kernels);
                for (kernels, threads) in usable().flat_map(|k| (1..=3).map(move |t| (k, t))) {
                    let ctx = Ctx { team: Team::new(threads), kernels };
                    let up = with_up.then_some((&up, None));
                    let how = Gated { act: Glu::Silu, gate: (&gate, Some(&bias[..])), up };
                    let mut scratch = GatedScratch::new(40, threads);
                    let mut out = Act::new(rows, n);
                    let mut x = act(&x, 0..rows);
                    gated(&ctx, &how, &mut x, &mut scratch, &mut out, q8);
                    let name = kernels.name;
                    assert!(form(&out, q8) == want, "{layout:?} {n}, {rows} rows, {name}");
                }
            }
        }
    }
}

/// The bits of what an operation made: the 8-bit form, or else the f32 rows.
fn form(x: &Act, q8: bool) -> Vec<u32> {
    if !q8 {
        return x.view().data().iter().map(|x| x.to_bits()).collect();
    }
    (0..x.rows()).flat_map(|i| x.quantised(i).flat_map(bits::block).collect::<Vec<_>>()).collect()
}

/// A gated unit's 8-bit form is all there is of it.
#[test]
#[should_panic(expected = "the f32 rows were not made")]
fn rows_that_were_not_made_are_not_read() {
    let (w, x) = (pack(Layout::W4M, 64, 64), input(3, 64));
    let how = Gated { act: Glu::Silu, gate: (&w, None), up: None };
    let mut out = Act::new(3, 64);
    gated(&scalar(), &how, &mut act(&x, 0..3), &mut GatedScratch::new(3, 1), &mut out, true);
    product(&scalar(), &pack(Layout::F32, 16, 64), &mut out);
}
