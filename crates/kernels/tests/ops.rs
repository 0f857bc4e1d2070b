//! The elementwise operations: near their definitions in f64, and the same bits on every tier,
//! at every thread count, and for a row alone or in a batch.
use rinfer_kernels::ops::*;
use rinfer_kernels::{Act, Kernels, Mat, TIERS, Team};

mod bits;

/// A small generator of numbers around zero.
struct Random(u64);
impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0) * 4.0
    }
    fn mat(&mut self, rows: usize, cols: usize) -> Mat {
        let mut m = Mat::new(rows, cols);
        m.data_mut().fill_with(|| self.next());
        m
    }
    fn vec(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

fn copy(m: &Mat, rows: std::ops::Range<usize>) -> Mat {
    let mut c = Mat::new(rows.len(), m.cols());
    c.data_mut().copy_from_slice(&m.data()[rows.start * m.cols()..rows.end * m.cols()]);
    c
}

fn ctx(threads: usize, kernels: &'static Kernels) -> Ctx {
    Ctx { team: Team::new(threads), kernels }
}

/// Everything that an operation made of some rows, as bits.
type Bits = Vec<Vec<u32>>;

fn bits(m: &Mat) -> Bits {
    (0..m.rows()).map(|i| m.row(i).iter().map(|x| x.to_bits()).collect()).collect()
}
fn act_bits(a: &Act) -> Bits {
    let row = |i| {
        let values = a.view().row(i).iter().map(|x| x.to_bits());
        values.chain(a.quantised(i).flat_map(bits::block)).collect()
    };
    (0..a.rows()).map(row).collect()
}

/// Shapes with ends of every kind, and some that are worth the team.
const COLS: [usize; 12] = [1, 2, 7, 15, 16, 17, 31, 33, 65, 576, 1000, 3000];

/// `op` on rows `range` of fixed inputs must give the bits of the scalar tier on one thread, on
/// every tier, with 1 to 3 threads, in a batch and row by row.
fn check(rows: usize, op: impl Fn(&Ctx, std::ops::Range<usize>) -> Bits) -> Bits {
    let scalar = ctx(1, TIERS.last().expect("a tier"));
    let want = op(&scalar, 0..rows);
    for tier in TIERS.iter().filter(|t| (t.usable)()) {
        for threads in 1..=3 {
            let ctx = ctx(threads, tier);
            assert!(op(&ctx, 0..rows) == want, "{}, {threads} threads", tier.name);
            for i in (0..rows).step_by(3) {
                assert!(op(&ctx, i..i + 1)[0] == want[i], "{}, row {i} alone", tier.name);
            }
        }
    }
    want
}

fn near(got: &Bits, want: impl Fn(usize, usize) -> f64, tolerance: f64) {
    for (i, row) in got.iter().enumerate() {
        for (j, &x) in row.iter().enumerate() {
            let (x, want) = (f64::from(f32::from_bits(x)), want(i, j));
            assert!((x - want).abs() <= tolerance * (1.0 + want.abs()), "[{i}, {j}]: {x}, {want}");
        }
    }
}

#[test]
fn norms() {
    for cols in COLS {
        let mut random = Random(cols as u64);
        let x = random.mat(11, cols);
        let (weight, bias) = (random.vec(cols), random.vec(cols));
        for kind in [NormKind::Rms, NormKind::Layer, NormKind::None] {
            for (weight, bias) in
                [(None, None), (Some(&weight), None), (Some(&weight), Some(&bias))]
            {
                let n = Norm {
                    kind,
                    eps: 1e-5,
                    weight: weight.map(|w| &w[..]),
                    bias: bias.map(|b| &b[..]),
                };
                let run = |ctx: &Ctx, rows: std::ops::Range<usize>, q8| {
                    let mut out = Act::new(11, cols);
                    norm(ctx, Some(&n), &copy(&x, rows), &mut out, q8);
                    out
                };
                check(11, |ctx, rows| act_bits(&run(ctx, rows, true)));
                let y = check(11, |ctx, rows| bits(run(ctx, rows, false).f32_mut()));
                let in_place = check(11, |ctx, rows| {
                    let mut x = copy(&x, rows);
                    norm_in_place(ctx, &n, &mut x);
                    bits(&x)
                });
                assert!(in_place == y);
                let order: Vec<u32> = (0..cols as u32).rev().collect();
                let mut turned = copy(&x, 0..11);
                (0..11).for_each(|i| turned.row_mut(i).reverse());
                for q8 in [true, false] {
                    let found = check(11, |ctx, rows| {
                        let mut out = Act::new(11, cols);
                        norm_in_order(ctx, Some(&n), &order, &copy(&x, rows), &mut out, q8);
                        if q8 { act_bits(&out) } else { bits(out.f32_mut()) }
                    });
                    let want = check(11, |ctx, rows| {
                        let mut out = Act::new(11, cols);
                        norm(ctx, Some(&n), &copy(&turned, rows), &mut out, q8);
                        if q8 { act_bits(&out) } else { bits(out.f32_mut()) }
                    });
                    assert!(found == want);
                }
                near(
                    &y,
                    |i, j| {
                        let row = x.row(i).iter().map(|&x| f64::from(x));
                        let mean = match kind {
                            NormKind::Rms | NormKind::None => 0.0,
                            NormKind::Layer => row.clone().sum::<f64>() / cols as f64,
                        };
                        let square = row.map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64;
                        let divisor = match kind {
                            NormKind::None => 1.0,
                            _ => (square + 1e-5).sqrt(),
                        };
                        let y = (f64::from(x.row(i)[j]) - mean) / divisor;
                        let (w, b) = (weight.map_or(1.0, |w| w[j]), bias.map_or(0.0, |b| b[j]));
                        y * f64::from(w) + f64::from(b)
                    },
                    3e-6,
                );
            }
        }
    }
}

#[test]
fn quantisation() {
    for cols in COLS {
        let mut x = Random(cols as u64).mat(11, cols);
        x.row_mut(3).fill(0.0);
        x.row_mut(4).iter_mut().for_each(|x| *x *= 1e-30);
        x.row_mut(5).iter_mut().for_each(|x| *x *= 1e-37);
        let run = |ctx: &Ctx, rows| {
            let mut out = Act::new(11, cols);
            norm(ctx, None, &copy(&x, rows), &mut out, false);
            quantise(ctx, &mut out);
            out
        };
        check(11, |ctx, rows| act_bits(&run(ctx, rows)));
        let a = run(&ctx(1, Kernels::best()), 0..11);
        for i in 0..11 {
            assert_eq!(a.quantised(i).count(), cols.div_ceil(32));
            for (b, x) in a.quantised(i).zip(x.row(i).chunks(32)) {
                let largest = x.iter().fold(0f32, |m, x| m.max(x.abs()));
                let largest = if i == 5 { 0.0 } else { largest };
                assert_eq!(b.scale, largest / 127.0);
                let code = |x: &f32| (x * (127.0 / largest)).round_ties_even() as i8;
                let mut codes: Vec<i8> =
                    x.iter().map(|x| if largest == 0.0 { 0 } else { code(x) }).collect();
                codes.resize(32, 0);
                assert_eq!(b.q[..], codes);
                let sum = |q: &[i8]| q.iter().map(|&q| i32::from(q)).sum::<i32>();
                let sums = [sum(&codes[..16]), sum(&codes[16..])];
                assert_eq!((b.minus, b.minus_32), (-sums[0] - sums[1], sums.map(|sum| -32 * sum)));
                assert_eq!(b.fsum, b.scale * (sums[0] + sums[1]) as f32);
            }
        }
    }
}

#[test]
fn what_is_no_number_is_not_hidden() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 5, 31, 40] {
            let mut x = Random(1).mat(1, 41);
            x.data_mut()[at] = bad;
            let mut out = Act::new(1, 41);
            norm(&ctx(1, Kernels::best()), None, &x, &mut out, true);
            let blocks: Vec<_> = out.quantised(0).collect();
            assert!(blocks[at / 32].scale.is_nan() && blocks[at / 32].fsum.is_nan());
            assert!(!blocks[1 - at / 32].scale.is_nan());
        }
    }
}

