//! Q2_K to Q6_K: blocks of 256. Each sub-block is fitted by itself; then the block's scales, which
//! the sub-blocks' are small multiples of, are fitted to all codes, and the codes to them, in turn.
use super::search::{code, inverse, largest, line, scale, sum};
use super::weights;
use half::f16;

/// Times that the block's scales and the codes are fitted to each other.
const ROUNDS: usize = 2;

/// What a block's codes mean: its scales, and bounds of what is stored.
trait Meaning<const N: usize>: Copy {
    /// A sub-block with these multiples of the block's scales and its nearest codes.
    fn fit(self, x: &[f32; N], w: &[f32; N], multiples: (f32, f32)) -> Fit<N>;
    /// The multiples next to some, within bounds.
    fn around(self, multiples: (f32, f32)) -> impl Iterator<Item = (f32, f32)>;
    /// The same with the scales that least squares make of all codes.
    fn refitted(self, x: &[[f32; N]], w: &[[f32; N]], fits: &[Fit<N>]) -> Self;
}

/// A sub-block: multiples of the block's scales, codes, and their weighted square error.
#[derive(Clone, Copy)]
struct Fit<const N: usize> {
    s: f32,
    t: f32,
    q: [f32; N],
    error: f32,
}

/// Fits all sub-blocks, from multiples that fit each roughly, to `meaning`, and it to them in turn.
fn fitted<const N: usize, const COUNT: usize, M: Meaning<N>>(
    x: &[[f32; N]; COUNT],
    w: &[[f32; N]; COUNT],
    mut meaning: M,
    rough: impl Fn(usize) -> (f32, f32),
) -> (M, [Fit<N>; COUNT]) {
    let best = |meaning: M, j: usize, multiples| {
        let first = meaning.fit(&x[j], &w[j], multiples);
        meaning.around(multiples).fold(first, |best, multiples| {
            let fit = meaning.fit(&x[j], &w[j], multiples);
            if fit.error < best.error { fit } else { best }
        })
    };
    let error = |fits: &[Fit<N>; COUNT]| fits.iter().map(|fit| fit.error).sum::<f32>();
    let mut fits: [Fit<N>; COUNT] = std::array::from_fn(|j| best(meaning, j, rough(j)));
    for _ in 0..ROUNDS {
        let next = meaning.refitted(x, w, &fits);
        let again = std::array::from_fn(|j| best(next, j, (fits[j].s, fits[j].t)));
        if error(&again) >= error(&fits) {
            break;
        }
        (meaning, fits) = (next, again);
    }
    (meaning, fits)
}

/// `d·s·q - m·t`: codes up to `high`, multiples up to `most`.
#[derive(Clone, Copy)]
struct Shifted {
    d: f16,
    m: f16,
    high: f32,
    most: f32,
}

impl<const N: usize> Meaning<N> for Shifted {
    fn fit(self, x: &[f32; N], w: &[f32; N], (s, t): (f32, f32)) -> Fit<N> {
        let (step, shift) = (self.d.to_f32() * s, self.m.to_f32() * t);
        let per = inverse(step);
        let q = std::array::from_fn(|i| code((x[i] + shift) * per, 0.0, self.high));
        let error = sum::<N>(|i| {
            let e = step * q[i] - shift - x[i];
            w[i] * e * e
        });
        Fit { s, t, q, error }
    }
    fn around(self, (s, t): (f32, f32)) -> impl Iterator<Item = (f32, f32)> {
        let stored = 0.0..=self.most;
        let all = [-1.0, 0.0, 1.0].into_iter();
        let all = all.clone().flat_map(move |a| all.clone().map(move |b| (s + a, t + b)));
        all.filter(move |at| *at != (s, t) && stored.contains(&at.0) && stored.contains(&at.1))
    }
    fn refitted(self, x: &[[f32; N]], w: &[[f32; N]], fits: &[Fit<N>]) -> Shifted {
        let (mut qq, mut q1, mut ones, mut xq, mut x1) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for ((x, w), f) in x.iter().zip(w).zip(fits) {
            qq += f.s * f.s * sum::<N>(|i| w[i] * f.q[i] * f.q[i]);
            q1 += f.s * f.t * sum::<N>(|i| w[i] * f.q[i]);
            ones += f.t * f.t * sum::<N>(|i| w[i]);
            xq += f.s * sum::<N>(|i| w[i] * x[i] * f.q[i]);
            x1 += f.t * sum::<N>(|i| w[i] * x[i]);
        }
        let per = inverse(qq * ones - q1 * q1);
        let (d, m) = ((xq * ones - x1 * q1) * per, (xq * q1 - x1 * qq) * per);
        let (d, m) = if d > 0.0 && m >= 0.0 { (d, m) } else { (xq * inverse(qq), 0.0) };
        Shifted { d: f16::from_f32(d), m: f16::from_f32(m), ..self }
    }
}

