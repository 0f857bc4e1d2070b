//! Chains: the bits of their operations one after another, each by itself, of batches and of single
//! rows, on every tier, at every thread count, watched or not; in one run of the threads.
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::kv::{KvKind, PAGE, Pool, Reach};
use rinfer_kernels::layout::{Layout, Packed, Reads, RowCodes};
use rinfer_kernels::mat::{Slot, Store};
use rinfer_kernels::ops::{self, *};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};
use weights::Random;

mod weights;

/// Weights and a bias.
struct Product(Packed, Option<Vec<f32>>);

impl Product {
    fn new(layout: Layout, [rows, cols]: [usize; 2], bias: bool) -> Product {
        let fill = |i: usize, codes: &mut RowCodes| weights::row(layout, cols, i, codes);
        let packed = Packed::pack(&Team::new(1), &Room::new(0), layout, rows, cols, &fill);
        Product(packed, bias.then(|| floats(rows)))
    }
    fn view(&self) -> Weights<'_> {
        (&self.0, self.1.as_deref())
    }
    fn q8(&self) -> bool {
        self.0.layout().reads() == Reads::Q8
    }
    /// As a single operation.
    fn of(&self, ctx: &Ctx, x: &mut Act, store: Store, out: &mut Mat) {
        let (weights, bias) = self.view();
        let turned = Turned::new([x.cols()], x.rows());
        linear_in_orders(ctx, x, &mut [Linear { weights, bias, store, out }], &turned);
    }
    /// The same, its columns in an order.
    fn turned(self) -> Product {
        let cols = self.0.cols() as u32;
        let order = (0..cols).map(|k| (k * 7 + 3) % cols).collect();
        Product(self.0.in_order(order), self.1)
    }
}

fn floats(n: usize) -> Vec<f32> {
    let mut random = Random(n as u64);
    (0..n).map(|_| random.float()).collect()
}

fn mat(rows: usize, cols: usize, seed: u64) -> Mat {
    let (mut m, mut random) = (Mat::new(rows, cols), Random(seed));
    m.data_mut().fill_with(|| random.float());
    m
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// How a branch ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// From an input to a matrix.
    Apart,
    Stream,
    Add,
    Joined,
}
const ENDS: [End; 4] = [End::Apart, End::Stream, End::Add, End::Joined];

/// The stream and what a branch reads and writes beside it.
struct Flow {
    stream: Mat,
    input: Act,
    out: Mat,
    weight: Vec<f32>,
    /// Of what a branch that joins reads.
    order: Vec<u32>,
}

impl Flow {
    fn new(rows: usize, d: usize, seed: u64) -> Flow {
        let (input, out) = (Act::new(rows, d), mat(rows, d, seed + 1));
        let order = (0..d as u32).rev().collect();
        Flow { stream: mat(rows, d, seed), input, out, weight: floats(d), order }
    }
    fn norm(weight: &[f32]) -> Norm<'_> {
        Norm { kind: NormKind::Rms, eps: 1e-5, weight: Some(weight), bias: None }
    }
    fn residual(weight: &[f32]) -> Residual<'_> {
        Residual { post: Some(Flow::norm(weight)), scale: 0.7, skip: None, then: 1.5 }
    }
    /// Chains what is `between` to both ends.
    fn around<'a>(
        &'a mut self,
        chain: &mut Chain<'a>,
        end: End,
        q8: bool,
        between: impl FnOnce(&mut Chain<'a>, &mut ActSlot<'a>, (Slot<'a>, Store)),
    ) {
        let Flow { stream, input, out, weight, order } = self;
        let (rows, stream) = (stream.rows(), stream.slot());
        // Few rows are brought to 8 bits where they are read.
        let mut input = input.lend(chain.ctx(), rows, q8 && (rows > 2 || end != End::Apart));
        let norm = (end != End::Apart).then(|| Flow::norm(weight));
        let order = (end == End::Joined).then_some(&order[..]);
        chain.norm(norm, order, stream, input);
        let to = match end {
            End::Stream => (stream, Store::Add),
            End::Add => (out.slot(), Store::Add),
            End::Apart | End::Joined => (out.lend(rows), Store::Set),
        };
        between(chain, &mut input, to);
        if end == End::Joined {
            chain.residual(Flow::residual(weight), to.0, stream);
        }
    }
    /// The same ends as single operations around `between`.
    fn singly(
        &mut self,
        ctx: &Ctx,
        end: End,
        q8: bool,
        between: impl FnOnce(&mut Act, Store, &mut Mat),
    ) {
        let Flow { stream, input, out, weight, order } = self;
        let pre = Flow::norm(weight);
        match end {
            End::Joined => norm_in_order(ctx, Some(&pre), order, stream, input, q8),
            _ => norm(ctx, Some(&pre).filter(|_| end != End::Apart), stream, input, q8),
        }
        match end {
            End::Stream => between(input, Store::Add, stream),
            End::Add => between(input, Store::Add, out),
            _ => between(input, Store::Set, out),
        }
        if end == End::Joined {
            residual(ctx, &Flow::residual(weight), out, stream);
        }
    }
    fn bits(&self) -> Vec<u32> {
        [bits(self.stream.data()), bits(self.out.data())].concat()
    }
}