const GLUS: [Glu; 10] = [
    Glu::Sigmoid,
    Glu::Silu,
    Glu::SiluScaled(0.7),
    Glu::GeluTanh,
    Glu::Gelu,
    Glu::Relu,
    Glu::Relu2,
    Glu::QuickGelu,
    Glu::ClampedGelu { limit: 0.7 },
    Glu::Xielu { p: 0.8, n: 1.3, beta: 0.5, eps: -1e-6 },
];

#[test]
fn gated_units() {
    for cols in COLS {
        let mut random = Random(cols as u64);
        let (gate, up) = (random.mat(7, cols), random.mat(7, cols));
        for act in GLUS {
            for with_up in [false, true] {
                let run = |ctx: &Ctx, rows: std::ops::Range<usize>, q8| {
                    let up = with_up.then(|| copy(&up, rows.clone()));
                    let mut out = Act::new(7, cols);
                    glu(ctx, act, &copy(&gate, rows), up.as_ref(), &mut out, q8);
                    out
                };
                check(7, |ctx, rows| act_bits(&run(ctx, rows, true)));
                let y = check(7, |ctx, rows| bits(run(ctx, rows, false).f32_mut()));
                near(
                    &y,
                    |i, j| {
                        let x = f64::from(gate.row(i)[j]);
                        let mut up = f64::from(up.row(i)[j]);
                        let y = match act {
                            Glu::Sigmoid => 1.0 / (1.0 + (-x).exp()),
                            Glu::Silu => x / (1.0 + (-x).exp()),
                            Glu::SiluScaled(by) => {
                                let x = x * f64::from(by);
                                x / (1.0 + (-x).exp())
                            }
                            Glu::GeluTanh => {
                                let u = (2.0 / std::f64::consts::PI).sqrt()
                                    * (x + 0.044715 * x.powi(3));
                                0.5 * x * (1.0 + u.tanh())
                            }
                            Glu::Gelu => 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt())),
                            Glu::Relu => x.max(0.0),
                            Glu::Relu2 => x.max(0.0).powi(2),
                            Glu::QuickGelu => x / (1.0 + (-1.702 * x).exp()),
                            Glu::ClampedGelu { limit } => {
                                let limit = f64::from(limit);
                                up = up.clamp(-limit, limit) + 1.0;
                                let x = x.min(limit);
                                x / (1.0 + (-1.702 * x).exp())
                            }
                            Glu::Xielu { p, n, beta, eps } => {
                                let [p, n, beta, eps] = [p, n, beta, eps].map(f64::from);
                                let below = n * (x.min(eps).exp_m1() - x);
                                beta * x + if x > 0.0 { p * x * x } else { below }
                            }
                        };
                        if with_up { y * up } else { y }
                    },
                    1e-6,
                );
            }
        }
    }
}

