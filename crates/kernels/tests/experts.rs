//! Mixtures of experts: each row's sum of its own experts' MLPs, and the same bits on every tier,
//! at every thread count, and whatever other rows are in the batch.
use rinfer_kernels::layout::{Layout, Packed, RowCodes};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{
    Choice, Ctx, Experts, ExpertsScratch, Glu, Linear, Stack, Weighs, experts, glu, linear,
    weighted,
};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};
use weights::Random;

mod weights;

const ROWS: usize = 70;

/// Experts, and what a batch chose of them.
struct Case {
    how: Experts,
    x: Mat,
    choices: Vec<Choice>,
    top_k: usize,
    weighs: Weighs,
}

impl Case {
    fn new(
        layout: Layout,
        [count, top_k, d, d_ff]: [usize; 4],
        [gated, bias]: [bool; 2],
        weighs: Weighs,
    ) -> Case {
        let mut random = Random(7);
        let mut stack = |n, k, seed: usize| {
            let one = |e: usize| {
                let row = |i, out: &mut RowCodes| weights::row(layout, k, i + seed + 500 * e, out);
                Packed::pack(&Team::new(1), &Room::new(0), layout, n, k, &row)
            };
            let biases = (0..count * n).map(|_| random.float()).collect();
            Stack::new((0..count).map(one).collect(), bias.then_some(biases))
        };
        let (gate, up, down) = (stack(d_ff, d, 0), stack(d_ff, d, 9000), stack(d, d_ff, 70_000));
        let (act, up, orders) = (Glu::Silu, gated.then_some(up), Vec::new());
        let how = Experts { act, gate, up, down, orders };
        let mut x = Mat::new(ROWS, d);
        x.data_mut().iter_mut().for_each(|x| *x = random.float());
        let mut choices = Vec::new();
        for _ in 0..ROWS {
            // The first experts are chosen often, the last one never.
            let mut left: Vec<u32> = (0..count as u32 - 1).collect();
            for _ in 0..top_k {
                let span = if random.below(2) == 0 { 2 } else { left.len() as u64 };
                let expert = left.remove(random.below(span.min(left.len() as u64)) as usize);
                choices.push(Choice { expert, weight: random.float() });
            }
        }
        Case { how, x, choices, top_k, weighs }
    }

    fn run(&self, ctx: &Ctx, rows: &[usize], store: Store, scratch: &mut ExpertsScratch) -> Mat {
        let d = self.x.cols();
        let (mut x, mut out) = (Act::new(rows.len(), d), Mat::new(rows.len(), d));
        let mut choices = Vec::new();
        for (to, &from) in rows.iter().enumerate() {
            x.f32_mut().row_mut(to).copy_from_slice(self.x.row(from));
            out.row_mut(to).copy_from_slice(self.x.row(from));
            choices.extend_from_slice(&self.choices[from * self.top_k..][..self.top_k]);
        }
        let (how, weighs) = (&self.how, self.weighs);
        experts(ctx, how, &mut x, &mut choices, weighs, scratch, &mut out, store);
        out
    }

    fn scratch(&self, threads: usize) -> ExpertsScratch {
        let down = &self.how.down.weights()[0];
        let counts = [self.how.down.weights().len(), self.top_k];
        ExpertsScratch::new(ROWS, counts, [down.rows(), down.cols()], threads)
    }