/// Runs a chain, in as many runs as are expected.
fn go(mut chain: Chain<'_>, watched: bool, runs: u64, stage: Stage) {
    let (ctx, mut seen) = (chain.ctx(), vec![]);
    let (before, several) = (ctx.team.runs(), ctx.team.threads() > 1);
    let mut watch = |stage| seen.push(stage);
    chain.run(watched.then_some(&mut watch as &mut dyn FnMut(Stage)));
    let expect = if several { runs } else { 0 };
    assert!(watched || ctx.team.runs() - before == expect, "a chain is one run");
    assert!(!watched || seen.contains(&stage));
}

/// `work` gives the bits of `want` on every tier, with 1 to 4 threads.
fn everywhere(want: &[Vec<u32>], what: &str, work: impl Fn(&Ctx, bool) -> Vec<Vec<u32>>) {
    for tier in TIERS.iter().filter(|t| (t.usable)()) {
        for threads in 1..=4 {
            let ctx = Ctx { team: Team::new(threads), kernels: tier };
            let watched = threads == 3;
            assert!(work(&ctx, watched) == want, "{what}, {}, {threads} threads", tier.name);
        }
    }
}

fn scalar() -> Ctx {
    Ctx { team: Team::new(1), kernels: TIERS.last().expect("a tier") }
}

