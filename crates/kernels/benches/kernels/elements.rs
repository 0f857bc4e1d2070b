//! What is computed element by element: norms, rotations, activations, 8-bit forms, residuals. One
//! row, which one thread does, and a prompt's 512. Items are elements.
use super::{On, packed, wave};
use divan::Bencher;
use divan::counter::ItemsCount;
use rinfer_kernels::Act;
use rinfer_kernels::layout::Layout;
use rinfer_kernels::ops::{
    Ctx, Glu, Norm, NormKind, Residual, RopeLayout, Rotate, embed, glu, norm, residual, rotate,
    softcap,
};
use std::fmt;

const COLS: usize = 2048;

struct Case {
    rows: usize,
    on: On,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {COLS} {}", self.rows, self.on)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let each = |rows| On::all().into_iter().map(move |on| Case { rows, on });
    [1, 512].into_iter().flat_map(each).filter(|case| case.rows > 1 || case.on.threads == 1)
}

fn time(bencher: Bencher, case: &Case, mut work: impl FnMut(&Ctx)) {
    let ctx = case.on.ctx();
    bencher.counter(ItemsCount::new(case.rows * COLS)).bench_local(|| work(&ctx));
}

/// A bench each: one operation on every tier, with one of its variants.
macro_rules! variants {
    ($($name:ident = $operation:ident($variant:expr);)*) => {$(
        #[divan::bench(args = cases(), sample_size = 16, sample_count = 50)]
        fn $name(bencher: Bencher, case: &Case) {
            $operation($variant, bencher, case);
        }
    )*};
}
variants! {
    rms_norm = of(NormKind::Rms);
    layer_norm = of(NormKind::Layer);
    rope_of_halves = rope(RopeLayout::Halves);
    rope_of_pairs = rope(RopeLayout::Pairs);
    silu = unit(Glu::Silu);
    gelu_tanh = unit(Glu::GeluTanh);
    gelu = unit(Glu::Gelu);
    relu2 = unit(Glu::Relu2);
    clamped_gelu = unit(Glu::ClampedGelu { limit: 7.0 });
    xielu = unit(Glu::Xielu { p: 0.8, n: 0.8, beta: 0.5, eps: -1e-6 });
}

fn of(kind: NormKind, bencher: Bencher, case: &Case) {
    let weight = vec![0.5; COLS];
    let how = Norm { kind, eps: 1e-6, weight: Some(&weight), bias: None };
    let (x, mut out) = (wave(case.rows, COLS), Act::new(case.rows, COLS));
    time(bencher, case, |ctx| norm(ctx, Some(&how), &x, &mut out, true));
}

fn rope(layout: RopeLayout, bencher: Bencher, case: &Case) {
    let (angles, mut x) = (wave(case.rows, 64), wave(case.rows, COLS));
    let how = Rotate { head_dim: 64, rope: Some((layout, &angles)), ..Rotate::default() };
    time(bencher, case, |ctx| rotate(ctx, &how, &mut x));
}

fn unit(act: Glu, bencher: Bencher, case: &Case) {
    let (gate, mut out) = (wave(case.rows, COLS), Act::new(case.rows, COLS));
    time(bencher, case, |ctx| glu(ctx, act, &gate, Some(&gate), &mut out, true));
}

#[divan::bench(args = cases(), sample_size = 16, sample_count = 50)]
fn capped(bencher: Bencher, case: &Case) {
    let mut x = wave(case.rows, COLS);
    time(bencher, case, |ctx| softcap(ctx, 30.0, &mut x));
}

#[divan::bench(args = cases(), sample_size = 16, sample_count = 50)]
fn quantise(bencher: Bencher, case: &Case) {
    let mut x = Act::new(case.rows, COLS);
    x.f32_mut().data_mut().copy_from_slice(wave(case.rows, COLS).data());
    time(bencher, case, |ctx| {
        // Looking at it to write makes the 8-bit form stale.
        x.f32_mut();
        x.quantise(ctx);
    });
}

#[divan::bench(args = cases(), sample_size = 16, sample_count = 50)]
fn add(bencher: Bencher, case: &Case) {
    let (mut y, mut x) = (wave(case.rows, COLS), wave(case.rows, COLS));
    let how = Residual { post: None, scale: 0.5, skip: None, then: 1.0 };
    time(bencher, case, |ctx| residual(ctx, &how, &mut y, &mut x));
}

/// Looking rows up in a table of each layout, on one thread.
#[divan::bench(args = Layout::ALL.map(|layout| format!("{layout:?}")))]
fn embedding(bencher: Bencher, layout: &str) {
    let layout = Layout::ALL.into_iter().find(|l| format!("{l:?}") == layout).expect("a layout");
    let case = Case { rows: 1, on: On::all()[0] };
    let table = packed(layout, 256, COLS);
    let (mut out, mut id) = (wave(1, COLS), 0);
    time(bencher, &case, |ctx| {
        id = (id + 37) % 256;
        embed(ctx, &table, &[id], 1.0, &mut out);
    });
}