#[test]
fn residuals() {
    for cols in COLS {
        let mut random = Random(cols as u64);
        let (x, y, weight) = (random.mat(11, cols), random.mat(11, cols), random.vec(cols));
        let post = Norm { kind: NormKind::Rms, eps: 1e-6, weight: Some(&weight), bias: None };
        let skip = random.mat(11, cols);
        for (post, skips, then) in
            [(None, false, 1.0), (Some(post), false, 1.0), (None, true, 0.8), (None, false, 3.0)]
        {
            let sum = check(11, |ctx, rows| {
                let skip = copy(&skip, rows.clone());
                let skip = skips.then(|| (0.6, (&skip).into()));
                let how = Residual { post, scale: 0.37, skip, then };
                let (mut y, mut x) = (copy(&y, rows.clone()), copy(&x, rows));
                residual(ctx, &how, &mut y, &mut x);
                bits(&x)
            });
            let want = |i: usize, j: usize| {
                let from = if skips { 0.6 * skip.row(i)[j] } else { x.row(i)[j] };
                f64::from(then) * (f64::from(from) + 0.37 * f64::from(y.row(i)[j]))
            };
            if post.is_none() {
                near(&sum, want, 1e-6);
            }
        }
    }
}

#[test]
fn rotations() {
    for (head_dim, dim) in
        [(2, 2), (24, 24), (64, 64), (80, 32), (96, 96), (128, 128), (256, 64), (6, 4)]
    {
        let mut random = Random(head_dim as u64);
        let (x, angles) = (random.mat(11, 3 * head_dim), random.mat(11, dim / 2));
        let mut table = Mat::new(11, dim);
        for i in 0..11 {
            for (j, a) in angles.row(i).iter().enumerate() {
                table.row_mut(i)[j] = a.cos();
                table.row_mut(i)[dim / 2 + j] = a.sin();
            }
        }
        let weight = random.vec(3 * head_dim);
        let norm =
            |weight| Norm { kind: NormKind::Rms, eps: 1e-6, weight: Some(weight), bias: None };
        let norms = [
            None,
            Some(HeadNorm::PerHead(norm(&weight[..head_dim]))),
            Some(HeadNorm::Whole(norm(&weight))),
        ];
        for layout in [RopeLayout::Halves, RopeLayout::Pairs] {
            for norm in norms {
                let y = check(11, |ctx, rows| {
                    let (mut x, table) = (copy(&x, rows.clone()), copy(&table, rows));
                    let rope = Some((layout, &table));
                    rotate(ctx, &Rotate { head_dim, norm, rope, ..Rotate::default() }, &mut x);
                    bits(&x)
                });
                if norm.is_some() {
                    continue;
                }
                near(
                    &y,
                    |i, j| {
                        let (head, j) = (j / head_dim * head_dim, j % head_dim);
                        let at = |j: usize| f64::from(x.row(i)[head + j]);
                        if j >= dim {
                            return at(j);
                        }
                        let (pair, second, other) = match layout {
                            RopeLayout::Halves => {
                                (j % (dim / 2), j >= dim / 2, (j + dim / 2) % dim)
                            }
                            RopeLayout::Pairs => (j / 2, j % 2 == 1, j ^ 1),
                        };
                        let (sin, cos) = f64::from(angles.row(i)[pair]).sin_cos();
                        at(j) * cos + if second { at(other) * sin } else { -at(other) * sin }
                    },
                    1e-6,
                );
            }
        }
    }
}