/// From what leaves heads as they are.
type Rotation = fn(Rotate<'static>) -> Heads<'static>;

/// An attention and the batches that go through it.
struct Attention {
    q: Product,
    k: Option<Product>,
    v: Option<Product>,
    gate: Option<Product>,
    o: Product,
    attend: Attend<'static>,
    rotate: Rotation,
    end: End,
    kind: KvKind,
    batches: Vec<Vec<AttendRow>>,
    /// That a batch takes of several threads.
    runs: u64,
}

/// Rows of sequence `table` from position `past` on.
fn span(table: usize, past: usize, len: usize) -> Vec<AttendRow> {
    (past..past + len).map(|pos| AttendRow { table, pos }).collect()
}

impl Attention {
    fn new(layout: Layout, d: usize, attend: Attend<'static>) -> Attention {
        let Attend { heads, kv_heads, head_dim, v_dim, .. } = attend;
        let product = |rows| Product::new(layout, [rows, d], true);
        Attention {
            q: product(heads * head_dim),
            k: Some(product(kv_heads * head_dim)),
            v: Some(product(kv_heads * v_dim)),
            gate: None,
            o: Product::new(layout, [d, heads * v_dim], false),
            attend,
            rotate: |plain| Heads { q: plain, k: plain, v: plain, v_from_k: false },
            end: End::Stream,
            kind: KvKind::F16,
            runs: 1,
            // A prompt, steps across the border of a page, other sequences beside it.
            batches: vec![
                span(0, 0, 62),
                span(0, 62, 1),
                span(0, 63, 1),
                span(0, 64, 1),
                [span(1, 0, 3), span(0, 65, 2), span(2, 0, 1)].concat(),
                [span(1, 3, 1), span(2, 1, 1), span(0, 67, 1)].concat(),
            ],
        }
    }
    fn d(&self) -> usize {
        self.q.0.cols()
    }
    fn heads(&self) -> Heads<'static> {
        let heads = (self.rotate)(Rotate { head_dim: self.attend.head_dim, ..Rotate::default() });
        Heads { v: Rotate { head_dim: self.attend.v_dim, ..heads.v }, ..heads }
    }
    fn pages(&self) -> (Pool, Vec<Vec<u32>>) {
        let longest = self.batches.iter().flatten().map(|row| row.pos).max().expect("a row");
        let each = longest as u32 / PAGE as u32 + 1;
        let pool = Pool::new(self.kind, self.attend.keeps(), 3 * each as usize);
        (pool, (0..3).map(|i| (i * each..(i + 1) * each).rev().collect()).collect())
    }

    /// All batches as chains; the bits of each, and of the pages.
    fn chains(&self, ctx: &Ctx, watched: bool) -> Vec<Vec<u32>> {
        let (mut pool, tables) = self.pages();
        let Attend { heads, kv_heads, head_dim, v_dim, .. } = self.attend;
        let most = self.batches.iter().map(Vec::len).max().expect("a batch");
        let (context, threads) = (tables[0].len() * PAGE, ctx.team.threads());
        let mut partial = AttentionScratch::new(&self.attend, self.kind, most, context, threads);
        let [mut q, mut k, mut v] = [heads * head_dim, kv_heads * head_dim, kv_heads * v_dim]
            .map(|cols| Mat::new(most, cols));
        let mut gates = self.gate.as_ref().map(|gate| Mat::new(most, gate.0.rows()));
        let [mut out, mut passed] = [(); 2].map(|()| Act::new(most, heads * v_dim));
        let turned = Turned::new([self.o.0.cols()], most);
        let mut all = vec![];
        for (i, rows) in self.batches.iter().enumerate() {
            let n = rows.len();
            let mut flow = Flow::new(n, self.d(), i as u64);
            let places = Places { rows, tables: &tables, chosen: None, pool: &mut pool };
            let mut room = ops::Room::default();
            let mut chain = Chain::new(ctx, &mut room, watched);
            flow.around(&mut chain, self.end, self.q.q8(), |chain, x, (to, store)| {
                let (q, k, v) = (q.lend(n), k.lend(n), v.lend(n));
                let gates = gates.as_mut().map(|gates| gates.lend(n));
                let jobs = [
                    Some((self.q.view(), Store::Set, q)),
                    self.k.as_ref().map(|w| (w.view(), Store::Set, k)),
                    self.v.as_ref().map(|w| (w.view(), Store::Set, v)),
                    self.gate.as_ref().zip(gates).map(|(w, to)| (w.view(), Store::Set, to)),
                ];
                chain.products(Stage::Products, x, &jobs, &turned);
                let q8 = self.o.q8() && self.o.0.order().is_none();
                let mut made = out.lend(ctx, n, q8 && gates.is_none());
                let (how, kv) = ((self.heads(), self.attend), self.k.is_some().then_some((k, v)));
                chain.attention(how, places, q, kv, &mut partial, made);
                if let Some(gates) = gates {
                    let passed = passed.lend(ctx, n, q8);
                    chain.gate_heads(gates, made.f32(), passed);
                    made = passed;
                }
                let job = Some((self.o.view(), store, to));
                chain.products(Stage::Products, &mut made, &[job], &turned);
            });
            go(chain, watched, self.runs, Stage::Attention);
            all.push(flow.bits());
        }
        all.push(
            (0..pool.pages() as u32).flat_map(|i| pool.page(i).to_vec()).map(u32::from).collect(),
        );
        all
    }

    /// The same by single operations.
    fn singly(&self, ctx: &Ctx) -> Vec<Vec<u32>> {
        let (mut pool, tables) = self.pages();
        let Attend { heads, kv_heads, head_dim, v_dim, .. } = self.attend;
        let context = tables[0].len() * PAGE;
        let mut all = vec![];
        for (i, rows) in self.batches.iter().enumerate() {
            let n = rows.len();
            let mut flow = Flow::new(n, self.d(), i as u64);
            flow.singly(ctx, self.end, self.q.q8(), |x, store, to| {
                let [mut q, mut k, mut v] =
                    [heads * head_dim, kv_heads * head_dim, kv_heads * v_dim]
                        .map(|c| Mat::new(n, c));
                let how = self.heads();
                self.q.of(ctx, x, Store::Set, &mut q);
                self.k.iter().for_each(|w| w.of(ctx, x, Store::Set, &mut k));
                self.v.iter().for_each(|w| w.of(ctx, x, Store::Set, &mut v));
                if how.v_from_k {
                    v.data_mut().copy_from_slice(k.data());
                }
                for (how, x) in [(&how.q, &mut q), (&how.k, &mut k), (&how.v, &mut v)] {
                    rotate(ctx, how, x);
                }
                let kv = self.k.is_some().then_some((&k, &v));
                let mut out = Act::new(n, heads * v_dim);
                let mut scratch = AttentionScratch::new(&self.attend, self.kind, n, context, 1);
                let places = Places { rows, tables: &tables, chosen: None, pool: &mut pool };
                attention(ctx, &self.attend, places, &q, kv, &mut scratch, &mut out, false);
                if let Some(gate) = &self.gate {
                    let (mut gates, mut passed) =
                        (Mat::new(n, gate.0.rows()), Act::new(n, out.cols()));
                    gate.of(ctx, x, Store::Set, &mut gates);
                    gate_heads(ctx, &gates, &out, &mut passed, false);
                    out = passed;
                }
                self.o.of(ctx, &mut out, store, to);
            });
            all.push(flow.bits());
        }
        all.push(
            (0..pool.pages() as u32).flat_map(|i| pool.page(i).to_vec()).map(u32::from).collect(),
        );
        all
    }

    fn check(&self, what: &str) {
        everywhere(&self.singly(&scalar()), what, |ctx, watched| self.chains(ctx, watched));
    }
}