    /// One row by itself, expert by expert, with the operations of dense MLPs.
    fn by_hand(&self, i: usize, store: Store) -> Vec<f32> {
        let ctx = ctx(1, TIERS.last().expect("the scalar tier"));
        let mut chosen = self.choices[i * self.top_k..][..self.top_k].to_vec();
        chosen.sort_by_key(|c| c.expert);
        let mut out = Mat::new(1, self.x.cols());
        if store == Store::Add {
            out.row_mut(0).copy_from_slice(self.x.row(i));
        }
        for Choice { expert, weight } in chosen {
            let e = expert as usize;
            let mut x = Act::new(1, self.x.cols());
            x.f32_mut().row_mut(0).copy_from_slice(self.x.row(i));
            if let Some(order) = self.how.orders.get(e) {
                let turned = order.iter().map(|k| self.x.row(i)[*k as usize]).collect::<Vec<_>>();
                x.f32_mut().row_mut(0).copy_from_slice(&turned);
            }
            if self.weighs == Weighs::Input {
                x.f32_mut().data_mut().iter_mut().for_each(|x| *x *= weight);
            }
            let product = |stack: &Stack, x: &mut Act| {
                let weights = &stack.weights()[e];
                let n = weights.rows();
                let mut out = Mat::new(1, n);
                let bias = stack.bias().map(|b| &b[e * n..(e + 1) * n]);
                linear(&ctx, x, &mut [Linear { weights, bias, store: Store::Set, out: &mut out }]);
                out
            };
            let gate = product(&self.how.gate, &mut x);
            let up = self.how.up.as_ref().map(|up| product(up, &mut x));
            let mut hidden = Act::new(1, gate.cols());
            glu(&ctx, self.how.act, &gate, up.as_ref(), &mut hidden, false);
            let y = product(&self.how.down, &mut hidden);
            let weight = if self.weighs == Weighs::Output { weight } else { 1.0 };
            let mut weights = Mat::new(1, 1);
            weights.row_mut(0)[0] = weight;
            weighted(&ctx, &y, &weights, &mut out, Store::Add);
        }
        out.data().to_vec()
    }
}

fn ctx(threads: usize, kernels: &'static Kernels) -> Ctx {
    Ctx { team: Team::new(threads), kernels }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// All rows in one batch, in batches of other sizes, and one by one.
fn check(case: &Case, what: &str) {
    for store in [Store::Set, Store::Add] {
        let want: Vec<_> = (0..ROWS).map(|i| bits(&case.by_hand(i, store))).collect();
        for kernels in TIERS.iter().copied().filter(|tier| (tier.usable)()) {
            for threads in 1..=3 {
                let ctx = ctx(threads, kernels);
                let mut scratch = case.scratch(threads);
                for size in [ROWS, 1, 9, 33] {
                    let all: Vec<usize> = (0..ROWS).rev().collect();
                    for rows in all.chunks(size) {
                        let out = case.run(&ctx, rows, store, &mut scratch);
                        for (at, &i) in rows.iter().enumerate() {
                            let same = bits(out.row(at)) == want[i];
                            let name = kernels.name;
                            assert!(same, "{what}: row {i} of {size} on {name} x{threads}");
                        }
                        let visits: usize = scratch.visited().map(|(_, rows)| rows).sum();
                        assert_eq!(visits, rows.len() * case.top_k);
                    }
                }
            }
        }
    }
}

#[test]
fn sums_are_of_each_rows_own_experts() {
    let output = Weighs::Output;
    let case = |layout, shape, flags, weighs| Case::new(layout, shape, flags, weighs);
    check(&case(Layout::F32, [8, 3, 40, 24], [true, false], output), "floats");
    check(&case(Layout::F16, [5, 1, 24, 72], [false, true], Weighs::Input), "weighed inputs");
    check(&case(Layout::W8, [16, 4, 64, 96], [true, true], output), "8 bits");
    check(&case(Layout::W4M, [4, 2, 96, 160], [true, false], Weighs::Input), "4 bits");
    check(&case(Layout::W4K, [9, 2, 256, 256], [true, false], output), "super-blocks");
    check(&case(Layout::W4, [3, 2, 32, 32], [false, false], output), "without a gate");
    for (layout, weighs) in
        [(Layout::W4, output), (Layout::F16, output), (Layout::W4Z, Weighs::Input)]
    {
        let mut ordered = case(layout, [4, 2, 64, 96], [true, false], weighs);
        let turned = |e: u32| (0..64).map(|k| (k * 7 + e) % 64).collect();
        ordered.how.orders = (0..4).map(turned).collect();
        check(&ordered, "in orders of their own");
    }
}

#[test]
#[should_panic(expected = "chose an expert twice")]
fn an_expert_is_chosen_once() {
    let mut case = Case::new(Layout::F32, [4, 2, 8, 8], [true, false], Weighs::Output);
    case.choices.iter_mut().for_each(|c| c.expert = 1);
    let all: Vec<usize> = (0..ROWS).collect();
    let mut scratch = ExpertsScratch::new(ROWS, [4, 2], [8, 8], 1);
    case.run(&ctx(1, Kernels::best()), &all, Store::Set, &mut scratch);
}