/// Bounds, norms of every kind on either side of the rotation, and factors of rows.
#[test]
fn preparations() {
    let (heads, head_dim) = (3, 24);
    let mut random = Random(7);
    let (x, table) = (random.mat(11, heads * head_dim), random.mat(11, 8));
    let (weight, bias) = (random.vec(heads * head_dim), random.vec(heads * head_dim));
    let scales = random.vec(11);
    let norm = |kind, len: usize| Norm {
        kind,
        eps: 1e-6,
        weight: (len > 0).then(|| &weight[..len]),
        bias: (len > head_dim).then(|| &bias[..len]),
    };
    let all = heads * head_dim;
    let norms = [
        None,
        Some(HeadNorm::PerHead(norm(NormKind::Rms, 0))),
        Some(HeadNorm::PerHead(norm(NormKind::Layer, head_dim))),
        Some(HeadNorm::EachHead(norm(NormKind::Layer, all))),
        Some(HeadNorm::Whole(norm(NormKind::Rms, all))),
    ];
    let cases = norms.iter().flat_map(|before| norms.iter().map(move |then| (*before, *then)));
    for (norm, then) in cases {
        for rope in [false, true] {
            let y = check(11, |ctx, rows| {
                let (mut x, table) = (copy(&x, rows.clone()), copy(&table, rows.clone()));
                let rope = rope.then_some((RopeLayout::Pairs, &table));
                let (clip, scales) = (Some(1.5), Some(&scales[rows]));
                rotate(ctx, &Rotate { head_dim, clip, norm, rope, then, scales }, &mut x);
                bits(&x)
            });
            if rope {
                continue;
            }
            near(
                &y,
                |i, j| {
                    let row = x.row(i).iter().map(|&x| f64::from(x)).collect();
                    let bounded =
                        normed(row, norm, head_dim).into_iter().map(|x| x.clamp(-1.5, 1.5));
                    let row = normed(bounded.collect(), then, head_dim);
                    row[j] * f64::from(scales[i])
                },
                3e-6,
            );
        }
    }
}

/// The definition, in f64.
fn normed(row: Vec<f64>, norm: Option<HeadNorm<'_>>, head_dim: usize) -> Vec<f64> {
    let (norm, width, each) = match norm {
        None => return row,
        Some(HeadNorm::PerHead(norm)) => (norm, head_dim, false),
        Some(HeadNorm::EachHead(norm)) => (norm, head_dim, true),
        Some(HeadNorm::Whole(norm)) => (norm, row.len(), false),
    };
    let part = |h: usize, part: &[f64]| -> Vec<f64> {
        let count = width as f64;
        let layer = f64::from(u8::from(norm.kind == NormKind::Layer));
        let mean = layer * part.iter().sum::<f64>() / count;
        let square = part.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let by = 1.0 / (square + f64::from(norm.eps)).sqrt();
        let of = |p: Option<&[f32]>, j: usize| {
            p.map(|p| f64::from(p[if each { h * width + j } else { j }]))
        };
        let one = |(j, x): (usize, &f64)| {
            (x - mean) * by * of(norm.weight, j).unwrap_or(1.0) + of(norm.bias, j).unwrap_or(0.0)
        };
        part.iter().enumerate().map(one).collect()
    };
    row.chunks(width).enumerate().flat_map(|(h, x)| part(h, x)).collect()
}