fn plain(heads: usize, kv_heads: usize, head_dim: usize) -> Attend<'static> {
    Attend::plain(heads, kv_heads, head_dim, 1.0 / (head_dim as f32).sqrt())
}

#[test]
fn attentions_of_all_shapes() {
    for (heads, kv_heads, head_dim) in [(1, 1, 1), (2, 1, 5), (6, 2, 24), (3, 3, 17), (8, 4, 10)] {
        let shape = format!("{heads} of {head_dim} over {kv_heads}");
        for end in ENDS {
            let a = Attention::new(Layout::F32, 33, plain(heads, kv_heads, head_dim));
            Attention { end, ..a }.check(&format!("{shape}, {end:?}"));
        }
    }
    let of_another_width = Attend { v_dim: 8, ..plain(4, 2, 24) };
    Attention::new(Layout::F32, 20, of_another_width).check("narrow values");
}

#[test]
fn attentions_of_all_layouts() {
    for (layout, d) in [(Layout::F16, 31), (Layout::W8, 96), (Layout::W4M, 64), (Layout::W6K, 256)]
    {
        // Heads that are whole blocks, that are together, and that are not even then.
        for (heads, kv_heads, head_dim) in
            [(4, 2, 64), (8, 2, 32), (16, 4, 16), (32, 4, 8), (32, 32, 8)]
        {
            for end in [End::Stream, End::Joined] {
                Attention { end, ..Attention::new(layout, d, plain(heads, kv_heads, head_dim)) }
                    .check(&format!("{layout:?}, {heads} of {head_dim} over {kv_heads}, {end:?}"));
            }
        }
    }
}

/// What heads go through, of 6 and 2 heads of 16.
const HEADS: [(&str, Rotation); 6] = [
    ("angles", |plain| {
        let rope = Some((RopeLayout::Halves, angles(8)));
        let rotated = Rotate { rope, ..plain };
        Heads { q: rotated, k: rotated, v: plain, v_from_k: false }
    }),
    ("norms of heads, pairs, bounds", |plain| {
        let norm = Some(HeadNorm::PerHead(leaked(16)));
        let rope = Some((RopeLayout::Pairs, angles(16)));
        let rotated = Rotate { norm, clip: Some(0.5), rope, ..plain };
        Heads { q: rotated, k: rotated, v: Rotate { norm, ..plain }, v_from_k: false }
    }),
    ("norms of each head, after", |plain| {
        let rope = Some((RopeLayout::Halves, angles(16)));
        let then = |n| Some(HeadNorm::EachHead(leaked(n)));
        let q = Rotate { rope, then: then(96), ..plain };
        Heads { q, k: Rotate { then: then(32), ..q }, v: plain, v_from_k: false }
    }),
    ("norms of rows", |plain| {
        let norm = |n| Some(HeadNorm::Whole(leaked(n)));
        let q = Rotate { norm: norm(96), ..plain };
        Heads { q, k: Rotate { norm: norm(32), ..plain }, v: plain, v_from_k: false }
    }),
    ("factors of rows", |plain| {
        let scales = Some(&*Box::leak(floats(70).into_boxed_slice()));
        Heads { q: Rotate { scales, ..plain }, k: plain, v: plain, v_from_k: false }
    }),
    ("values of keys", |plain| {
        let rotated = Rotate { rope: Some((RopeLayout::Halves, angles(16))), ..plain };
        let norm = Some(HeadNorm::PerHead(leaked(16)));
        Heads { q: rotated, k: rotated, v: Rotate { norm, ..plain }, v_from_k: true }
    }),
];