/// A block of [`Shifted`]: its multiples and codes.
struct Affine<const COUNT: usize> {
    d: f16,
    m: f16,
    s: [u8; COUNT],
    t: [u8; COUNT],
    q: [u8; 256],
}

fn affine<const N: usize, const COUNT: usize>(
    x: &[f32; 256],
    high: f32,
    most: f32,
) -> Affine<COUNT> {
    let x: &[[f32; N]; COUNT] = parts(x);
    let w = x.each_ref().map(weights);
    let lines: [_; COUNT] = std::array::from_fn(|j| line(&x[j], &w[j], high, true));
    let (scale, shift) = lines.iter().fold((0.0, 0.0), |(a, b): (f32, f32), line| {
        (
            if line.scale > a { line.scale } else { a },
            if -line.offset > b { -line.offset } else { b },
        )
    });
    let (d, m) = (f16::from_f32(scale / most), f16::from_f32(shift / most));
    let per = (inverse(d.to_f32()), inverse(m.to_f32()));
    let rough = |j: usize| {
        (code(lines[j].scale * per.0, 0.0, most), code(-lines[j].offset * per.1, 0.0, most))
    };
    let (Shifted { d, m, .. }, fits) = fitted(x, &w, Shifted { d, m, high, most }, rough);
    let (s, t) = (fits.map(|fit| fit.s as u8), fits.map(|fit| fit.t as u8));
    let mut q = [0; 256];
    for (out, q) in q.iter_mut().zip(fits.iter().flat_map(|fit| &fit.q)) {
        *out = *q as u8;
    }
    Affine { d, m, s, t, q }
}

/// `d·s·q`: codes from `low` on, which is the longer end, multiples from `least` on, as well.
#[derive(Clone, Copy)]
struct Signed {
    d: f16,
    low: f32,
    least: f32,
}

impl Meaning<16> for Signed {
    fn fit(self, x: &[f32; 16], w: &[f32; 16], (s, _): (f32, f32)) -> Fit<16> {
        let step = self.d.to_f32() * s;
        let per = inverse(step);
        let q = std::array::from_fn(|i| code(x[i] * per, self.low, -1.0 - self.low));
        let error = sum::<16>(|i| {
            let e = step * q[i] - x[i];
            w[i] * e * e
        });
        Fit { s, t: 0.0, q, error }
    }
    fn around(self, (s, t): (f32, f32)) -> impl Iterator<Item = (f32, f32)> {
        let stored = self.least..=-1.0 - self.least;
        [s - 1.0, s + 1.0].into_iter().filter(move |s| stored.contains(s)).map(move |s| (s, t))
    }
    fn refitted(self, x: &[[f32; 16]], w: &[[f32; 16]], fits: &[Fit<16>]) -> Signed {
        let (mut along, mut square) = (0.0, 0.0);
        for ((x, w), f) in x.iter().zip(w).zip(fits) {
            along += f.s * sum::<16>(|i| w[i] * x[i] * f.q[i]);
            square += f.s * f.s * sum::<16>(|i| w[i] * f.q[i] * f.q[i]);
        }
        Signed { d: f16::from_f32(along * inverse(square)), ..self }
    }
}

/// A block of [`Signed`]: multiples' bits, and codes from zero on.
fn signed(x: &[f32; 256], low: f32, least: f32) -> (f16, [i8; 16], [u8; 256]) {
    let x: &[[f32; 16]; 16] = parts(x);
    let w = x.each_ref().map(weights);
    let scales: [f32; 16] = std::array::from_fn(|j| scale(&x[j], &w[j], low, -1.0 - low));
    let d = f16::from_f32(largest(&scales) / least);
    let per = inverse(d.to_f32());
    let rough = |j: usize| (code(scales[j] * per, least, -1.0 - least), 0.0);
    let (Signed { d, .. }, fits) = fitted(x, &w, Signed { d, low, least }, rough);
    let mut q = [0; 256];
    for (out, q) in q.iter_mut().zip(fits.iter().flat_map(|fit| &fit.q)) {
        *out = (q - low) as u8;
    }
    (d, fits.map(|fit| fit.s as i8), q)
}