#[test]
fn gated_heads() {
    for (heads, head_dim) in [(1, 1), (4, 24), (5, 40), (96, 1), (3, 64), (40, 128)] {
        let cols = heads * head_dim;
        let mut random = Random(cols as u64);
        let (x, gates) = (random.mat(11, cols), random.mat(11, heads));
        let run = |ctx: &Ctx, rows: std::ops::Range<usize>, q8| {
            let mut heads = Act::new(11, cols);
            norm(ctx, None, &copy(&x, rows.clone()), &mut heads, false);
            let mut out = Act::new(11, cols);
            gate_heads(ctx, &copy(&gates, rows), &heads, &mut out, q8);
            out
        };
        check(11, |ctx, rows| act_bits(&run(ctx, rows, true)));
        let y = check(11, |ctx, rows| bits(run(ctx, rows, false).f32_mut()));
        let gate = |i: usize, j| 1.0 / (1.0 + (-f64::from(gates.row(i)[j])).exp());
        near(&y, |i, j| gate(i, j / head_dim) * f64::from(x.row(i)[j]), 1e-6);
    }
}

#[test]
fn sparse_gates() {
    for cols in COLS {
        let x = Random(cols as u64).mat(11, cols);
        let y = check(11, |ctx, rows| {
            let mut x = copy(&x, rows);
            sparsify(ctx, 0.5, &mut x);
            bits(&x)
        });
        let of = |i| {
            let row = x.row(i).iter().map(|&x| f64::from(x));
            let mean = row.clone().sum::<f64>() / cols as f64;
            mean + 0.5 * (row.map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64).sqrt()
        };
        near(&y, |i, j| (f64::from(x.row(i)[j]) - of(i)).max(0.0), 1e-6);
    }
}

/// Three streams, from the first one and back to it.
#[test]
fn streams() {
    let at = |m: &Mat, i: usize, j: usize| f64::from(m.row(i)[j]);
    let size = |m: &Mat, i: usize| {
        let squares = m.row(i).iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        (squares / m.cols() as f64).sqrt()
    };
    for d in COLS {
        let mut random = Random(d as u64);
        let [x, a, b, y] = std::array::from_fn(|_| random.mat(11, d));
        let (all, p, c) = (random.mat(11, 3 * d), random.mat(11, 9), random.mat(11, 3));
        let both = |rows: &std::ops::Range<usize>| [copy(&a, rows.clone()), copy(&b, rows.clone())];
        let expanded = check(11, |ctx, rows| {
            let mut out = Mat::new(11, 3 * d);
            expand(ctx, &copy(&x, rows.clone()), &both(&rows), &mut out);
            bits(&out)
        });
        let scaled = |m: &Mat, i, j| at(m, i, j) * size(&x, i) / size(m, i);
        let want = |i, j| match j / d {
            0 => at(&x, i, j),
            k => scaled([&a, &b][k - 1], i, j % d),
        };
        near(&expanded, want, 1e-5);
        let averaged = check(11, |ctx, rows| {
            let mut x = copy(&x, rows.clone());
            average(ctx, &both(&rows), &mut x);
            bits(&x)
        });
        near(&averaged, |i, j| (want(i, j) + want(i, d + j) + want(i, 2 * d + j)) / 3.0, 1e-5);
        let predicted = |part: usize| {
            check(11, |ctx, rows| {
                let (mut new, mut first) = (Mat::new(11, 3 * d), Mat::new(rows.len(), d));
                let (mut x, p) = (copy(&all, rows.clone()), copy(&p, rows));
                turn(ctx, Turn::Predict((&p).into()), &mut x, &mut first, &mut new);
                bits([&x, &first][part])
            })
        };
        let want = |i, j| {
            let sum = (0..3).map(|k| at(&p, i, j / d * 3 + k) * at(&all, i, k * d + j % d));
            at(&all, i, j) + sum.sum::<f64>()
        };
        near(&predicted(0), want, 1e-5);
        near(&predicted(1), want, 1e-5);
        let corrected = |part: usize| {
            check(11, |ctx, rows| {
                let (mut x, mut y) = (copy(&all, rows.clone()), copy(&y, rows.clone()));
                let (mut new, c) = (Mat::new(11, 3 * d), copy(&c, rows));
                turn(ctx, Turn::Correct((&c).into()), &mut x, &mut y, &mut new);
                bits([&x, &y][part])
            })
        };
        let want = |i, j| {
            let news = at(&y, i, j % d) - at(&all, i, j % d);
            at(&all, i, j) + (1.0 + at(&c, i, j / d)) * news
        };
        near(&corrected(0), want, 1e-5);
        near(&corrected(1), want, 1e-5);
        let joined = check(11, |ctx, rows| {
            let (mut x, mut y) = (copy(&all, rows.clone()), copy(&y, rows));
            turn(ctx, Turn::Others(None, 0.5), &mut x, &mut y, &mut Mat::new(11, 3 * d));
            bits(&x)
        });
        let of = |i, j| if j < d { 0.0 } else { 0.5 * at(&y, i, j % d) };
        near(&joined, |i, j| at(&all, i, j) + of(i, j), 1e-6);
    }
}