fn angles(dim: usize) -> &'static Mat {
    Box::leak(Box::new(mat(70, dim, 5)))
}

fn leaked(n: usize) -> Norm<'static> {
    Norm {
        kind: NormKind::Rms,
        eps: 1e-6,
        weight: Some(Box::leak(floats(n).into_boxed_slice())),
        bias: None,
    }
}

#[test]
fn heads_before_they_meet() {
    for (what, rotate) in HEADS {
        for layout in [Layout::F32, Layout::W4] {
            let mut a = Attention { rotate, ..Attention::new(layout, 64, plain(6, 2, 16)) };
            if what == "values of keys" {
                a.v = None;
            }
            a.check(&format!("{what}, {layout:?}"));
            (a.k, a.v) = (None, None);
            a.check(&format!("{what}, shared pages, {layout:?}"));
        }
    }
}

#[test]
fn gates_of_heads() {
    for layout in [Layout::F32, Layout::W8] {
        for gates in [8, 128] {
            let a = Attention::new(layout, 64, plain(8, 2, 16));
            let gate = Some(Product::new(layout, [gates, 64], false));
            Attention { gate, ..a }.check(&format!("{gates} gates, {layout:?}"));
        }
    }
}

#[test]
fn outputs_in_an_order() {
    for layout in [Layout::F32, Layout::W4Z] {
        for gates in [None, Some(8)] {
            let a = Attention::new(layout, 64, plain(8, 2, 16));
            let gate = gates.map(|gates| Product::new(layout, [gates, 64], false));
            let o = Product::new(layout, [64, 128], true).turned();
            Attention { gate, o, ..a }.check(&format!("{gates:?} gates, {layout:?}, in an order"));
        }
    }
}

#[test]
fn windows_caps_and_sinks() {
    let sinks = Some(&[0.5, -3.0, 4.0, 0.0, -10.0, 2.0][..]);
    let shapes = [
        Attend { reach: Reach::Window(20), ..plain(6, 2, 16) },
        Attend { reach: Reach::Chunk(33), sinks, ..plain(6, 2, 16) },
        Attend { softcap: Some(0.5), ..plain(6, 2, 16) },
    ];
    for (i, shape) in shapes.into_iter().enumerate() {
        Attention::new(Layout::W8, 32, shape).check(&format!("shape {i}"));
    }
}

#[test]
fn pages_of_all_kinds() {
    for kind in [KvKind::F32, KvKind::Q8] {
        for (heads, kv_heads, head_dim) in [(6, 2, 24), (9, 3, 64)] {
            let a = Attention::new(Layout::F32, 33, plain(heads, kv_heads, head_dim));
            Attention { kind, ..a }.check(&format!("{kind:?}, {heads} of {head_dim}"));
        }
    }
}

/// So many pages that one row's are shared out, and go through the scratch in waves.
#[test]
fn long_contexts() {
    let [half, eight] = [KvKind::F16, KvKind::Q8];
    for (kind, kv_heads, len) in
        [(half, 1, 64 * 20 + 3), (half, 3, 64 * 3), (eight, 3, 64 * 3), (half, 1, 64 * 150)]
    {
        let mut a = Attention::new(Layout::F32, 8, plain(2 * kv_heads, kv_heads, 4));
        a.kind = kind;
        a.rotate = |plain| {
            let norm = Some(HeadNorm::PerHead(leaked(4)));
            Heads { q: Rotate { norm, ..plain }, k: plain, v: plain, v_from_k: false }
        };
        a.batches = vec![span(0, 0, len), span(0, len, 1), span(0, len + 1, 1)];
        let want = a.singly(&Ctx { team: Team::new(1), kernels: Kernels::best() });
        for threads in 2..=4 {
            let ctx = Ctx { team: Team::new(threads), kernels: Kernels::best() };
            assert!(a.chains(&ctx, false) == want, "{len} positions, {threads} threads");
        }
    }
}