/// A block's sub-blocks.
fn parts<const N: usize, const COUNT: usize>(x: &[f32; 256]) -> &[[f32; N]; COUNT] {
    x.as_chunks().0.try_into().expect("256 elements")
}

/// 16 bytes of scale and minimum nibbles, 64 bytes of codes, d, m.
pub(super) fn q2(x: &[f32; 256]) -> [u8; 84] {
    let b = affine::<16, 16>(x, 3.0, 15.0);
    let mut out = [0; 84];
    for (out, (s, t)) in out.iter_mut().zip(b.s.iter().zip(&b.t)) {
        *out = s | t << 4;
    }
    pack::<2>(&b.q, &mut out[16..80]);
    out[80..82].copy_from_slice(&b.d.to_le_bytes());
    out[82..].copy_from_slice(&b.m.to_le_bytes());
    out
}

/// 32 bytes of third bits, 64 bytes of low bits, 12 bytes of 6-bit scales, d.
pub(super) fn q3(x: &[f32; 256]) -> [u8; 110] {
    let (d, s, q) = signed(x, -4.0, -32.0);
    let mut out = [0; 110];
    above::<2>(&q, &mut out[..32]);
    pack::<2>(&q, &mut out[32..96]);
    for (i, s) in s.iter().enumerate() {
        let s = (s + 32) as u8;
        out[96 + i % 8] |= (s & 15) << (i / 8 * 4);
        out[104 + i % 4] |= (s >> 4) << (i / 4 * 2);
    }
    out[108..].copy_from_slice(&d.to_le_bytes());
    out
}

/// d, m, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
pub(super) fn q4(x: &[f32; 256]) -> [u8; 144] {
    let b = affine::<32, 8>(x, 15.0, 63.0);
    let mut out = [0; 144];
    head(&b, &mut out[..16]);
    pack::<4>(&b.q, &mut out[16..]);
    out
}

/// d, m, 12 bytes of 6-bit scales and minima, 32 bytes of fifth bits, 128 bytes of nibbles.
pub(super) fn q5(x: &[f32; 256]) -> [u8; 176] {
    let b = affine::<32, 8>(x, 31.0, 63.0);
    let mut out = [0; 176];
    head(&b, &mut out[..16]);
    above::<4>(&b.q, &mut out[16..48]);
    pack::<4>(&b.q, &mut out[48..]);
    out
}

/// 128 bytes of nibbles, 64 bytes of high bits, 16 signed scales, d.
pub(super) fn q6(x: &[f32; 256]) -> [u8; 210] {
    let (d, s, q) = signed(x, -32.0, -128.0);
    let mut out = [0; 210];
    for (i, q) in q.iter().enumerate() {
        let (run, group, at) = (i / 128, i / 32 % 4, i % 32);
        out[64 * run + group % 2 * 32 + at] |= (q & 15) << (group / 2 * 4);
        out[128 + 32 * run + at] |= (q >> 4) << (2 * group);
    }
    for (out, s) in out[192..208].iter_mut().zip(s) {
        *out = s as u8;
    }
    out[208..].copy_from_slice(&d.to_le_bytes());
    out
}

/// d, m, and eight 6-bit scales and minima: the first four of each are the low bits of bytes 0 to 7;
/// the others have their low nibbles in bytes 8 to 11 and their high pairs atop the first.
fn head(b: &Affine<8>, out: &mut [u8]) {
    out[..2].copy_from_slice(&b.d.to_le_bytes());
    out[2..4].copy_from_slice(&b.m.to_le_bytes());
    for i in 0..4 {
        out[4 + i] = b.s[i] | b.s[i + 4] >> 4 << 6;
        out[8 + i] = b.t[i] | b.t[i + 4] >> 4 << 6;
        out[12 + i] = b.s[i + 4] & 15 | b.t[i + 4] << 4;
    }
}

/// The low `BITS` bits of each code: a run of 32 bytes holds 32 codes in its lowest bits, the next 32
/// above them, and so on.
fn pack<const BITS: usize>(q: &[u8; 256], out: &mut [u8]) {
    let groups = 8 / BITS;
    for (i, q) in q.iter().enumerate() {
        let (group, at) = (i / 32, i % 32);
        out[group / groups * 32 + at] |= (q & ((1 << BITS) - 1)) << (group % groups * BITS);
    }
}

/// The bit above the low `BITS` of each code: bit `g` of a byte is that of group `g` of 32.
fn above<const BITS: usize>(q: &[u8; 256], out: &mut [u8]) {
    for (i, q) in q.iter().enumerate() {
        out[i % 32] |= (q >> BITS & 1) << (i / 32);
    }
}