#[test]
fn soft_caps() {
    for cols in COLS {
        let x = Random(cols as u64).mat(7, cols);
        let y = check(7, |ctx, rows| {
            let mut x = copy(&x, rows);
            softcap(ctx, 1.7, &mut x);
            bits(&x)
        });
        near(&y, |i, j| 1.7 * (f64::from(x.row(i)[j]) / 1.7).tanh(), 1e-6);
    }
}

#[test]
fn gates() {
    for cols in COLS {
        let mut random = Random(cols as u64);
        let x = random.mat(11, cols);
        let (rate, bias) = (random.vec(cols), random.vec(cols));
        let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        type Exact<'a> = &'a dyn Fn(f64, f64, f64) -> f64;
        let cases: [(Gate<'_>, Exact<'_>); 5] = [
            (Gate::Sigmoid { scale: 2.0 }, &|x, _, _| 2.0 * sigmoid(x)),
            (Gate::Softplus { bias: Some(&bias), least: 0.1, most: 3.0 }, &|x, _, b| {
                softplus(x + b).clamp(f64::from(0.1f32), 3.0)
            }),
            (Gate::Exp { rate: &rate }, &|x, r, _| (r * x).exp()),
            (Gate::Decay { rate: &rate, bias: &bias }, &|x, r, b| (r * softplus(x + b)).exp()),
            (Gate::BoundedDecay { rate: &rate, bias: &bias, bound: -5.0 }, &|x, r, b| {
                (-5.0 * sigmoid(r * (x + b))).exp()
            }),
        ];
        for (how, exact) in cases {
            let y = check(11, |ctx, rows| {
                let mut out = Mat::new(11, cols);
                gate(ctx, how, &copy(&x, rows), &mut out);
                bits(&out)
            });
            let of = |v: &[f32], j: usize| f64::from(v[j]);
            near(&y, |i, j| exact(f64::from(x.row(i)[j]), of(&rate, j), of(&bias, j)), 1e-5);
        }
    }
}

#[test]
fn norms_of_groups() {
    let mut random = Random(7);
    for (width, groups, weights) in [(16, 3, 16), (24, 5, 24 * 5), (130, 7, 130)] {
        let (weight, x) = (random.vec(weights), random.mat(11, width * groups));
        let n = Norm { kind: NormKind::Rms, eps: 1e-5, weight: Some(&weight), bias: None };
        let y = check(11, |ctx, rows| {
            let mut out = copy(&x, rows);
            norm_groups(ctx, &n, width, &mut out);
            bits(&out)
        });
        near(
            &y,
            |i, j| {
                let value = |j: usize| f64::from(x.row(i)[j]);
                let (first, k) = (j / width * width, j % weights);
                let square = (first..first + width).map(|j| value(j).powi(2)).sum::<f64>();
                value(j) * f64::from(weight[k]) / (square / width as f64 + 1e-5).sqrt()
            },
            3e-6,
        );
    }
}
