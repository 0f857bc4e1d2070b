//! Scales that come nearest to numbers: weighted least squares over rounded candidates.
//!
//! Nothing here depends on the machine: sums run in eight lanes in a fixed order, and of IEEE 754's
//! operations only those are used that it rounds.

/// A number below 2²² as the nearest integer, ties to even: two additions on every machine.
pub(super) fn near(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT) - SHIFT
}

/// The nearest integer within `low..=high`. What is no number stays none.
pub(super) fn code(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    near(if x < low { low } else { x })
}

/// `1 / x`, or 0 where that is no number.
pub(super) fn inverse(x: f32) -> f32 {
    Some(1.0 / x).filter(|i| i.is_finite()).unwrap_or(0.0)
}

/// The sum of `of(i)` over `0..N`, a multiple of eight.
pub(super) fn sum<const N: usize>(of: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0f32; 8];
    for i in (0..N).step_by(8) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += of(i + lane);
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The element of largest magnitude.
pub(super) fn largest<const N: usize>(x: &[f32; N]) -> f32 {
    x.iter().fold(0.0, |most: f32, x| if x.abs() > most.abs() { *x } else { most })
}

/// The scale of `x ≈ scale·q` with codes `q` within `low..=high`, of which `low` is the longer end:
/// the largest element is given codes around either end, and of the scales that least squares make
/// of these, the best is taken.
pub(super) fn scale<const N: usize>(x: &[f32; N], w: &[f32; N], low: f32, high: f32) -> f32 {
    let to = inverse(largest(x));
    let mut best = (0.0, 0.0);
    let mut consider = |steps: f32| {
        let q: [f32; N] = std::array::from_fn(|i| code(x[i] * steps, low, high));
        let along = sum::<N>(|i| w[i] * x[i] * q[i]);
        let square = sum::<N>(|i| w[i] * q[i] * q[i]);
        // What a scale of `along / square` takes off the error.
        let gain = along * along / square;
        if square > 0.0 && gain > best.0 {
            best = (gain, along / square);
        }
    };
    for step in -9i8..=9 {
        consider(to * (low + 0.1 * f32::from(step)));
    }
    consider(to * high);
    best.1
}

/// `x ≈ scale·q + offset`.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub scale: f32,
    pub offset: f32,
}

/// The line through `x` with codes `q` within `0..=high`. With `below` its offset is at most zero,
/// as the K formats have it.
pub(super) fn line<const N: usize>(x: &[f32; N], w: &[f32; N], high: f32, below: bool) -> Line {
    let least = x.iter().fold(x[0], |least, x| if *x < least { *x } else { least });
    let most = x.iter().fold(x[0], |most, x| if *x > most { *x } else { most });
    let least = if below && least > 0.0 { 0.0 } else { least };
    let (all, along) = (sum::<N>(|i| w[i]), sum::<N>(|i| w[i] * x[i]));
    let mut best = (f32::NEG_INFINITY, Line { scale: 0.0, offset: least });
    let mut consider = |steps: f32, offset: f32| {
        let q: [f32; N] = std::array::from_fn(|i| code((x[i] - offset) * steps, 0.0, high));
        let codes = sum::<N>(|i| w[i] * q[i]);
        let square = sum::<N>(|i| w[i] * q[i] * q[i]);
        let cross = sum::<N>(|i| w[i] * x[i] * q[i]);
        let per = inverse(all * square - codes * codes);
        let mut line = Line {
            scale: (all * cross - along * codes) * per,
            offset: (square * along - codes * cross) * per,
        };
        // Where all numbers are one, so are their codes.
        if per <= 0.0 {
            line = Line { scale: 0.0, offset: along * inverse(all) };
        }
        if below && line.offset > 0.0 {
            line = Line { scale: cross * inverse(square), offset: 0.0 };
        }
        let gain = line.scale * cross + line.offset * along;
        if gain > best.0 {
            best = (gain, line);
        }
        best.1
    };
    let span = inverse(most - least);
    let mut found = Line::default();
    for step in 0..=20u8 {
        found = consider(span * (high - 1.0 + 0.1 * f32::from(step)), least);
    }
    for _ in 0..2 {
        found = consider(inverse(found.scale), found.offset);
    }
    found
}