/// More waves than a run has phases.
#[test]
fn contexts_of_several_runs() {
    let mut a = Attention::new(Layout::F32, 4, plain(1, 1, 4));
    (a.batches, a.runs) = (vec![span(0, 64 * 2000, 1)], 2);
    let two = Ctx { team: Team::new(2), kernels: Kernels::best() };
    let one = Ctx { team: Team::new(1), kernels: Kernels::best() };
    assert!(a.chains(&two, false) == a.singly(&one));
}

/// A product in an order is that of its input brought in the order by hand.
#[test]
fn products_in_orders() {
    for layout in [Layout::F32, Layout::W4Z] {
        let [a, b, c] = [40, 17, 64].map(|rows| Product::new(layout, [rows, 96], true));
        let x = mat(5, 96, 1);
        let act = |order: Option<&[u32]>| {
            let mut act = Act::new(5, 96);
            act.f32_mut().data_mut().copy_from_slice(x.data());
            for (i, order) in (0..5).zip(order.iter().cycle()) {
                let turned = order.iter().map(|k| x.row(i)[*k as usize]);
                act.f32_mut().row_mut(i).iter_mut().zip(turned).for_each(|(x, y)| *x = y);
            }
            act
        };
        let reversed = |p: &Product| p.0.clone().in_order((0..96).rev().collect());
        let (orders, again) = ([reversed(&a), b.0.clone(), c.0.clone()], reversed(&c));
        let weights = [&orders[0], &orders[1], &orders[2], &again];
        let order: Vec<u32> = (0..96).rev().collect();
        let want = [(&a, Some(&order[..])), (&b, None), (&c, None), (&c, Some(&order[..]))].map(
            |(product, order)| {
                let mut out = Mat::new(5, product.0.rows());
                product.of(&scalar(), &mut act(order), Store::Set, &mut out);
                bits(out.data())
            },
        );
        everywhere(&want, &format!("{layout:?}"), |ctx, _| {
            let mut outs = weights.map(|weights| Mat::new(5, weights.rows()));
            let biases = [&a, &b, &c, &c].map(|product| product.1.as_deref());
            let jobs = weights.iter().zip(biases).zip(&mut outs);
            let mut jobs: Vec<Linear<'_>> = jobs
                .map(|((weights, bias), out)| Linear { weights, bias, store: Store::Set, out })
                .collect();
            linear_in_orders(ctx, &mut act(None), &mut jobs, &Turned::new([96], 5));
            outs.iter().map(|out| bits(out.data())).collect()
        });
    }
}

/// An MLP.
struct Mlp {
    gate: Product,
    up: Option<Product>,
    down: Product,
    sparsity: Option<f32>,
    end: End,
}

const ROWS: [usize; 7] = [1, 2, 5, 16, 17, 33, 1];

impl Mlp {
    fn new(layout: Layout, [d, d_ff]: [usize; 2]) -> Mlp {
        let product = |shape| Product::new(layout, shape, true);
        let (gate, up) = (product([d_ff, d]), Some(product([d_ff, d])));
        Mlp { gate, up, down: product([d, d_ff]), sparsity: None, end: End::Stream }
    }
    fn chains(&self, ctx: &Ctx, watched: bool) -> Vec<Vec<u32>> {
        let (threads, d_ff) = (ctx.team.threads(), self.down.0.cols());
        let [mut gate, mut up] = [(); 2].map(|()| Mat::new(33, d_ff));
        let (mut scratch, mut hidden) = (GatedScratch::new(33, threads), Act::new(33, d_ff));
        let turned = Turned::default();
        let each = |rows| {
            let mut flow = Flow::new(rows, self.gate.0.cols(), rows as u64);
            let mut room = ops::Room::default();
            let mut chain = Chain::new(ctx, &mut room, watched);
            flow.around(&mut chain, self.end, self.gate.q8(), |chain, x, (to, store)| {
                let mut hidden = hidden.lend(ctx, rows, self.down.q8());
                if rows > FEW_ROWS && self.sparsity.is_none() {
                    let up = self.up.as_ref().map(Product::view);
                    let how = Gated { act: Glu::Silu, gate: self.gate.view(), up };
                    hidden = chain.gated(how, x, &mut scratch, hidden);
                } else {
                    let (gate, up) = (gate.lend(rows), up.lend(rows));
                    let second = self.up.as_ref().map(|w| (w.view(), Store::Set, up));
                    let jobs = [Some((self.gate.view(), Store::Set, gate)), second];
                    chain.products(Stage::Products, x, &jobs, &turned);
                    self.sparsity.iter().for_each(|by| chain.sparsify(*by, gate));
                    let up = second.map(|_| up.into());
                    chain.glu(Stage::Unit, Glu::Silu, gate, up, hidden);
                }
                let job = Some((self.down.view(), store, to));
                chain.products(Stage::Products, &mut hidden, &[job], &turned);
            });
            go(chain, watched, 1, Stage::Products);
            flow.bits()
        };
        ROWS.into_iter().map(each).collect()
    }
    fn singly(&self, ctx: &Ctx) -> Vec<Vec<u32>> {
        let d_ff = self.down.0.cols();
        let each = |rows| {
            let mut flow = Flow::new(rows, self.gate.0.cols(), rows as u64);
            flow.singly(ctx, self.end, self.gate.q8(), |x, store, to| {
                let [mut gate, mut up] = [(); 2].map(|()| Mat::new(rows, d_ff));
                let mut hidden = Act::new(rows, d_ff);
                self.gate.of(ctx, x, Store::Set, &mut gate);
                self.up.iter().for_each(|w| w.of(ctx, x, Store::Set, &mut up));
                self.sparsity.iter().for_each(|by| sparsify(ctx, *by, &mut gate));
                glu(ctx, Glu::Silu, &gate, self.up.is_some().then_some(&up), &mut hidden, false);
                self.down.of(ctx, &mut hidden, store, to);
            });
            flow.bits()
        };
        ROWS.into_iter().map(each).collect()
    }
    fn check(&self, what: &str) {
        everywhere(&self.singly(&scalar()), what, |ctx, watched| self.chains(ctx, watched));
    }
}

#[test]
fn mlps() {
    let shapes = [
        (Layout::F32, [1, 1]),
        (Layout::F32, [33, 65]),
        (Layout::F16, [20, 300]),
        (Layout::W8, [64, 96]),
        (Layout::W5M, [32, 544]),
        (Layout::W4K, [256, 768]),
    ];
    for (layout, shape) in shapes {
        for end in ENDS {
            let gated = Mlp { end, ..Mlp::new(layout, shape) };
            gated.check(&format!("{layout:?}, {shape:?}, {end:?}"));
            Mlp { up: None, ..gated }
                .check(&format!("{layout:?}, {shape:?}, {end:?}, one product"));
        }
        let sparsity = Some(0.3);
        Mlp { sparsity, ..Mlp::new(layout, shape) }
            .check(&format!("{layout:?}, {shape:?}, sparse"));
    }
}

#[test]
#[should_panic(expected = "an operation writes what it reads")]
fn an_operation_writes_no_operand() {
    let (ctx, mut x) = (scalar(), mat(2, 8, 1));
    let mut room = ops::Room::default();
    let mut chain = Chain::new(&ctx, &mut room, false);
    let x = x.slot();
    chain.gate(Stage::State, Gate::Sigmoid { scale: 1.0 }, x, x);
}

/// More operations than a chain holds, little ones and large ones; each sees what those before it did.
#[test]
fn chains_of_many_operations() {
    for rows in [1, 300] {
        let counts = |threads, watched| {
            let ctx = Ctx { team: Team::new(threads), kernels: Kernels::best() };
            let (one, mut x) = (mat(rows, 64, 3), Mat::new(rows, 64));
            let slot = x.slot();
            let mut room = ops::Room::default();
            let mut chain = Chain::new(&ctx, &mut room, watched);
            for i in 0..100 {
                chain.plain(Stage::Norm, Plain::Scale(1.0 + i as f32 / 64.0), slot);
                chain.plain(Stage::Norm, Plain::Add((&one).into()), slot);
            }
            chain.run(watched.then_some(&mut (|_| ()) as &mut dyn FnMut(Stage)));
            bits(x.data())
        };
        let want = counts(1, false);
        assert!((2..=3).all(|threads| counts(threads, false) == want), "{rows} rows");
        assert!(counts(2, true) == want, "{rows} rows, watched");
    }
}
